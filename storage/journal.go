package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// segmentBytes is where a segment ends and the next begins.
const segmentBytes = 64 << 20

// JournalCounters say what became of the decisions offered since the journal was opened.
type JournalCounters struct {
	Appended  uint64
	Repeated  uint64 // offered again by a replay, and the same as before
	Divergent uint64 // offered again with other content, or left out: the replay did not make what was journaled
	// Unverified were offered again, but what was written then is pruned or cannot be read.
	Unverified uint64
	CutBytes   uint64 // cut off a torn end on opening
}

// Journal is the append-only record of every decision. It is safe for concurrent use; positions come in ascending order
// from one goroutine.
type Journal struct {
	dir   string
	log   *slog.Logger
	limit int64 // of a segment

	mu       sync.Mutex // guards what follows
	segments []segment  // ascending; the last one is open for appending
	file     appendFile
	last     Position // zero before the first record
	replay   *journalCursor
	broken   error // a failure after which the end of the file is not known; every later write repeats it
	counters JournalCounters
	buf      []byte
}

// appendFile is what the journal needs of an open segment; *os.File has it.
type appendFile interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

type segment struct {
	number uint64
	first  Position // of its first record; zero while it has none
	size   int64    // of what is intact
}

// OpenJournal opens the journal in dir, making it when there is none. A torn end, as a crash leaves it, is cut off, kept
// beside the segment, and reported. Costs one read of the newest segment.
func OpenJournal(dir string, log *slog.Logger) (*Journal, error) {
	j := &Journal{dir: dir, log: log, limit: segmentBytes}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	return j, nil
}

// Append writes d at the end. A decision at or before the last position is one that a replay made again: it is compared
// with what is there and never written twice. After an error nothing of d is in the journal, unless the error repeats.
func (j *Journal) Append(d *alerting.Decision) error {
	payload, err := encodeDecision.Marshal(d)
	if err != nil {
		return fmt.Errorf("journal: decision for %s: %w", positionOf(d), err)
	}
	if len(payload) > recordMost {
		return fmt.Errorf("journal: decision for %s has %d bytes, the most is %d", positionOf(d), len(payload), recordMost)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return j.broken
	}
	at := positionOf(d)
	if at.Compare(j.last) <= 0 {
		j.compare(at, payload)
		return nil
	}
	j.endReplay()
	j.buf = appendRecord(j.buf[:0], payload)
	s := &j.segments[len(j.segments)-1]
	if s.size+int64(len(j.buf)) > j.limit && !s.first.Tick.IsZero() {
		if err := j.rotate(); err != nil {
			return err
		}
		s = &j.segments[len(j.segments)-1]
	}
	if _, err := j.file.Write(j.buf); err != nil {
		if e := j.file.Truncate(s.size); e != nil {
			j.breakOff(errors.Join(err, e))
			return j.broken
		}
		return fmt.Errorf("journal %s: %w", j.path(s.number), err)
	}
	if s.first.Tick.IsZero() {
		s.first = at
	}
	s.size += int64(len(j.buf))
	j.last = at
	j.counters.Appended++
	return nil
}

// Sync makes everything appended survive a loss of power. Call it before the snapshot that includes the decisions, so
// that the journal is never behind the snapshot.
func (j *Journal) Sync() error {
	j.mu.Lock()
	file, broken := j.file, j.broken
	j.mu.Unlock()
	if broken != nil {
		return broken
	}
	err := file.Sync() // others append meanwhile
	if err == nil || errors.Is(err, os.ErrClosed) {
		return nil // a file that was closed for the next segment was synced before
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.breakOff(err)
	return j.broken
}

// breakOff gives up after a failed write or fsync: what that left on disk is not known, and a second fsync may lie.
func (j *Journal) breakOff(err error) {
	j.broken = fmt.Errorf("journal %s cannot be written any more: %w: mend the disk and restart", j.dir, err)
}

func (j *Journal) rotate() error {
	if err := j.file.Sync(); err != nil {
		j.breakOff(err)
		return j.broken
	}
	n := j.segments[len(j.segments)-1].number + 1
	f, err := j.create(n)
	if err != nil {
		return fmt.Errorf("journal: new segment: %w", err)
	}
	_ = j.file.Close() // synced above
	j.file = f
	j.segments = append(j.segments, segment{number: n, size: int64(len(journalMagic))})
	return nil
}

// Last is the newest position; ok is false for an empty journal.
func (j *Journal) Last() (at Position, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last, !j.last.Tick.IsZero()
}

// Counters are since opening.
func (j *Journal) Counters() JournalCounters {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counters
}

// Prune removes the segments all of whose decisions are before the given tick; the newest segment stays.
func (j *Journal) Prune(before time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.segments) > 1 && !j.segments[1].first.Tick.IsZero() && j.segments[1].first.Tick.Before(before) {
		if err := os.Remove(j.path(j.segments[0].number)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("journal: %w", err)
		}
		j.segments = slices.Delete(j.segments, 0, 1)
		j.endReplay() // its place is given by segment index
	}
	return nil
}

// Close syncs and closes; the journal is of no use afterwards.
func (j *Journal) Close() error {
	err := j.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.endReplay()
	return errors.Join(err, j.file.Close())
}

func (j *Journal) path(number uint64) string {
	return filepath.Join(j.dir, fmt.Sprintf("%s%06d%s", segmentPrefix, number, segmentSuffix))
}

// compare looks up what was journaled at a position that a replay has reached again.
func (j *Journal) compare(at Position, payload []byte) {
	if j.replay == nil {
		j.replay = j.openCursor(at)
	}
	there, skipped, err := j.replay.find(at, payload)
	before := j.counters
	j.counters.Divergent += skipped
	switch {
	case err != nil:
		j.counters.Unverified++
	case bytes.Equal(there, payload):
		j.counters.Repeated++
	default:
		j.counters.Divergent++
	}
	if before.Unverified == 0 && err != nil { // the first says it, the counters say how many
		j.log.Warn("a replayed decision cannot be compared with the journal", "decision", at.String(), "cause", err.Error())
	}
	if before.Divergent == 0 && j.counters.Divergent > 0 {
		j.log.Error("the replay does not make the decisions that are journaled; the journal keeps the first ones", "decision", at.String())
	}
}

func (j *Journal) endReplay() {
	if j.replay != nil {
		j.replay.close()
		j.replay = nil
	}
}
