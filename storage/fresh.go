package storage

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	promstorage "github.com/prometheus/prometheus/storage"

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

func (m minutes) add(w *features.Window, values []float64, own bool) {
	end := w.Start.Add(features.Minute).UnixMilli()
	if m[end] == nil {
		m[end] = map[features.Key]classValues{}
	}
	m[end][w.Key] = classValues{values, own}
}

// samples calls put with the values of a minute by series. Sums over classes come first, because they are more
// important: the pool, and its classes without their own series together. As in the forecast of a total, a class with
// an unknown value is skipped; if all are unknown, so is the sum.
func (m minutes) samples(end int64, put func(s labels.Labels, v float64)) {
	sums := map[features.Key][]float64{}
	add := func(pool, class string, values []float64) {
		key := features.Key{Pool: pool, Class: class}
		if sums[key] == nil {
			sums[key] = slices.Clone(values)
			return
		}
		for i, v := range values {
			if sum := &sums[key][i]; math.IsNaN(*sum) {
				*sum = v
			} else if !math.IsNaN(v) {
				*sum += v
			}
		}
	}
	putAll := func(key features.Key, values []float64) {
		for i, v := range values {
			put(series(features.Dimensions[i].Series, "class", key.Class, "pool", key.Pool), v)
		}
	}
	keys := slices.SortedFunc(maps.Keys(m[end]), features.Key.Compare)
	for _, key := range keys {
		add(key.Pool, features.TotalClass, m[end][key].values)
		if !m[end][key].own {
			add(key.Pool, features.OverflowClass, m[end][key].values)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(sums), features.Key.Compare) {
		putAll(key, sums[key])
	}
	for _, key := range keys {
		if m[end][key].own {
			putAll(key, m[end][key].values)
		}
	}
}

// maxFreshAge is how long an unsettled minute is kept: the largest features.revise, plus a minute.
const maxFreshAge = 61 * time.Minute

// take replaces the unsettled minutes at a tick, Unix ms, and drops the settled ones.
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
	maps.DeleteFunc(f.minutes, func(end int64, _ map[features.Key]classValues) bool { return end < tick-maxFreshAge.Milliseconds() })
}

// freshQuerier reads the minutes from mint to maxt, Unix ms. It lists no names or values of labels.
type freshQuerier struct {
	promstorage.Querier // no-op
	of                  *fresh
	mint, maxt          int64
}

// Select implements storage.Querier.
func (q freshQuerier) Select(_ context.Context, _ bool, _ *promstorage.SelectHints, matchers ...*labels.Matcher) promstorage.SeriesSet {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	found := map[labels.Labels]*promql.Series{}
	for _, end := range slices.Sorted(maps.Keys(q.of.minutes)) {
		if end < q.mint || end > q.maxt {
			continue
		}
		q.of.minutes.samples(end, func(metric labels.Labels, v float64) {
			if math.IsNaN(v) {
				return
			}
			s := found[metric]
			if s == nil {
				s = &promql.Series{Metric: metric}
				found[metric] = s
			}
			s.Floats = append(s.Floats, promql.FPoint{T: end, F: v})
		})
	}
	set := &freshSet{SeriesSet: promstorage.NoopSeriesSet()}
	for _, s := range found {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
			set.left = append(set.left, promql.NewStorageSeries(*s))
		}
	}
	slices.SortFunc(set.left, func(a, b promstorage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return set
}

type freshSet struct {
	promstorage.SeriesSet // no-op: without errors and warnings
	at                    promstorage.Series
	left                  []promstorage.Series
}

func (s *freshSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *freshSet) At() promstorage.Series { return s.at }
