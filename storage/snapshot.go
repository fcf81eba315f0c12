package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// MaxSnapshotBytes bounds the payload of a snapshot.
const MaxSnapshotBytes = 1 << 30

const (
	snapshotMagic   = "FWSNAP\r\n" // the line end shows a file mangled by a text transfer
	snapshotVersion = 1
	snapshotPrefix  = "snapshot-"
	snapshotSuffix  = ".fws"
	snapshotsKept   = 2

	snapshotFixed = len(snapshotMagic) + 4 + 8 + 8 + 2 // before the stream's name
	snapshotRest  = 8 + sha256.Size                    // between the name and the payload
)

// ErrNoSnapshot says that there is nothing to load: the state starts empty at the beginning of the stream.
var ErrNoSnapshot = errors.New("no snapshot")

// Stream identifies the event log that a state was folded from. A stream that was deleted and made again has another
// creation time, and its sequences mean other events.
type Stream struct {
	Name    string // at most 65 535 bytes
	Created time.Time
}

func (s Stream) equal(o Stream) bool { return s.Name == o.Name && s.Created.Equal(o.Created) }

// Snapshot is the state of the fold after the event with sequence Sequence.
type Snapshot struct {
	Stream   Stream
	Sequence uint64
	Payload  []byte
}

// encodeHeader gives everything before the payload.
func (s *Snapshot) encodeHeader() ([]byte, error) {
	if len(s.Stream.Name) > math.MaxUint16 {
		return nil, fmt.Errorf("stream name has %d bytes, the most is %d", len(s.Stream.Name), math.MaxUint16)
	}
	if len(s.Payload) > MaxSnapshotBytes {
		return nil, fmt.Errorf("state has %d bytes, the most is %d: lower the caps on pools, classes or tenants", len(s.Payload), MaxSnapshotBytes)
	}
	le := binary.LittleEndian
	b := make([]byte, 0, snapshotFixed+len(s.Stream.Name)+snapshotRest)
	b = append(b, snapshotMagic...)
	b = le.AppendUint32(b, snapshotVersion)
	b = le.AppendUint64(b, s.Sequence)
	b = le.AppendUint64(b, uint64(s.Stream.Created.UnixNano()))
	b = le.AppendUint16(b, uint16(len(s.Stream.Name)))
	b = append(b, s.Stream.Name...)
	b = le.AppendUint64(b, uint64(len(s.Payload)))
	return append(b, sum(b, s.Payload)...), nil
}

func sum(header, payload []byte) []byte {
	h := sha256.New()
	h.Write(header)
	h.Write(payload)
	return h.Sum(nil)
}

// decodeSnapshot reads what encodeHeader and the payload make; the payload is a part of b. Anything else is an error,
// whatever the bytes.
func decodeSnapshot(b []byte) (*Snapshot, error) {
	le := binary.LittleEndian
	if len(b) < snapshotFixed+snapshotRest {
		return nil, fmt.Errorf("%d bytes, shorter than a header", len(b))
	}
	if !bytes.HasPrefix(b, []byte(snapshotMagic)) {
		return nil, errors.New("not a snapshot file")
	}
	at := len(snapshotMagic)
	if v := le.Uint32(b[at:]); v != snapshotVersion {
		return nil, &versionError{v}
	}
	s := &Snapshot{Sequence: le.Uint64(b[at+4:])}
	s.Stream.Created = time.Unix(0, int64(le.Uint64(b[at+12:]))).UTC()
	name := int(le.Uint16(b[at+20:]))
	if len(b) < snapshotFixed+name+snapshotRest {
		return nil, fmt.Errorf("%d bytes, cut inside the header", len(b))
	}
	s.Stream.Name = string(b[snapshotFixed : snapshotFixed+name])
	at = snapshotFixed + name
	length, digest := le.Uint64(b[at:]), b[at+8:at+snapshotRest]
	s.Payload = b[at+snapshotRest:]
	if length != uint64(len(s.Payload)) {
		return nil, fmt.Errorf("payload of %d bytes where the header says %d", len(s.Payload), length)
	}
	if !bytes.Equal(digest, sum(b[:at+8], s.Payload)) {
		return nil, errors.New("checksum does not match")
	}
	return s, nil
}

type versionError struct{ version uint32 }

func (e *versionError) Error() string {
	return fmt.Sprintf("format version %d, this forewarm reads %d", e.version, snapshotVersion)
}

// Snapshots is the directory of snapshots. It is for one goroutine.
type Snapshots struct {
	dir     string
	numbers []uint64 // of the files there are, ascending, without those found damaged
	damaged []uint64 // found by Load; removed by the next Save
	next    uint64
	found   int // files found damaged since opening
	log     *slog.Logger
}

// Damaged is the number of files found damaged since opening.
func (s *Snapshots) Damaged() int { return s.found }

// OpenSnapshots makes dir when needed and clears what a crash left half-written.
func OpenSnapshots(dir string, log *slog.Logger) (*Snapshots, error) {
	numbers, err := list(dir, snapshotPrefix, snapshotSuffix)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	s := &Snapshots{dir: dir, numbers: numbers, next: 1, log: log}
	if n := len(numbers); n > 0 {
		s.next = numbers[n-1] + 1
	}
	return s, nil
}

func (s *Snapshots) path(n uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%09d%s", snapshotPrefix, n, snapshotSuffix))
}

// Save writes snap and then removes all but the newest two intact files. After an error the files before are still
// there.
func (s *Snapshots) Save(snap *Snapshot) error {
	header, err := snap.encodeHeader()
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	n := s.next
	s.next++ // also after a failure, which may have left the file in place
	if err := writeFile(s.path(n), header, snap.Payload); err != nil {
		return fmt.Errorf("snapshot %s: %w", s.path(n), err)
	}
	s.numbers = append(s.numbers, n)
	surplus := s.damaged
	if extra := len(s.numbers) - snapshotsKept; extra > 0 {
		surplus = append(surplus, s.numbers[:extra]...)
		s.numbers = slices.Delete(s.numbers, 0, extra)
	}
	s.damaged = nil
	for _, n := range surplus {
		if err := os.Remove(s.path(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("snapshot saved, but an old one stays: %w", err)
		}
	}
	return nil
}

// Load gives the newest intact snapshot of the stream, of any stream for the zero one; damaged newer ones are logged and counted. It fails with [ErrNoSnapshot] when there is
// no file, and with an error that names the mend when there are files but none can be used: a snapshot of another
// stream, or of a newer format, is never passed over.
func (s *Snapshots) Load(stream Stream) (*Snapshot, error) {
	var damage error
	for i := len(s.numbers) - 1; i >= 0; i-- {
		path := s.path(s.numbers[i])
		snap, err := readSnapshot(path)
		var version *versionError
		var io *os.PathError
		switch {
		case errors.As(err, &io):
			return nil, fmt.Errorf("snapshot: %w: make it readable, or move it away to use the one before", err)
		case errors.As(err, &version):
			return nil, fmt.Errorf("snapshot %s: %w: run the version that wrote it, or move %s away to start from the beginning of the stream", path, err, s.dir)
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
			return snap, nil
		}
	}
	if damage != nil {
		return nil, fmt.Errorf("no intact snapshot in %s (%w): move it away to start from the beginning of the stream", s.dir, damage)
	}
	return nil, ErrNoSnapshot
}

func readSnapshot(path string) (*Snapshot, error) {
	const most = snapshotFixed + math.MaxUint16 + snapshotRest + MaxSnapshotBytes
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > int64(most) {
		return nil, fmt.Errorf("%d bytes, larger than any snapshot", info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeSnapshot(b)
}
