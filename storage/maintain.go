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

	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// probeBytes bounds the chunks made from the log: samples are smaller in chunks.
const probeBytes = walSegment / 4

// start opens the TSDB, which is a cache: it renames a damaged one, in place of an earlier one, and opens an empty one.
func (s *Store) start() error {
	err := s.openDB()
	failing := errors.Is(err, errGaveUp) || errors.As(err, new(syscall.Errno)) && !errors.Is(err, fs.ErrNotExist)
	if err == nil || failing || errors.As(err, new(*FullError)) {
		return err // a failing or full disk is no damage
	}
	to := s.dir + ".damaged" // not read again
	if e := fileutil.Replace(s.dir, to); e != nil {
		return fmt.Errorf("%w, and it cannot be renamed: %w", err, e)
	}
	s.log.Error("the time-series database is damaged: it was renamed and replaced by an empty one",
		"dir", s.dir, "renamed to", to, "cause", err.Error())
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
	o.MaxBlockChunkSegmentSize = walSegment // it is preallocated; the default is half a GiB
	o.StripeSize = 1024
	o.NoLockfile = true                   // the directory is locked already
	o.BlockReloadInterval = math.MaxInt64 // see Store.maintain
	db, err := tsdb.Open(s.dir, s.log, nil, o, nil)
	if err != nil {
		return fmt.Errorf("%w: repair the disk, or move %s away to start without history", err, s.dir)
	}
	db.DisableCompactions()
	s.db, s.stored = db, newest(db)
	return nil
}

// probe checks that the disk has room for reading the log. Without room the TSDB would end the process.
func (s *Store) probe() error {
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return err
	}
	if err := HasRoom(s.dir, s.free); err != nil {
		return err
	}
	path := filepath.Join(s.dir, "probe")
	if err := WriteFile(path, make([]byte, probeBytes)); err != nil {
		return err
	}
	return os.Remove(path)
}

var errGaveUp = errors.New("the TSDB gave up")

// recovered turns a panic of the TSDB into an error. It panics if it cannot write chunks, and then on a nil pointer
// when it is used or closed.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", errGaveUp, r)
	}
}

// ready returns nil if a tick can be stored. After a failed write it reopens the TSDB: a torn record would lose all
// later ones at the next start.
func (s *Store) ready() error {
	if err := HasRoom(s.dir, s.free); err != nil {
		return err
	}
	if !s.suspect {
		return nil
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
	s.suspect = false
	s.log.Info("series are stored again", "ticks lost since the start", s.counters.LostTicks)
	return nil
}

func closed(db *tsdb.DB) (err error) {
	defer recovered(&err)
	return db.Close()
}

// maintain moves full chunks to files and compacts, beside the appends. The TSDB's own goroutine is not used: it ends
// the process if the disk fails.
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

func compact(db *tsdb.DB) (err error) {
	defer recovered(&err)
	db.ForceHeadMMap()
	return db.Compact(context.Background())
}

func (s *Store) compacted(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.compactError = nil
		return
	}
	s.compactError = fmt.Errorf("series in %s could not be compacted, which is tried again: %w", s.dir, err)
	s.log.Error("the series could not be compacted; retrying", "dir", s.dir, "cause", err.Error())
	s.suspect = s.suspect || errors.Is(err, errGaveUp)
}

// CompactError returns the error of the last attempt to compact, or nil.
func (s *Store) CompactError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compactError
}

// Close waits for a running compaction and closes the files. The write-ahead log has all appended samples.
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
