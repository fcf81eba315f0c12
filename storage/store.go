package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"time"

	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/time/rate"

	"github.com/forewarm/forewarm/features"
)

const (
	// outOfOrder is how far a series may lag behind the newest sample, for windows that settle late.
	outOfOrder = 3 * time.Hour
	// walSegment keeps the write-ahead log small in small installations.
	walSegment = 16 << 20
	// maintainEvery is how often full chunks are moved to files.
	maintainEvery = time.Minute
	// refusedLogEvery is the least time between two log lines about refused samples.
	refusedLogEvery = 10 * time.Minute
)

// StoreCounters count samples since the store was opened.
type StoreCounters struct {
	Refused   uint64 // later than the tick, or refused by the TSDB: too old, or another value for that time
	Capped    uint64 // of series beyond Config.MaxSeries
	LostTicks uint64 // ticks without any stored sample: the disk is full or fails, or later series are stored
}

// Store is the embedded TSDB. Only one goroutine may append; reads are safe beside it.
//
// A failing disk loses only history. Ticks that cannot be stored are counted. Storing resumes when the disk recovers.
type Store struct {
	// Shown selects the classes with their own series; nil selects all. It is called by Append.
	Shown func(features.Key) bool

	log  *slog.Logger
	cfg  Config
	dir  string
	free func(dir string) (bytes int64, err error)

	// open is read-locked by users of db, and locked to replace it.
	open        sync.RWMutex
	db          *tsdb.DB // nil until it can be reopened
	maintaining chan struct{}

	fresh fresh

	mu           sync.Mutex // guards the fields below
	stored       int64      // newest stored tick, Unix ms
	counters     StoreCounters
	refusing     rate.Sometimes // limits the log of refused samples
	compactError error          // error of the last attempt to compact
	suspect      bool           // a write failed, so the log may be torn
	maintainAt   time.Time      // next time to map chunks and compact blocks, or earlier with much data
}

// OpenStore opens the TSDB under cfg.Dir, and reads the newest hours of its write-ahead log. It truncates a torn log
// and renames a damaged database. On a full disk it opens the TSDB once there is room.
func OpenStore(cfg Config, log *slog.Logger) (*Store, error) {
	s := &Store{
		log: log, cfg: cfg, dir: filepath.Join(cfg.Dir, "tsdb"), free: Free, fresh: fresh{minutes: minutes{}},
		maintaining: make(chan struct{}, 1), refusing: rate.Sometimes{Interval: refusedLogEvery},
	}
	switch err := s.start(); {
	case errors.As(err, new(*FullError)):
		s.suspect = true
		log.Error("no history is stored or read until the disk has room", "dir", s.dir, "cause", err.Error())
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("series in %s: %w", s.dir, err)
	}
	return s, nil
}

// newest returns the time of the newest sample, Unix ms.
func newest(db *tsdb.DB) int64 {
	t := int64(math.MinInt64)
	for _, b := range db.BlockMetas() {
		t = max(t, b.MaxTime-1) // exclusive
	}
	if h := db.Head(); h.MinTime() <= h.MaxTime() { // otherwise the head is empty
		t = max(t, h.MaxTime())
	}
	return t
}

// Queryable returns the store for PromQL, with the unsettled minutes.
func (s *Store) Queryable() promstorage.Queryable {
	return promstorage.QueryableFunc(func(mint, maxt int64) (promstorage.Querier, error) {
		q, err := s.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		both := []promstorage.Querier{q, freshQuerier{promstorage.NoopQuerier(), &s.fresh, mint, maxt}}
		return promstorage.NewMergeQuerier(both, nil, promstorage.ChainedSeriesMerge), nil
	})
}

// Querier reads the settled samples from mint to maxt, Unix ms.
func (s *Store) Querier(mint, maxt int64) (promstorage.Querier, error) {
	s.open.RLock()
	if s.db == nil {
		s.open.RUnlock()
		return nil, fmt.Errorf("series in %s cannot be read until the disk works again", s.dir)
	}
	q, err := s.db.Querier(mint, maxt)
	if err != nil {
		s.open.RUnlock()
		return nil, err
	}
	return &reading{Querier: q, done: sync.OnceFunc(s.open.RUnlock)}, nil
}

// reading keeps the TSDB open until it is closed.
type reading struct {
	promstorage.Querier
	done func()
}

func (r *reading) Close() error {
	defer r.done()
	return r.Querier.Close()
}

// Counters returns the counts since opening.
func (s *Store) Counters() StoreCounters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counters
}
