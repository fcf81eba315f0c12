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

// fresh holds the expected demand of minutes that have not settled. The TSDB cannot change a stored value, so these
// minutes stay in memory. PromQL reads them with the TSDB, under the same names, until the settled values are stored.
// Bounds: the classes of features, and maxFreshAge of time.
type fresh struct {
	mu      sync.Mutex
	minutes minutes
}

// minutes holds the demand of classes by the end of the minute, Unix ms.
type minutes map[int64]map[features.Key]classValues

// classValues holds the values of one class, see valuesOf; own means that it has its own series.
type classValues struct {
	values []float64
	own    bool
}

// add replaces a window's values.
func (m minutes) add(w *features.Window, values []float64, own bool) {
	end := w.Start.Add(features.Minute).UnixMilli()
	if m[end] == nil {
		m[end] = map[features.Key]classValues{}
	}
	m[end][w.Key] = classValues{values, own}
}

// sums returns the values of a minute by series: classes with their own series, the pool, and its other classes
// together. As in the forecast of a total, a class with an unknown value is skipped; if all are unknown, so is the sum.
func (m minutes) sums(end int64) map[features.Key][]float64 {
	out := map[features.Key][]float64{}
	add := func(pool, class string, values []float64) {
		sum := out[features.Key{Pool: pool, Class: class}]
		if sum == nil {
			sum = slices.Repeat([]float64{math.NaN()}, len(values))
			out[features.Key{Pool: pool, Class: class}] = sum
		}
		for d, v := range values {
			switch {
			case math.IsNaN(v):
			case math.IsNaN(sum[d]):
				sum[d] = v
			default:
				sum[d] += v
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(m[end]), features.Key.Compare) {
		x := m[end][key]
		add(key.Pool, features.TotalClass, x.values)
		if x.own {
			out[key] = x.values
		} else {
			add(key.Pool, features.OverflowClass, x.values)
		}
	}
	return out
}

// maxFreshAge is how long an unsettled minute is kept: the largest features.revise, plus a minute.
const maxFreshAge = 61 * 60_000

// take replaces the unsettled minutes, and drops the settled ones.
func (f *fresh) take(windows []features.Window, tick int64, owns func(features.Key) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range windows {
		w := &windows[i]
		if w.Settled {
			delete(f.minutes, w.Start.Add(features.Minute).UnixMilli()) // the classes of a minute settle together
		} else {
			f.minutes.add(w, w.Expected(), owns(w.Key))
		}
	}
	maps.DeleteFunc(f.minutes, func(end int64, _ map[features.Key]classValues) bool { return end < tick-maxFreshAge })
}

// freshQuerier reads the minutes from mint to maxt, Unix ms.
type freshQuerier struct {
	promstorage.Querier // no-op: label names and values are those of settled minutes
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
	found := map[name]*promql.Series{} // nil if it does not match
	for _, end := range slices.Sorted(maps.Keys(q.of.minutes)) {
		if end < q.mint || end > q.maxt {
			continue
		}
		for key, values := range q.of.minutes.sums(end) {
			for d, v := range values {
				s, seen := found[name{key, d}]
				if !seen && !math.IsNaN(v) {
					k := demandKey(features.Dimensions[d].Series, key)
					l := k.labels()
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
