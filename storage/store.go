package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/forewarm/forewarm/features"
)

const (
	// outOfOrder is how far behind the newest sample another series may be: windows that settle late.
	outOfOrder = 3 * time.Hour
	// activeFor is how long a series without samples counts against Config.MaxSeries and is looked up without creating it.
	activeFor = 3 * time.Hour
	// walSegment keeps the write-ahead log of a small installation small.
	walSegment = 16 << 20
	// reopenEvery is how long to wait between two attempts to open a TSDB after a failure: each reads the log.
	reopenEvery = 10 * time.Second
	// maintainEvery is how often chunks that are full are moved to files.
	maintainEvery = time.Minute
)

// StoreCounters say what became of the samples offered since the store was opened.
type StoreCounters struct {
	Appended  uint64
	Repeated  uint64 // at or before the newest sample of the series: a replay offers it again
	Refused   uint64 // after the tick, or by the TSDB: too old, or another value is stored for that time
	Capped    uint64 // of series beyond Config.MaxSeries
	Pooled    uint64 // windows, not samples, that are in their pool's features.OverflowClass: of classes beyond Config.MaxClasses
	LostTicks uint64 // ticks none of whose samples are stored, because the disk is full or does not work

	Corruptions     uint64 // of the write-ahead log, cut off on opening
	Damaged         uint64 // databases that were renamed on opening
	CompactFailures uint64 // attempts to compact that failed; each is made again
}

// Store is the embedded TSDB. Appending is for one goroutine; reading is safe beside it.
//
// A disk that fails costs history and nothing else: ticks that cannot be stored are counted, and storing goes on by itself
// once the disk does.
type Store struct {
	log  *slog.Logger
	cfg  Config
	dir  string
	free func(dir string) (bytes int64, err error)

	// open is held by all who use db, and alone by who replaces it.
	open        sync.RWMutex
	db          *tsdb.DB // nil while it cannot be opened again
	maintaining chan struct{}

	fresh fresh

	mu           sync.Mutex            // guards what follows
	series       map[seriesKey]*series // at most Config.MaxSeries
	retained     retained
	resumed      map[string]int64 // newest sample of each series found on opening, by label bytes
	resumedTo    int64            // newest of those, Unix ms
	swept        int64            // tick of the last sweep, Unix ms
	counters     StoreCounters
	compactError error         // why the last attempt to compact failed
	suspect      bool          // a write has failed, so that the log may be torn in its middle
	retry        time.Duration // between two attempts to open the TSDB again
	retryAt      time.Time
	maintainAt   time.Time // when chunks are mapped and blocks compacted next, unless there is much
}

// OpenStore opens the TSDB under cfg.Dir, and reads the newest hours of its write-ahead log to know what is there. A log that
// is torn is cut, and a database that is damaged renamed; both are counted. On a full disk it opens the TSDB once there is room.
func OpenStore(cfg Config, log *slog.Logger) (*Store, error) {
	s := &Store{
		log: log, cfg: cfg, dir: filepath.Join(cfg.Dir, "tsdb"), free: Free, series: map[seriesKey]*series{}, fresh: fresh{minutes: minutes{}},
		retained: newRetained(cfg.MaxClasses), maintaining: make(chan struct{}, 1), retry: reopenEvery,
	}
	switch err := s.start(); {
	case errors.As(err, new(*FullError)):
		s.suspect = true
		log.Error("there is no history until the disk has room", "dir", s.dir, "cause", err.Error())
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("series in %s: %w", s.dir, err)
	}
	if err := s.resume(); err != nil {
		return nil, errors.Join(fmt.Errorf("series in %s: %w", s.dir, err), s.db.Close())
	}
	return s, nil
}

// resume notes the newest sample of every recent series, so that a replay is recognised, and which classes have some.
func (s *Store) resume() error {
	newest, ok := s.newest()
	if !ok {
		return nil
	}
	q, err := s.db.Querier(newest-activeFor.Milliseconds(), newest)
	if err != nil {
		return err
	}
	defer q.Close()
	s.resumed, s.resumedTo = map[string]int64{}, newest
	all := labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, "")
	set := q.Select(context.Background(), false, nil, all)
	for set.Next() {
		l := set.At().Labels()
		last, sum := int64(math.MinInt64), 0.0
		it := set.At().Iterator(nil)
		for it.Next() != 0 {
			t, v := it.At()
			last, sum = t, sum+v
		}
		if err := it.Err(); err != nil {
			return err
		}
		s.resumed[string(l.Bytes(nil))] = last
		if class := l.Get("class"); class != features.TotalClass && class != features.OverflowClass && slices.Contains(tokenSeries[:], l.Get(model.MetricNameLabel)) {
			s.retained.weigh(features.Key{Pool: l.Get("pool"), Class: class}, sum*features.Minute.Seconds(), last)
		}
	}
	s.retained.rank()
	return set.Err()
}

// newest is the time of the newest sample, Unix ms; ok is false when there is none.
func (s *Store) newest() (t int64, ok bool) {
	t = math.MinInt64
	for _, b := range s.db.BlockMetas() {
		t = max(t, b.MaxTime-1) // exclusive
	}
	if h := s.db.Head(); h.MinTime() <= h.MaxTime() { // otherwise the head is empty
		t = max(t, h.MaxTime())
	}
	return t, t > math.MinInt64
}

// Queryable is the store as PromQL reads it: with the minutes that have not settled, as far as they are known.
func (s *Store) Queryable() promstorage.Queryable {
	return promstorage.QueryableFunc(func(mint, maxt int64) (promstorage.Querier, error) {
		q, err := s.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return promstorage.NewMergeQuerier([]promstorage.Querier{q, freshQuerier{promstorage.NoopQuerier(), &s.fresh, mint, maxt}}, nil, promstorage.ChainedSeriesMerge), nil
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

// Counters are since opening.
func (s *Store) Counters() StoreCounters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counters
}

// sweep forgets, once an hour of ticks, the series that were not written to for a while.
func (s *Store) sweep(tick int64) {
	if tick-s.swept < time.Hour.Milliseconds() {
		return
	}
	s.swept = tick
	if tick-s.resumedTo > activeFor.Milliseconds() {
		s.resumed = nil // the replay is over
	}
	maps.DeleteFunc(s.series, func(_ seriesKey, x *series) bool { return tick-x.used >= activeFor.Milliseconds() })
}
