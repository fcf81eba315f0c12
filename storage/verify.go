package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
)

// Condition is what was found of one thing in a data directory.
type Condition string

// The conditions.
const (
	Sound    Condition = "sound"
	Noted    Condition = "noted"    // worth knowing; harms nothing
	Damaged  Condition = "damaged"  // something is lost, or the daemon would not start
	Repaired Condition = "repaired" // was damaged; what could not be kept was put aside
)

// Finding is one thing that was looked at; Path is relative to the directory.
type Finding struct {
	Path      string
	Condition Condition
	Detail    string
}

// asideSuffix marks what a repair put aside; nothing reads it.
const asideSuffix = ".damaged"

// mendHint is what to do about damage that a repair can mend.
const mendHint = "stop the daemon and run forewarm verify -repair"

// Verify reads all of a data directory, as its formats say, and tells found of everything it meets: each journal segment,
// snapshot and block, the outbox, the write-ahead log, the head's chunks,
// the mark of reports. It changes nothing unless repair is set, and then only what is
// damaged: a journal or log keeps what is before the damage, as a restart would leave it; the rest is put aside, never
// deleted. Repairing needs the directory for itself. An error says that the directory could not be looked at.
func Verify(ctx context.Context, dir string, repair bool, found func(Finding)) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("data directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("data directory %s is a file: name the directory that storage.dir names", dir)
	}
	v := &verifier{ctx: ctx, dir: dir, repair: repair, found: found}
	lock, err := v.lock()
	if err != nil {
		return err
	}
	if lock != nil {
		defer func() { _ = lock.Unlock() }() // dies with the process too
	}
	known := 0
	for _, part := range []struct {
		name   string
		verify func(dir string)
	}{
		{"journal", v.journal}, {"outbox", v.outbox}, {"snapshots", v.snapshots}, {"tsdb", v.series}, {markFile, v.mark},
	} {
		path := filepath.Join(dir, part.name)
		if _, err := os.Stat(path); err == nil {
			known++
			part.verify(path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			v.say(path, Damaged, "cannot be read: "+err.Error())
		}
	}
	if known == 0 {
		return fmt.Errorf("%s has no journal, outbox, snapshots or tsdb: name the directory that storage.dir names", dir)
	}
	return ctx.Err()
}

// verifier is one verification under way.
type verifier struct {
	ctx    context.Context
	dir    string
	repair bool
	inUse  bool // a daemon runs: what it is writing looks torn
	found  func(Finding)
}

var discard = slog.New(slog.DiscardHandler)

// lock claims the directory where it can; without a repair it does no more than say that a daemon has it.
func (v *verifier) lock() (*DirLock, error) {
	path := filepath.Join(v.dir, "lock")
	if _, err := os.Stat(path); err != nil && !v.repair {
		return nil, nil //nolint:nilnil // no daemon was ever here, and nothing may be made
	}
	lock, err := Lock(v.dir)
	switch {
	case err == nil:
		return lock, nil
	case v.repair:
		return nil, err
	case errors.Is(err, ErrLocked):
		v.inUse = true
		v.say(path, Noted, "a forewarm is running here; what it is writing may look torn")
		return nil, nil
	}
	v.say(path, Noted, "whether a forewarm is running here is not known: "+err.Error())
	return nil, nil
}

func (v *verifier) say(path string, c Condition, detail string) {
	if rel, err := filepath.Rel(v.dir, path); err == nil {
		path = filepath.ToSlash(rel)
	}
	v.found(Finding{Path: path, Condition: c, Detail: detail})
}

// mark reads what was reported. Without it the daemon reports the next period.
func (v *verifier) mark(path string) {
	switch at, _, err := ReadReported(v.dir); {
	case err != nil:
		v.damage(path, err.Error(), func() (string, error) { return v.aside(path) })
	default:
		v.say(path, Sound, "reported up to "+at.UTC().Format(time.RFC3339))
	}
}

// damage tells of damage, and mends it where that is wanted; mend says what it has done. A nil mend means that people must.
func (v *verifier) damage(path, what string, mend func() (string, error)) {
	switch {
	case mend == nil:
		v.say(path, Damaged, what)
	case !v.repair:
		v.say(path, Damaged, what+": "+mendHint)
	default:
		done, err := mend()
		if err != nil {
			v.say(path, Damaged, fmt.Sprintf("%s; the repair failed: %v", what, err))
			return
		}
		v.say(path, Repaired, what+"; "+done)
	}
}

// aside moves something out of the way, so that it is read no more.
func (v *verifier) aside(path string) (string, error) {
	to, err := aside(realDisk{}, path)
	return "put aside as " + to, err
}

// aside renames what is damaged, and says how.
func aside(d disk, path string) (name string, err error) {
	to := path + asideSuffix
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s%s.%d", path, asideSuffix, n)
	}
	if err := d.Rename(path, to); err != nil {
		return "", err
	}
	return filepath.Base(to), d.SyncDir(filepath.Dir(path))
}

// cut tells of a file of records that is damaged from byte size on.
func (v *verifier) cut(path, what string, size int64, kind string) {
	v.damage(path, what, func() (string, error) {
		torn, err := cutTail(realDisk{}, path, size, kind)
		return fmt.Sprintf("%d bytes from there on are kept in %s", torn, filepath.Base(path)+cutSuffix), err
	})
}

// journal reads every record of every segment.
func (v *verifier) journal(dir string) {
	numbers, err := numbered(dir, segmentPrefix, segmentSuffix)
	if err != nil {
		v.say(dir, Damaged, "cannot be read: "+err.Error())
		return
	}
	j := &Journal{dir: dir, log: discard}
	for i, n := range numbers {
		path := j.path(n)
		if i > 0 && numbers[i-1] != n-1 {
			v.say(path, Noted, fmt.Sprintf("the segments between %d and this one are missing: reports lack their decisions", numbers[i-1]))
		}
		s := segment{number: n}
		records, err := j.readSegment(&s)
		var torn *damageError
		switch {
		case err == nil:
			v.say(path, Sound, fmt.Sprintf("%d decisions%s", records, span(s.first.Tick, j.last.Tick, records)))
		case errors.As(err, &torn) && v.inUse && i == len(numbers)-1:
			v.say(path, Noted, fmt.Sprintf("%d decisions; the last one is being written, or torn: %v", records, err))
		case errors.As(err, &torn):
			v.cut(path, fmt.Sprintf("%v, after %d sound decisions", err, records), s.size, journalMagic)
		default:
			v.damage(path, err.Error(), nil)
		}
	}
}

// readSegment reads a segment to its end, and counts its decisions. It fills in s.first, s.size and the journal's last
// position. Damage is a [damageError], from byte s.size on.
func (j *Journal) readSegment(s *segment) (records int, err error) {
	f, err := os.Open(j.path(s.number))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	r, err := newRecordReader(f, journalMagic)
	if err != nil {
		return 0, err
	}
	for {
		s.size = r.offset
		payload, err := r.next()
		if err != nil {
			return records, endOfFile(err)
		}
		var d alerting.Decision
		if err := cbor.Unmarshal(payload, &d); err != nil || d.Tick.IsZero() {
			return records, fmt.Errorf("record at byte %d is intact but not a decision of this version (%w): read it with the version that wrote it", s.size, err)
		}
		at := positionOf(&d)
		if at.Compare(j.last) <= 0 {
			return records, fmt.Errorf("record at byte %d is %s, and the one before it %s: decisions must ascend", s.size, at, j.last)
		}
		if j.last = at; records == 0 {
			s.first = at
		}
		records++
	}
}

// outbox reads every record of the outbox.
func (v *verifier) outbox(dir string) {
	v.records(filepath.Join(dir, outboxFile), outboxMagic, true, func(payload []byte) error {
		return cbor.Unmarshal(payload, new(outboxRecord))
	})
}

// records reads a file of records, the newest of which may be being written.
func (v *verifier) records(path, kind string, newest bool, look func(payload []byte) error) {
	records, size, err := readRecords(path, kind, look)
	var torn *damageError
	switch {
	case errors.Is(err, fs.ErrNotExist): // or sent and removed meanwhile
	case err == nil:
		v.say(path, Sound, fmt.Sprintf("%d records", records))
	case errors.As(err, &torn) && v.inUse && newest:
		v.say(path, Noted, fmt.Sprintf("%d records; the last one is being written, or torn: %v", records, err))
	case errors.As(err, &torn):
		v.cut(path, fmt.Sprintf("%v, after %d sound records", err, records), size, kind)
	default:
		v.damage(path, err.Error(), nil)
	}
}

// readRecords counts the records of a file; damage is a [damageError], from byte size on.
func readRecords(path, kind string, look func(payload []byte) error) (records int, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	r, err := newRecordReader(f, kind)
	for err == nil {
		size = r.offset
		var payload []byte
		if payload, err = r.next(); err != nil {
			break
		}
		if err := look(payload); err != nil {
			return records, size, fmt.Errorf("record at byte %d is intact but not of this version: %w", size, err)
		}
		records++
	}
	return records, size, endOfFile(err)
}

// span says from when to when records are.
func span(first, last time.Time, records int) string {
	if records == 0 {
		return ""
	}
	return fmt.Sprintf(", %s to %s", first.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339))
}

// snapshots reads every snapshot to its last byte.
func (v *verifier) snapshots(dir string) {
	numbers, err := numbered(dir, snapshotPrefix, snapshotSuffix)
	if err != nil {
		v.say(dir, Damaged, "cannot be read: "+err.Error())
		return
	}
	if old, err := oldSnapshots(dir); err == nil {
		for _, name := range old {
			v.say(filepath.Join(dir, name), Noted, "was put aside because this program could not read it; nothing reads it any more")
		}
	}
	all := &Snapshots{dir: dir}
	for _, n := range numbers {
		path := all.path(n)
		s, err := readSnapshot(path)
		var version *VersionError
		var unread *os.PathError
		switch {
		case err == nil:
			v.say(path, Sound, fmt.Sprintf("state of %d bytes at sequence %d of stream %s", s.Bytes, s.Sequence, s.Stream.Name))
		case v.inUse && errors.Is(err, fs.ErrNotExist): // replaced by a newer one meanwhile
		case errors.As(err, &version):
			v.damage(path, err.Error()+", or move it away to learn anew from the stream and the series", nil)
		case errors.As(err, &unread):
			v.damage(path, "cannot be read: "+err.Error(), nil)
		default:
			v.damage(path, err.Error(), func() (string, error) { return v.aside(path) })
		}
	}
}
