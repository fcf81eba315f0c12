package storage

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/forewarm/forewarm/features"
)

// fresh is the demand of minutes that have not settled, as it is expected to settle. The TSDB takes one value for a time and
// keeps it, so these minutes are held in memory and PromQL reads them beside the TSDB, under the same names, until the
// settled values are stored. Bounds: the classes of features, and freshMost of time.
type fresh struct {
	mu      sync.Mutex
	minutes map[int64]map[features.Key]freshValues // by the end of the minute, Unix ms
}

// freshValues are those of one class by features.Dimensions; own says that it has series of its own.
type freshValues struct {
	values []float64
	own    bool
}

// freshMost is for how long a minute is kept that never settles: the largest features.revise, and a minute.
const freshMost = 61 * 60_000

// take replaces what is known of the minutes that have not settled, and drops those that have.
func (f *fresh) take(windows []features.Window, tick int64, owns func(features.Key) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.minutes == nil {
		f.minutes = map[int64]map[features.Key]freshValues{}
	}
	for i := range windows {
		w := &windows[i]
		end := w.Start.Add(features.Minute).UnixMilli()
		if w.Settled {
			delete(f.minutes, end) // the classes of a minute settle together
			continue
		}
		if f.minutes[end] == nil {
			f.minutes[end] = map[features.Key]freshValues{}
		}
		f.minutes[end][w.Key] = freshValues{w.Expected(), owns(w.Key)}
	}
	maps.DeleteFunc(f.minutes, func(end int64, _ map[features.Key]freshValues) bool { return end < tick-freshMost })
}

// sums adds the classes of a minute up to series: those of a class, of the pool and of the classes without series.
func sums(classes map[features.Key]freshValues) map[features.Key][]float64 {
	out := map[features.Key][]float64{}
	add := func(key features.Key, values []float64) {
		if out[key] == nil {
			out[key] = slices.Repeat([]float64{math.NaN()}, len(values))
		}
		addUp(out[key], values)
	}
	for _, key := range slices.SortedFunc(maps.Keys(classes), features.Key.Compare) {
		x := classes[key]
		add(features.Key{Pool: key.Pool, Class: features.TotalClass}, x.values)
		if x.own {
			out[key] = x.values
		} else {
			add(features.Key{Pool: key.Pool, Class: features.OverflowClass}, x.values)
		}
	}
	return out
}

// freshQuerier reads the minutes from mint to maxt.
type freshQuerier struct {
	promstorage.Querier // does nothing: the names and values of labels are those of settled minutes
	of                  *fresh
	mint, maxt          int64
}

func (q freshQuerier) series(matchers []*labels.Matcher) (out []promstorage.Series) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	type name struct {
		key features.Key
		d   int
	}
	found := map[name]*promql.Series{} // nil where it does not match
	for _, end := range slices.Sorted(maps.Keys(q.of.minutes)) {
		if end < q.mint || end > q.maxt {
			continue
		}
		for key, values := range sums(q.of.minutes[end]) {
			for d, v := range values {
				s, seen := found[name{key, d}]
				if !seen && !math.IsNaN(v) {
					l := groupKey{kind: windowGroup, Key: key}.labels(d)
					if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
						s = &promql.Series{Metric: l}
					}
					found[name{key, d}] = s
				}
				if s != nil && !math.IsNaN(v) {
					s.Floats = append(s.Floats, promql.FPoint{T: end, F: v})
				}
			}
		}
	}
	for _, s := range found {
		if s != nil {
			out = append(out, promql.NewStorageSeries(*s))
		}
	}
	slices.SortFunc(out, func(a, b promstorage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return out
}

// Select implements storage.Querier.
func (q freshQuerier) Select(_ context.Context, _ bool, _ *promstorage.SelectHints, matchers ...*labels.Matcher) promstorage.SeriesSet {
	return &freshSet{left: q.series(matchers)}
}

type freshSet struct {
	at   promstorage.Series
	left []promstorage.Series
}

func (s *freshSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *freshSet) At() promstorage.Series            { return s.at }
func (s *freshSet) Err() error                        { return nil }
func (s *freshSet) Warnings() annotations.Annotations { return nil }
