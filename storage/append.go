package storage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	promstorage "github.com/prometheus/prometheus/storage"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Append stores what one tick produced, in one transaction: the settled windows, the forecasts at the kept horizons, the
// decisions. Samples that cannot be stored are counted and left out. An error means that the tick's samples are lost to
// the series (a full disk, say); the store goes on with the next tick.
func (s *Store) Append(tick time.Time, windows []features.Window, forecasts []forecaster.PoolForecast, decisions []alerting.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := tick.UnixMilli()
	s.sweep(t)
	s.retained.observe(windows, t)
	err := s.ready()
	if err == nil {
		before := s.counters.Appended
		if err = s.commit(t, windows, forecasts, decisions); err != nil {
			s.counters.Appended, s.suspect = before, true
		}
	}
	s.fresh.take(windows, t, s.retained.owns)
	if err != nil {
		s.counters.LostTicks++
		return fmt.Errorf("series of tick %s are lost: %w", tick.UTC().Format(time.RFC3339), err)
	}
	s.maintain()
	return nil
}

// commit is Append where the disk is well. The TSDB panics on some failures of the disk.
func (s *Store) commit(t int64, windows []features.Window, forecasts []forecaster.PoolForecast, decisions []alerting.Decision) (err error) {
	defer recovered(&err)
	tx := &transaction{Store: s, app: s.db.AppenderV2(context.Background()), tick: t}
	// What matters most first: under Config.MaxSeries the later ones are left out.
	for i := range decisions {
		tx.decision(&decisions[i])
	}
	for i := range forecasts {
		tx.forecasts(forecasts[i].Total)
	}
	tx.sums(windows)
	for i := range windows {
		tx.window(&windows[i])
	}
	for i := range forecasts {
		tx.forecasts(forecasts[i].Classes)
	}
	return tx.app.Commit()
}

// transaction is one tick being appended.
type transaction struct {
	*Store
	app  promstorage.AppenderV2
	tick int64
}

func (tx *transaction) decision(d *alerting.Decision) {
	key := groupKey{kind: poolGroup, Key: features.Key{Pool: d.Pool}}
	t := d.Tick.UnixMilli()
	g := tx.lookup(key)
	for i := range poolValues {
		tx.put(key, g, i, t, poolValues[i].value(d))
	}
	key.kind = resourceGroup
	for r := range d.Resources {
		key.name = d.Resources[r].Dimension
		g := tx.lookup(key)
		for i := range resourceValues {
			tx.put(key, g, i, t, resourceValues[i].value(&d.Resources[r]))
		}
	}
}

func (tx *transaction) forecasts(fs []forecaster.Forecast) {
	for f := range fs {
		f := &fs[f]
		// What is forecast together need not be what is kept together, so that its forecasts are not kept.
		if f.Class != features.TotalClass && !tx.retained.owns(f.Key) {
			continue
		}
		key := groupKey{kind: forecastGroup, Key: f.Key, name: f.Dimension}
		t := f.Origin.UnixMilli()
		g := tx.lookup(key)
		for h := range horizons {
			q := &f.WindowMax
			if h < len(forecastMinutes) {
				q = &f.Minute[forecastMinutes[h]-1]
			}
			for i, v := range q {
				tx.put(key, g, h*forecaster.NumLevels+i, t, v)
			}
		}
	}
}

func (tx *transaction) window(w *features.Window) {
	if !w.Settled {
		return
	}
	if !tx.retained.owns(w.Key) {
		tx.counters.Pooled++
		return
	}
	key := groupKey{kind: windowGroup, Key: w.Key}
	t := w.Start.Add(features.Minute).UnixMilli()
	g := tx.lookup(key)
	for i, v := range valuesOf(w) {
		tx.put(key, g, i, t, v)
	}
	i := len(features.Dimensions)
	for _, shape := range shapes {
		for _, level := range shapeLevels {
			tx.put(key, g, i, t, shape.value(w, level))
			i++
		}
	}
	if w.Late != nil {
		tx.late(key, g, t, w.Late)
	}
	tx.accounts(w)
}

// valuesOf are those of a settled window by features.Dimensions, NaN where they are not known.
func valuesOf(w *features.Window) []float64 {
	out := make([]float64, len(features.Dimensions))
	for i := range out {
		v, ok := features.Dimensions[i].Value(w)
		if out[i] = v; !ok {
			out[i] = math.NaN()
		}
	}
	return out
}

func (tx *transaction) late(key groupKey, g *group, t int64, l *features.Late) {
	first := len(features.Dimensions) + len(shapes)*len(shapeLevels)
	for i, late := range lateValues {
		tx.put(key, g, first+i, t, *late.of(l))
	}
}

// sums stores, of every pool and minute that settled, the sum over all classes, and that over those without series of
// their own.
func (tx *transaction) sums(windows []features.Window) {
	sums := map[sumKey]*sum{}
	var order []*sum
	add := func(w *features.Window, class string) *sum {
		k := sumKey{features.Key{Pool: w.Pool, Class: class}, w.Start.Add(features.Minute).UnixMilli()}
		x := sums[k]
		if x == nil {
			x = &sum{sumKey: k, values: slices.Repeat([]float64{math.NaN()}, len(features.Dimensions))}
			sums[k] = x
			order = append(order, x)
		}
		addUp(x.values, valuesOf(w))
		return x
	}
	for i := range windows {
		w := &windows[i]
		if !w.Settled {
			continue
		}
		add(w, features.TotalClass)
		if !tx.retained.owns(w.Key) {
			add(w, features.OverflowClass).addLate(w.Late)
		}
	}
	for _, x := range order {
		key := groupKey{kind: windowGroup, Key: x.Key}
		g := tx.lookup(key)
		for d, v := range x.values {
			tx.put(key, g, d, x.end, v)
		}
		if x.late != (features.Late{}) {
			tx.late(key, g, x.end, &x.late)
		}
	}
}

// sumKey is a pool with the name of a sum, and the end of a minute, Unix ms.
type sumKey struct {
	features.Key
	end int64
}

// sum is the sum over classes of the dimensions that add up: rates, and levels that are forecast; the maxima of classes do
// not. As in the forecast of a total, a class that does not know a dimension takes no part in it; when none knows it the
// sum is unknown.
type sum struct {
	sumKey
	values []float64 // by features.Dimensions
	late   features.Late
}

// addUp adds the values of a class to a sum.
func addUp(sum, values []float64) {
	for d, v := range values {
		switch dim := &features.Dimensions[d]; {
		case math.IsNaN(v) || dim.Kind != features.Rate && !dim.Forecast:
		case math.IsNaN(sum[d]):
			sum[d] = v
		default:
			sum[d] += v
		}
	}
}

func (s *sum) addLate(l *features.Late) {
	if l == nil {
		return
	}
	for _, late := range lateValues {
		*late.of(&s.late) += *late.of(l)
	}
}

// put appends one sample to the i-th series of a group, or counts why not. A nil group is one that did not fit.
func (tx *transaction) put(key groupKey, g *group, i int, t int64, v float64) {
	c := &tx.counters
	switch {
	case math.IsNaN(v):
		return // it is not known
	case t > tx.tick:
		c.Refused++
		return
	case g == nil:
		c.Capped++
		return
	}
	g.used = tx.tick
	sr := &g.series[i]
	if sr.labels.IsEmpty() {
		if c.ActiveSeries >= tx.cfg.MaxSeries {
			c.Capped++
			return
		}
		c.ActiveSeries++
		sr.labels = key.labels(i)
		sr.last = math.MinInt64
		if last, ok := tx.resumed[string(sr.labels.Bytes(nil))]; ok {
			sr.last = last
		}
	}
	if t <= sr.last {
		c.Repeated++
		return
	}
	ref, err := tx.app.Append(sr.ref, sr.labels, 0, t, v, nil, nil, promstorage.AppendV2Options{})
	if err != nil {
		if c.Refused++; c.Refused == 1 {
			tx.log.Warn("a sample cannot be stored; such samples are counted", "series", sr.labels.String(), "err", err)
		}
		return
	}
	sr.ref, sr.last = ref, t
	c.Appended++
}
