package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
)

// segmentBytes is where a segment ends and the next begins.
const segmentBytes = 64 << 20

// waitingBytes bounds the decisions that wait for a disk, and those that a loss of power could take: about a thousand each.
const waitingBytes = 1 << 20

// JournalCounters say what became of the decisions offered since the journal was opened.
type JournalCounters struct {
	Appended  uint64
	Repeated  uint64 // offered again by a replay, and the same as before
	Divergent uint64 // offered again with other content, or left out: the replay did not make what was journaled
	// Unverified were offered again, but what was written then is pruned or cannot be read.
	Unverified uint64
	Waiting    uint64 // now: the disk did not take them yet
	Lost       uint64 // waited when there was no more room for them
	CutBytes   uint64 // cut off a torn end on opening
}

// Journal is the append-only record of every decision. It is safe for concurrent use; positions come in ascending order
// from one goroutine.
//
// What the disk does not take waits in memory, up to 1 MiB, and is written when it does again. After a write or fsync whose
// effect is not known, the journal goes on in another segment, with all that the last successful fsync did not cover.
type Journal struct {
	dir   string
	log   *slog.Logger
	disk  disk
	limit int64 // of a segment

	mu       sync.Mutex // guards what follows
	segments []segment  // ascending; the last one is open for appending
	file     file
	last     Position // zero before the first record
	waiting  []waiting
	unsynced []byte // the records of the last segment that no fsync covers yet
	replay   *journalCursor
	broken   error // a failure after which the end of the file is not known; nil once another segment is begun
	counters JournalCounters
}

// waiting is a decision that the disk did not take yet.
type waiting struct {
	at     Position
	record []byte
}

type segment struct {
	number uint64
	first  Position // of its first record; zero while it has none
	size   int64    // of what is intact
}

// OpenJournal opens the journal in dir, making it when there is none. A torn end, as a crash leaves it, is cut off, kept
// beside the segment, and reported. Costs one read of the newest segment.
func OpenJournal(dir string, log *slog.Logger) (*Journal, error) {
	return newJournal(realDisk{}, dir, log)
}

func newJournal(d disk, dir string, log *slog.Logger) (*Journal, error) {
	j := &Journal{dir: dir, log: log, disk: d, limit: segmentBytes}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	return j, nil
}

// Append writes d at the end. A decision at or before the last position is one that a replay made again: it is compared
// with what is there and never written twice. After an error d waits for the next call, of this or of Sync.
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
	at := positionOf(d)
	if at.Compare(j.last) <= 0 {
		j.compare(at, payload)
		return nil
	}
	j.endReplay()
	j.last = at
	j.waiting = append(j.waiting, waiting{at, appendRecord(nil, payload)})
	j.counters.Waiting++
	err = j.flush()
	j.shed()
	return err
}

// shed drops the oldest of what waits beyond its bound.
func (j *Journal) shed() {
	size := 0
	for i := len(j.waiting) - 1; i >= 0; i-- {
		if size += len(j.waiting[i].record); size > waitingBytes {
			lost := uint64(i + 1)
			if j.counters.Lost == 0 { // the first says it, the counter says how many
				j.log.Error("the disk takes nothing for so long that decisions are lost to the journal", "from", j.waiting[0].at.String())
			}
			j.counters.Lost += lost
			j.counters.Waiting -= lost
			j.waiting = append([]waiting(nil), j.waiting[i+1:]...)
			return
		}
	}
}

// flush writes what waits.
func (j *Journal) flush() error {
	if j.broken != nil {
		if err := j.resume(); err != nil {
			return fmt.Errorf("journal %s: %w; %d decisions wait in memory; it goes on by itself when the disk does", j.dir, err, len(j.waiting))
		}
	}
	for len(j.waiting) > 0 {
		if err := j.write(&j.waiting[0]); err != nil {
			return fmt.Errorf("journal %s: %w; %d decisions wait in memory", j.dir, err, len(j.waiting))
		}
		j.waiting = j.waiting[1:]
		j.counters.Waiting--
		j.counters.Appended++
	}
	j.waiting = nil
	return nil
}

// write appends a record to the last segment, or to a new one where that is full.
func (j *Journal) write(w *waiting) error {
	s := &j.segments[len(j.segments)-1]
	if s.size+int64(len(w.record)) > j.limit && !s.first.Tick.IsZero() {
		if err := j.rotate(); err != nil {
			return err
		}
		s = &j.segments[len(j.segments)-1]
	} else if len(j.unsynced)+len(w.record) > waitingBytes {
		if err := j.syncFile(); err != nil {
			return err
		}
	}
	if _, err := j.file.Write(w.record); err != nil {
		if e := j.file.Truncate(s.size); e != nil {
			j.broken = fmt.Errorf("%w, then %w", err, e)
		}
		return err
	}
	if s.first.Tick.IsZero() {
		s.first = w.at
	}
	s.size += int64(len(w.record))
	j.unsynced = append(j.unsynced, w.record...)
	return nil
}

// syncFile has the last segment survive a loss of power. After a failure nobody knows what is on disk, and a second fsync
// may say that all is well.
func (j *Journal) syncFile() error {
	if j.broken = j.file.Sync(); j.broken == nil {
		j.unsynced = j.unsynced[:0]
	}
	return j.broken
}

// Sync makes everything appended survive a loss of power. Call it before the snapshot that includes the decisions, so
// that the journal is never behind the snapshot: it fails while decisions wait.
func (j *Journal) Sync() error {
	j.mu.Lock()
	err, file, covered := j.flush(), j.file, len(j.unsynced)
	j.mu.Unlock()
	if err != nil {
		return err
	}
	err = file.Sync() // others append meanwhile
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.file != file: // closed for the next segment, after it was synced
		return nil
	case err != nil:
		j.broken = err
		return fmt.Errorf("journal %s: %w; it goes on in another segment", j.path(j.segments[len(j.segments)-1].number), err)
	}
	j.unsynced = append(j.unsynced[:0], j.unsynced[min(covered, len(j.unsynced)):]...)
	return nil
}

// rotate begins the next segment.
func (j *Journal) rotate() error {
	if err := j.syncFile(); err != nil {
		return err
	}
	n := j.segments[len(j.segments)-1].number + 1
	f, err := j.create(n, nil)
	if err != nil {
		return fmt.Errorf("new segment: %w", err)
	}
	_ = j.file.Close() // synced above
	j.file = f
	j.segments = append(j.segments, segment{number: n, size: int64(len(journalMagic))})
	return nil
}

// resume goes on after a failure that left the end of the last segment unknown: what no fsync covers is cut off there, and
// written to the next one, or to the same where it has nothing else.
func (j *Journal) resume() error {
	s := &j.segments[len(j.segments)-1]
	synced := s.size - int64(len(j.unsynced))
	next := segment{number: s.number + 1, size: int64(len(journalMagic) + len(j.unsynced))}
	if synced <= int64(len(journalMagic)) {
		next.number = s.number
	} else if err := truncate(j.disk, j.path(s.number), synced); err != nil {
		return err
	}
	if len(j.unsynced) > 0 {
		var p placed
		if err := cbor.Unmarshal(j.unsynced[recordHeader:][:binary.LittleEndian.Uint32(j.unsynced)], &p); err != nil {
			return err // of our own making, so that it cannot be
		}
		next.first = Position{Tick: p.Tick, Pool: p.Pool}
	}
	f, err := j.create(next.number, j.unsynced)
	if err != nil {
		return err
	}
	_ = j.file.Close() // all that it holds and we know is synced
	if next.number == s.number {
		*s = next
	} else {
		s.size = synced
		j.segments = append(j.segments, next)
	}
	j.log.Warn("the journal goes on in another segment", "segment", j.path(next.number), "after", j.broken.Error())
	j.file, j.unsynced, j.broken = f, j.unsynced[:0], nil
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
		if err := j.disk.Remove(j.path(j.segments[0].number)); err != nil && !errors.Is(err, os.ErrNotExist) {
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
