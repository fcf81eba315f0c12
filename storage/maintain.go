package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// probeBytes is what the chunks of the log may take: a sample is smaller in a chunk than in the log.
const probeBytes = walSegment / 4

// start opens the TSDB. One that is damaged is renamed, in the place of an earlier one, and an empty one is opened: it is a cache.
func (s *Store) start() error {
	err := s.openDB()
	if err == nil || errors.Is(err, errGaveUp) || errors.As(err, new(*FullError)) || errors.As(err, new(syscall.Errno)) && !errors.Is(err, fs.ErrNotExist) {
		return err // a disk that fails is no damage
	}
	to := s.dir + ".damaged" // nothing reads it
	if e := fileutil.Replace(s.dir, to); e != nil {
		return fmt.Errorf("%w, and it cannot be renamed: %w", err, e)
	}
	s.counters.Damaged++
	s.log.Error("the time-series database is damaged: it was renamed, and an empty one is opened", "dir", s.dir, "renamed to", to, "cause", err.Error())
	return s.openDB()
}

func (s *Store) openDB() (err error) {
	defer recovered(&err)
	if err := s.probe(); err != nil {
		return err
	}
	o := tsdb.DefaultOptions()
	o.RetentionDuration = s.cfg.Retention.Milliseconds()
	o.MaxBlockDuration = max(o.MinBlockDuration, o.RetentionDuration/10)
	o.MaxBytes = s.cfg.MaxBytes
	o.OutOfOrderTimeWindow = outOfOrder.Milliseconds()
	o.WALSegmentSize = walSegment
	o.MaxBlockChunkSegmentSize = walSegment // it is allocated before it is filled; by default half a GiB
	o.StripeSize = 1024
	o.NoLockfile = true                   // the directory is locked as a whole
	o.BlockReloadInterval = math.MaxInt64 // see Store.maintain
	metrics := prometheus.NewRegistry()
	db, err := tsdb.Open(s.dir, s.log, metrics, o, nil)
	if err != nil {
		return fmt.Errorf("%w: mend the disk, or move %s away to start without history", err, s.dir)
	}
	db.DisableCompactions()
	s.db = db
	if n := total(metrics, "prometheus_tsdb_wal_corruptions_total"); n > 0 {
		s.counters.Corruptions += n
		s.log.Warn("the log of the series was torn or corrupted: it was cut there, and what follows is lost to the history", "dir", s.dir)
	}
	return nil
}

// probe finds out whether the disk takes what reading the log may write: the TSDB ends the process where it does not.
func (s *Store) probe() error {
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return err
	}
	if err := s.hasRoom(); err != nil {
		return err
	}
	path := filepath.Join(s.dir, "probe")
	if err := WriteFile(path, make([]byte, probeBytes)); err != nil {
		return err
	}
	return os.Remove(path)
}

// total is the value of a counter.
func total(r prometheus.Gatherer, name string) (n uint64) {
	families, _ := r.Gather() // what is there counts
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				n += uint64(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

var errGaveUp = errors.New("the TSDB gave up")

// recovered turns a panic of the TSDB into an error: it panics when chunks cannot be written, and again, on a nil pointer, when
// it is used or closed after that.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", errGaveUp, r)
	}
}

// ready is nil where a tick can be stored. After a write that failed the TSDB is opened again: what it wrote of a record may
// be torn, and all that follows would be lost with the next start.
func (s *Store) ready() error {
	if err := s.hasRoom(); err != nil {
		return err
	}
	if !s.suspect {
		return nil
	}
	if now := time.Now(); now.Before(s.retryAt) {
		return errors.New("the TSDB is opened again after a failed write, in a moment")
	} else {
		s.retryAt = now.Add(s.retry)
	}
	if !s.open.TryLock() {
		return errors.New("the TSDB is opened again after a failed write, once nobody reads")
	}
	defer s.open.Unlock()
	if s.db != nil {
		if err := closed(s.db); err != nil {
			s.log.Warn("closing the series after a failed write", "cause", err.Error())
		}
		s.db = nil
	}
	if err := s.openDB(); err != nil {
		return err
	}
	for _, x := range s.series {
		x.ref = 0
	}
	s.suspect = false
	s.log.Info("the series go on", "ticks lost since the start", s.counters.LostTicks)
	return nil
}

func closed(db *tsdb.DB) (err error) {
	defer recovered(&err)
	return db.Close()
}

// maintain moves full chunks to files and compacts, beside the appends. The TSDB's own goroutine would do the same, and end the
// process when the disk fails.
func (s *Store) maintain() {
	head, now := s.db.Head(), time.Now()
	if now.Before(s.maintainAt) && (s.compactError != nil || head.MaxTime()-head.MinTime() <= tsdb.DefaultBlockDuration*3/2) {
		return
	}
	select {
	case s.maintaining <- struct{}{}:
	default:
		return
	}
	s.maintainAt = now.Add(maintainEvery)
	s.open.RLock()
	db := s.db
	go func() {
		defer func() { <-s.maintaining }()
		defer s.open.RUnlock()
		s.compacted(compact(db))
	}()
}

// compact maps full chunks and compacts where it is time to.
func compact(db *tsdb.DB) (err error) {
	defer recovered(&err)
	db.ForceHeadMMap()
	return db.Compact(context.Background())
}

// compacted takes note of how that went.
func (s *Store) compacted(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compactError = err; err == nil {
		return
	}
	s.compactError = fmt.Errorf("series in %s could not be compacted, which is tried again: %w", s.dir, err)
	s.log.Error("the series could not be compacted; it is tried again", "dir", s.dir, "cause", err.Error())
	s.counters.CompactFailures++
	s.suspect = s.suspect || errors.Is(err, errGaveUp)
}

// CompactError is why the last attempt to compact failed, nil when it did not.
func (s *Store) CompactError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compactError
}

// Close waits for a compaction under way and closes the files; what was appended is in the write-ahead log.
func (s *Store) Close() error {
	s.maintaining <- struct{}{}
	defer func() { <-s.maintaining }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	return closed(s.db)
}
