package storage

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// MaxSnapshotBytes bounds the payload of a snapshot.
const MaxSnapshotBytes = 1 << 30

const (
	snapshotMagic   = "FWSNAP\r\n" // the line end shows a file mangled by a text transfer
	snapshotVersion = 2
	snapshotPrefix  = "snapshot-"
	snapshotSuffix  = ".fws"
	snapshotsKept   = 2
	oldSuffix       = ".old-" // of what was put aside; why follows

	snapshotFixed   = len(snapshotMagic) + 4 + 8 + 8 + 2 // before the stream's name
	snapshotTrailer = 8 + sha256.Size + 4                // after the payload
	snapshotBuffer  = 256 << 10
)

// ErrNoSnapshot says that there is nothing to load: the state starts empty at the beginning of the stream.
var ErrNoSnapshot = errors.New("no snapshot")

// ErrNoneIntact says that there are snapshots, and that all are damaged.
var ErrNoneIntact = errors.New("no intact snapshot")

// Stream identifies the event log that a state was folded from. A stream that was deleted and made again has another
// creation time, and its sequences mean other events.
type Stream struct {
	Name    string // at most 65 535 bytes
	Created time.Time
}

func (s Stream) equal(o Stream) bool { return s.Name == o.Name && s.Created.Equal(o.Created) }

// Snapshot says what a file holds: the state of the fold after the event with sequence Sequence.
type Snapshot struct {
	Stream   Stream
	Sequence uint64
	Bytes    int64             // of the state
	Digest   [sha256.Size]byte // of the state

	path string
}

// Open gives the state to read, Bytes long.
func (s *Snapshot) Open() (io.ReadCloser, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	at := int64(snapshotFixed + len(s.Stream.Name))
	return &payload{bufio.NewReaderSize(io.NewSectionReader(f, at, s.Bytes), snapshotBuffer), f}, nil
}

type payload struct {
	io.Reader
	io.Closer
}

// header is everything before the payload.
func (s *Snapshot) header() ([]byte, error) {
	if len(s.Stream.Name) > math.MaxUint16 {
		return nil, fmt.Errorf("stream name has %d bytes, the most is %d", len(s.Stream.Name), math.MaxUint16)
	}
	le := binary.LittleEndian
	b := make([]byte, 0, snapshotFixed+len(s.Stream.Name)+snapshotTrailer)
	b = append(b, snapshotMagic...)
	b = le.AppendUint32(b, snapshotVersion)
	b = le.AppendUint64(b, s.Sequence)
	b = le.AppendUint64(b, uint64(s.Stream.Created.UnixNano()))
	b = le.AppendUint16(b, uint16(len(s.Stream.Name)))
	return append(b, s.Stream.Name...), nil
}

// trailer is everything after the payload.
func (s *Snapshot) trailer(header []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(s.Bytes))
	b = append(b, s.Digest[:]...)
	check := crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, b)
	return binary.LittleEndian.AppendUint32(b, check)
}

// encode writes a snapshot whose payload is what state writes, and notes the payload's length and digest. It holds no
// more than a buffer of it.
func (s *Snapshot) encode(w io.Writer, state func(io.Writer) error) error {
	header, err := s.header()
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(w, snapshotBuffer)
	if _, err := buffered.Write(header); err != nil {
		return err
	}
	sum := &summer{to: buffered, hash: sha256.New()}
	if err := state(sum); err != nil {
		return err
	}
	s.Bytes, s.Digest = sum.bytes, [sha256.Size]byte(sum.hash.Sum(nil))
	if _, err := buffered.Write(s.trailer(header)); err != nil {
		return err
	}
	return buffered.Flush()
}

// summer hashes and counts what is written, up to the most that a snapshot may hold.
type summer struct {
	to    io.Writer
	hash  hash.Hash
	bytes int64
}

func (s *summer) Write(b []byte) (int, error) {
	if s.bytes += int64(len(b)); s.bytes > MaxSnapshotBytes {
		return 0, fmt.Errorf("state has more than %d bytes: lower the caps on pools, classes or tenants", MaxSnapshotBytes)
	}
	s.hash.Write(b)
	return s.to.Write(b)
}

// decodeSnapshot reads what encode wrote, size bytes of it, and looks at each byte. Anything else is an error, whatever
// the bytes; so little of them is held at a time that no length in them can do harm.
func decodeSnapshot(r io.Reader, size int64) (*Snapshot, error) {
	le := binary.LittleEndian
	if size < int64(snapshotFixed+snapshotTrailer) {
		return nil, fmt.Errorf("%d bytes, shorter than a header", size)
	}
	if size > int64(snapshotFixed+math.MaxUint16+snapshotTrailer)+MaxSnapshotBytes {
		return nil, fmt.Errorf("%d bytes, larger than any snapshot", size)
	}
	header := make([]byte, snapshotFixed, snapshotFixed+math.MaxUint16)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(header, []byte(snapshotMagic)) {
		return nil, errors.New("not a snapshot file")
	}
	at := len(snapshotMagic)
	if v := le.Uint32(header[at:]); v != snapshotVersion {
		return nil, &VersionError{v, snapshotVersion}
	}
	s := &Snapshot{Sequence: le.Uint64(header[at+4:])}
	s.Stream.Created = time.Unix(0, int64(le.Uint64(header[at+12:]))).UTC()
	name := int(le.Uint16(header[at+20:]))
	if s.Bytes = size - int64(snapshotFixed+name+snapshotTrailer); s.Bytes < 0 {
		return nil, fmt.Errorf("%d bytes, cut inside the header", size)
	}
	header = header[:snapshotFixed+name]
	if _, err := io.ReadFull(r, header[snapshotFixed:]); err != nil {
		return nil, err
	}
	s.Stream.Name = string(header[snapshotFixed:])
	sum := sha256.New()
	if _, err := io.CopyN(sum, r, s.Bytes); err != nil {
		return nil, err
	}
	s.Digest = [sha256.Size]byte(sum.Sum(nil))
	trailer := make([]byte, snapshotTrailer)
	if _, err := io.ReadFull(r, trailer); err != nil {
		return nil, err
	}
	if !bytes.Equal(trailer, s.trailer(header)) {
		return nil, errors.New("checksum does not match")
	}
	return s, nil
}

// Snapshots is the directory of snapshots. It is for one goroutine.
type Snapshots struct {
	dir     string
	numbers []uint64 // of the files there are, ascending, without those found damaged
	damaged []uint64 // found by Load; removed by the next Save
	next    uint64
	found   int   // files found damaged since opening
	size    int64 // of the state last saved or loaded
	disk    disk
	log     *slog.Logger
}

// Damaged is the number of files found damaged since opening.
func (s *Snapshots) Damaged() int { return s.found }

// OpenSnapshots makes dir when needed and clears what a crash left half-written.
func OpenSnapshots(dir string, log *slog.Logger) (*Snapshots, error) {
	return newSnapshots(realDisk{}, dir, log)
}

func newSnapshots(d disk, dir string, log *slog.Logger) (*Snapshots, error) {
	numbers, err := list(d, dir, snapshotPrefix, snapshotSuffix)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	s := &Snapshots{dir: dir, disk: d, numbers: numbers, next: 1, log: log}
	if n := len(numbers); n > 0 {
		s.next = numbers[n-1] + 1
	}
	old, err := oldSnapshots(dir)
	for _, name := range old { // so that names sort by age
		var n uint64
		if _, err := fmt.Sscanf(name, snapshotPrefix+"%d"+snapshotSuffix, &n); err == nil {
			s.next = max(s.next, n+1)
		}
	}
	return s, err
}

func (s *Snapshots) path(n uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%09d%s", snapshotPrefix, n, snapshotSuffix))
}

// Save writes a snapshot of the state after the event with the given sequence, state being what writes it, and then removes
// all but the newest two intact files. It gives what Load will. After an error the files before are still there.
func (s *Snapshots) Save(stream Stream, sequence uint64, state func(io.Writer) error) (*Snapshot, error) {
	n := s.next
	s.next++ // also after a failure, which may have left the file in place
	snap := &Snapshot{Stream: stream, Sequence: sequence, path: s.path(n)}
	if err := s.room(); err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", snap.path, err)
	}
	if err := writeFile(s.disk, snap.path, func(w io.Writer) error { return snap.encode(w, state) }); err != nil {
		_ = s.disk.Remove(snap.path) // whether or not it is there
		return nil, fmt.Errorf("snapshot %s: %w", snap.path, err)
	}
	s.size = snap.Bytes
	s.numbers = append(s.numbers, n)
	surplus := s.damaged
	if extra := len(s.numbers) - snapshotsKept; extra > 0 {
		surplus = append(surplus, s.numbers[:extra]...)
		s.numbers = slices.Delete(s.numbers, 0, extra)
	}
	s.damaged = nil
	for _, n := range surplus {
		if err := s.disk.Remove(s.path(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return snap, fmt.Errorf("snapshot saved, but an old one stays: %w", err)
		}
	}
	return snap, nil
}

// room refuses a state that would fill the disk, which would take others down as well, the stream first.
func (s *Snapshots) room() error {
	return roomFor(s.disk, s.dir, s.size)
}

// Load finds the newest intact snapshot of the stream, of any stream for the zero one; damaged newer ones are logged and
// counted. It reads the whole file to make sure. It fails with [ErrNoSnapshot] when there is no file, and with an error
// that names the mend when there are files but none can be used: a snapshot of another stream, or of another format, is
// never passed over.
func (s *Snapshots) Load(stream Stream) (*Snapshot, error) {
	var damage error
	for i := len(s.numbers) - 1; i >= 0; i-- {
		path := s.path(s.numbers[i])
		snap, err := readSnapshot(path)
		var version *VersionError
		var io *os.PathError
		switch {
		case errors.As(err, &io):
			return nil, fmt.Errorf("snapshot: %w: make it readable, or move it away to use the one before", err)
		case errors.As(err, &version):
			return nil, fmt.Errorf("snapshot %s: %w, or move %s away to learn anew from the stream and the series", path, err, s.dir)
		case err != nil:
			s.log.Warn("snapshot is damaged; the one before it is used", "file", path, "cause", err.Error())
			damage = err
			s.found++
			s.damaged = append(s.damaged, s.numbers[i])
			s.numbers = slices.Delete(s.numbers, i, i+1)
		case stream != (Stream{}) && !snap.Stream.equal(stream):
			return nil, fmt.Errorf("snapshot %s is of stream %q made %s, not of %q made %s: move %s away to start from the beginning of this stream, or use another storage.dir",
				path, snap.Stream.Name, snap.Stream.Created.Format(time.RFC3339), stream.Name, stream.Created.UTC().Format(time.RFC3339), s.dir)
		default:
			s.size = snap.Bytes
			return snap, nil
		}
	}
	if damage != nil {
		return nil, fmt.Errorf("%w in %s (%w): move it away to start from the beginning of the stream", ErrNoneIntact, s.dir, damage)
	}
	return nil, ErrNoSnapshot
}

// PutAside renames all snapshots, damaged ones included, so that the state starts anew while they are kept: what is left of
// them is in files named like snapshot-000000041.fws.old-<why>. Of those the newest two stay. It gives their names.
func (s *Snapshots) PutAside(why string) (names []string, err error) {
	numbers, err := numbered(s.dir, snapshotPrefix, snapshotSuffix)
	for _, n := range numbers {
		name := filepath.Base(s.path(n)) + oldSuffix + why
		if err := s.disk.Rename(s.path(n), filepath.Join(s.dir, name)); err != nil {
			return names, fmt.Errorf("snapshot: %w: make %s writable, or move it away", err, s.dir)
		}
		names = append(names, name)
	}
	s.numbers, s.damaged, s.size = nil, nil, 0
	old, e := oldSnapshots(s.dir)
	err = errors.Join(err, e)
	for _, name := range old[:max(0, len(old)-snapshotsKept)] {
		err = errors.Join(err, s.disk.Remove(filepath.Join(s.dir, name)))
	}
	return names, errors.Join(err, s.disk.SyncDir(s.dir))
}

// Aside says whether there are snapshots that were put aside.
func (s *Snapshots) Aside() bool {
	old, err := oldSnapshots(s.dir)
	return err == nil && len(old) > 0
}

// oldSnapshots are the names of the files that were put aside, oldest first.
func oldSnapshots(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir) // sorted by name
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), snapshotPrefix) && strings.Contains(e.Name(), snapshotSuffix+oldSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func readSnapshot(path string) (*Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s, err := decodeSnapshot(bufio.NewReaderSize(f, snapshotBuffer), info.Size())
	if err != nil {
		return nil, err
	}
	s.path = path
	return s, nil
}
