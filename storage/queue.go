package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	queueMagic    = "forewarm queue 1\n"
	queuePrefix   = "queue-"
	queueSuffix   = ".log"
	queueSegments = 16 // a full queue has about so many; the oldest goes as a whole
	cursorFile    = "cursor"
	cursorMagic   = "forewarm queue cursor 1\n"
	cursorBytes   = len(cursorMagic) + 8 + 8
	cursorEvery   = time.Second // how often the place of the reader is written; what is read twice after a crash is sent twice
)

// QueueStats say what is in a queue, and what it lost since it was opened. Counts are of what Append was told.
type QueueStats struct {
	Waiting uint64 // not done yet
	Bytes   int64  // of the files
	Dropped uint64 // pushed out of a full queue, or in what could not be read back
	Damaged uint64 // segments that could not be read to their end
	Lost    int64  // bytes of those found on opening: of how many things is not known
	Unsafe  uint64 // were in a segment whose fsync failed: a loss of power may have taken them
}

// Queue holds payloads on disk, first in, first out, until the reader is done with them. When it is full the oldest
// segment goes, and is counted. One goroutine reads; any may append.
//
// The files are segments of records framed like the journal's, whose payload is a count (4 bytes, little-endian) and the
// data, and a cursor: segment and offset of the next record, written once a second and on closing. A record is one
// write(2): it survives the death of the process.
type Queue struct {
	dir   string
	log   *slog.Logger
	disk  disk
	most  int64 // bytes
	limit int64 // of a segment

	mu       sync.Mutex // guards what follows
	segments []queueSegment
	file     file // of the last segment
	torn     bool // the end of that is not known: go on in another
	bytes    int64
	reader   queueReader
	marked   time.Time // when the cursor was written
	stats    QueueStats
	buf      []byte

	more chan struct{} // of one place: there is something to read
}

type queueSegment struct {
	number uint64
	size   int64  // of what is intact
	count  uint64 // of what is not done yet
}

// queueReader is the place of the next record, in the first segment.
type queueReader struct {
	offset int64
	count  uint64 // of the record that Next gave
	end    int64  // where that record ends; 0 when there is none
}

// OpenQueue opens the queue in dir, making it when there is none, for at most so many bytes on disk. Costs one read of it.
func OpenQueue(dir string, most int64, log *slog.Logger) (*Queue, error) {
	return newQueue(realDisk{}, dir, most, log)
}

func newQueue(d disk, dir string, most int64, log *slog.Logger) (*Queue, error) {
	q := &Queue{dir: dir, log: log, disk: d, limit: max(most/queueSegments, 1), most: most, more: make(chan struct{}, 1)}
	if err := q.open(); err != nil {
		return nil, fmt.Errorf("queue %s: %w; mend it, or move it away (what it holds is lost then)", dir, err)
	}
	return q, nil
}

func (q *Queue) open() error {
	numbers, err := list(q.disk, q.dir, queuePrefix, queueSuffix)
	if err != nil {
		return err
	}
	segment, offset, err := q.readCursor()
	if errors.As(err, new(*damageError)) {
		q.log.Warn("the place in a queue cannot be read: all that it holds is sent again", "file", filepath.Join(q.dir, cursorFile))
	} else if err != nil {
		return err
	}
	for _, n := range numbers {
		if n < segment { // done, and not removed before a crash
			if err := q.disk.Remove(q.path(n)); err != nil {
				return err
			}
			continue
		}
		from := int64(0)
		if n == segment {
			from = offset
		}
		s, err := q.survey(n, from)
		if err != nil {
			return fmt.Errorf("%s: %w", q.path(n), err)
		}
		q.segments = append(q.segments, s)
		q.bytes += s.size
		q.stats.Waiting += s.count
	}
	next := max(segment, 1)
	if n := len(q.segments); n > 0 {
		next = q.segments[n-1].number + 1
		if q.segments[0].number == segment {
			q.reader.offset = min(offset, q.segments[0].size)
		}
	}
	return q.add(next)
}

// survey counts what a segment holds from an offset on. What follows damage is lost, and counted as one.
func (q *Queue) survey(n uint64, from int64) (s queueSegment, err error) {
	s.number = n
	f, err := os.Open(q.path(n))
	if err != nil {
		return s, err
	}
	defer func() { _ = f.Close() }()
	r, err := newRecordReader(f, queueMagic)
	for err == nil {
		s.size = r.offset
		var payload []byte
		if payload, err = r.next(); err == nil && s.size >= from && len(payload) > 4 {
			s.count += uint64(binary.LittleEndian.Uint32(payload))
		}
	}
	if damage, ok := errors.AsType[*damageError](err); ok {
		info, err := f.Stat()
		if err != nil {
			return s, err
		}
		q.stats.Damaged++
		q.stats.Lost += info.Size() - s.size
		q.log.Warn("a segment of a queue is damaged; what follows in it is lost", "segment", q.path(n), "bytes", info.Size()-s.size, "cause", damage.Error())
		return s, nil
	}
	return s, endOfFile(err)
}

func (q *Queue) path(n uint64) string {
	return filepath.Join(q.dir, fmt.Sprintf("%s%06d%s", queuePrefix, n, queueSuffix))
}

// add begins a new segment, after what is in the last one is safe.
func (q *Queue) add(n uint64) error {
	if q.file != nil {
		if err := q.file.Sync(); err != nil {
			q.doubt()
			q.log.Warn("what waits for the remote may not survive a loss of power", "segment", q.path(n-1), "cause", err.Error())
		}
	}
	f, err := q.disk.OpenFile(q.path(n), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND)
	if err != nil {
		return err
	}
	if _, err = f.Write([]byte(queueMagic)); err == nil {
		err = q.disk.SyncDir(q.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if q.file != nil {
		_ = q.file.Close() // what it holds was written
	}
	q.file, q.torn = f, false
	q.segments = append(q.segments, queueSegment{number: n, size: int64(len(queueMagic))})
	q.bytes += int64(len(queueMagic))
	return nil
}

// Append adds a payload that stands for count things. After an error it is not in the queue, and the next call tries anew.
func (q *Queue) Append(count uint32, data []byte) error {
	if len(data) == 0 || len(data)+4 > recordMost {
		return fmt.Errorf("queue: %d bytes, the bounds are 1 and %d", len(data), recordMost-4)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	payload := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(data)), count)
	q.buf = appendRecord(q.buf[:0], append(payload, data...))
	if err := q.write(); err != nil {
		return fmt.Errorf("queue %s: %w", q.dir, err)
	}
	s := &q.segments[len(q.segments)-1]
	s.size += int64(len(q.buf))
	s.count += uint64(count)
	q.bytes += int64(len(q.buf))
	q.stats.Waiting += uint64(count)
	for q.bytes > q.most && len(q.segments) > 1 {
		q.stats.Dropped += q.segments[0].count
		if err := q.removeFirst(); err != nil {
			q.log.Warn("a file of a queue stays", "cause", err.Error())
		}
	}
	select {
	case q.more <- struct{}{}:
	default:
	}
	return nil
}

// write appends buf to the last segment, or to a new one where that is full or its end is not known.
func (q *Queue) write() error {
	if err := roomFor(q.disk, q.dir, int64(len(q.buf))); err != nil {
		return err
	}
	s := &q.segments[len(q.segments)-1]
	if q.torn || s.size > int64(len(queueMagic)) && s.size+int64(len(q.buf)) > q.limit {
		if err := q.add(s.number + 1); err != nil {
			return fmt.Errorf("new segment: %w", err)
		}
		s = &q.segments[len(q.segments)-1]
	}
	_, err := q.file.Write(q.buf)
	if err != nil {
		if e := q.file.Truncate(s.size); e != nil {
			q.torn = true
			err = errors.Join(err, e)
		}
	}
	return err
}

// doubt leaves the last segment behind after an fsync of it that failed: a second one may say that all is well.
func (q *Queue) doubt() {
	q.torn = true
	q.stats.Unsafe += q.segments[len(q.segments)-1].count
}

// Sync makes what waits survive a loss of power.
func (q *Queue) Sync() error {
	q.mu.Lock()
	file := q.file
	q.mu.Unlock()
	err := file.Sync() // others append meanwhile
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil || q.file != file {
		return nil // a file that was closed for the next segment was synced before
	}
	q.doubt()
	return fmt.Errorf("queue %s: %w", q.dir, err)
}

// removeFirst forgets the oldest segment.
func (q *Queue) removeFirst() error {
	s := q.segments[0]
	q.reader = queueReader{}
	q.segments = slices.Delete(q.segments, 0, 1)
	q.bytes -= s.size
	q.stats.Waiting -= s.count
	if err := q.disk.Remove(q.path(s.number)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("queue: %w", err)
	}
	return nil
}

// Next waits for the oldest payload, and gives it again until Done. It is the caller's to keep. The error is that of ctx.
func (q *Queue) Next(ctx context.Context) (count uint32, data []byte, err error) {
	for {
		if count, data = q.next(); data != nil {
			return count, data, nil
		}
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-q.more:
		}
	}
}

// next reads the oldest payload; nil when there is none.
func (q *Queue) next() (count uint32, data []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		payload, err := q.read()
		if err == nil {
			count = binary.LittleEndian.Uint32(payload)
			q.reader.count = uint64(count)
			return count, payload[4:]
		}
		ended := errors.Is(err, io.EOF)
		if ended && len(q.segments) == 1 {
			return 0, nil
		}
		if !ended {
			if len(q.segments) == 1 { // which is being written: leave it behind
				if err := q.add(q.segments[0].number + 1); err != nil {
					q.log.Error("a queue cannot go on", "cause", err.Error())
					return 0, nil
				}
			}
			q.stats.Damaged++
			q.stats.Dropped += q.segments[0].count
			q.log.Warn("a segment of a queue cannot be read; what follows in it is lost",
				"segment", q.path(q.segments[0].number), "lost", q.segments[0].count, "cause", err.Error())
		}
		if err := q.removeFirst(); err != nil {
			q.log.Warn("a file of a queue stays", "cause", err.Error())
		}
	}
}

// read gives the record at the reader's place; io.EOF at the end of what the first segment has.
func (q *Queue) read() ([]byte, error) {
	s, r := &q.segments[0], &q.reader
	r.offset = max(r.offset, int64(len(queueMagic)))
	if r.offset >= s.size {
		return nil, io.EOF
	}
	f, err := os.Open(q.path(s.number))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	records := recordsFrom(io.NewSectionReader(f, r.offset, s.size-r.offset), r.offset)
	payload, err := records.next()
	if err == nil && len(payload) <= 4 {
		err = damagef("record at byte %d is empty", r.offset)
	}
	if err != nil {
		return nil, err
	}
	r.end = records.offset
	return payload, nil
}

// Done says that what Next gave last is dealt with.
func (q *Queue) Done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader.end == 0 {
		return // pushed out meanwhile
	}
	s := &q.segments[0]
	s.count -= min(q.reader.count, s.count)
	q.stats.Waiting -= min(q.reader.count, q.stats.Waiting)
	q.reader = queueReader{offset: q.reader.end}
	if now := time.Now(); now.Sub(q.marked) >= cursorEvery {
		q.marked = now
		if err := q.writeCursor(); err != nil {
			q.log.Warn("the place in a queue is not written: what follows would be sent again after a restart", "cause", err.Error())
		}
	}
}

func (q *Queue) writeCursor() error {
	b := []byte(cursorMagic)
	b = binary.LittleEndian.AppendUint64(b, q.segments[0].number)
	b = binary.LittleEndian.AppendUint64(b, uint64(q.reader.offset))
	return writeFile(q.disk, filepath.Join(q.dir, cursorFile), exactly(b))
}

// readCursor gives zeros where there is none. What is no cursor is a [damageError].
func (q *Queue) readCursor() (segment uint64, offset int64, err error) {
	b, err := os.ReadFile(filepath.Join(q.dir, cursorFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if theirs, ours, ok := versionOf(b[:min(len(b), len(cursorMagic))], cursorMagic); ok && theirs != ours {
		return 0, 0, fmt.Errorf("%s: %w", filepath.Join(q.dir, cursorFile), &VersionError{theirs, ours})
	}
	if len(b) != cursorBytes || !bytes.HasPrefix(b, []byte(cursorMagic)) {
		return 0, 0, damagef("it is no cursor")
	}
	b = b[len(cursorMagic):]
	return binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:])), nil
}

// Stats are since opening, but for what waits.
func (q *Queue) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Bytes = q.bytes
	return s
}

// Close writes where the reader is; the queue is of no use afterwards.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return errors.Join(q.file.Sync(), q.writeCursor(), q.file.Close())
}
