package storage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	promstorage "github.com/prometheus/prometheus/storage"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Append stores the output of one tick in one transaction: settled windows, forecasts at the kept horizons, decisions.
// It counts and skips samples that cannot be stored. An error means that the tick's samples are lost, for example on a
// full disk. The store continues with the next tick.
func (s *Store) Append(tick time.Time, windows []features.Window, forecasts []forecaster.PoolForecast, decisions []alerting.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := tick.UnixMilli()
	s.sweep(t)
	err := s.ready()
	if err == nil {
		before := s.counters.Appended
		if err = s.commit(t, windows, forecasts, decisions); err != nil {
			s.counters.Appended, s.suspect = before, true
		}
	}
	s.fresh.take(windows, t, s.owns)
	if err != nil {
		s.counters.LostTicks++
		return fmt.Errorf("series of tick %s are lost: %w", tick.UTC().Format(time.RFC3339), err)
	}
	s.maintain()
	return nil
}

// commit is Append without a check of the disk. The TSDB panics on some disk failures.
func (s *Store) commit(t int64, windows []features.Window, forecasts []forecaster.PoolForecast, decisions []alerting.Decision) (err error) {
	defer recovered(&err)
	tx := &transaction{Store: s, app: s.db.AppenderV2(context.Background()), tick: t}
	// The most important first: Config.MaxSeries drops the later ones.
	for i := range decisions {
		tx.decision(&decisions[i])
	}
	for i := range forecasts {
		tx.forecasts(forecasts[i].Total)
	}
	tx.windows(windows)
	for i := range forecasts {
		tx.forecasts(forecasts[i].Classes)
	}
	return tx.app.Commit()
}

// owns reports whether a class has its own series. The others of a pool are summed in features.OverflowClass.
func (s *Store) owns(key features.Key) bool {
	return key.Class != features.OverflowClass && (s.Shown == nil || s.Shown(key))
}

// transaction appends one tick.
type transaction struct {
	*Store
	app  promstorage.AppenderV2
	tick int64
}

func (tx *transaction) decision(d *alerting.Decision) {
	t := d.Tick.UnixMilli()
	for _, x := range poolValues {
		tx.put(seriesKey{name: x.series, pool: d.Pool, more: x.label}, t, x.value(d))
	}
	for r := range d.Resources {
		for _, x := range resourceValues {
			tx.put(seriesKey{name: x.series, pool: d.Pool, resource: d.Resources[r].Dimension, more: x.label}, t, x.value(&d.Resources[r]))
		}
	}
}

func (tx *transaction) forecasts(fs []forecaster.Forecast) {
	for f := range fs {
		f := &fs[f]
		// The forecaster's overflow class may hold other classes than the stored one, so its forecasts are not stored.
		if f.Class != features.TotalClass && !tx.owns(f.Key) {
			continue
		}
		key := demandKey(ForecastSeries, f.Key)
		key.dimension = f.Dimension
		for h := range horizons {
			key.horizon = horizons[h]
			q := &f.WindowMax
			if h < len(forecastMinutes) {
				q = &f.Minute[forecastMinutes[h]-1]
			}
			for i, v := range q {
				key.quantile = levelLabels[i]
				tx.put(key, f.Origin.UnixMilli(), v)
			}
		}
	}
}

// windows stores the settled minutes: first sums over classes, then the classes with their own series.
func (tx *transaction) windows(windows []features.Window) {
	settled := minutes{}
	for i := range windows {
		if w := &windows[i]; w.Settled {
			settled.add(w, valuesOf(w), tx.owns(w.Key))
		}
	}
	for _, end := range slices.Sorted(maps.Keys(settled)) {
		sums := settled.sums(end)
		for _, key := range slices.SortedFunc(maps.Keys(sums), sumsFirst) {
			for i, v := range sums[key] {
				if late := i - len(features.Dimensions); late < 0 {
					tx.put(demandKey(features.Dimensions[i].Series, key), end, v)
				} else if key.Class != features.TotalClass { // late data have no series of the pool
					tx.put(demandKey(lateValues[late].series, key), end, v)
				}
			}
		}
	}
	for i := range windows {
		if w := &windows[i]; w.Settled && tx.owns(w.Key) {
			tx.shapes(w)
		}
	}
}

// sumsFirst orders sums before classes, because they are more important.
func sumsFirst(a, b features.Key) int {
	rank := func(k features.Key) int {
		if k.Class == features.TotalClass || k.Class == features.OverflowClass {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Compare(b))
}

// valuesOf returns a settled window's values by features.Dimensions, then by lateValues; NaN if unknown.
func valuesOf(w *features.Window) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, len(features.Dimensions)+len(lateValues))
	for i := range features.Dimensions {
		if v, ok := features.Dimensions[i].Value(w); ok {
			out[i] = v
		}
	}
	if w.Late != nil {
		for i, x := range lateValues {
			out[len(features.Dimensions)+i] = x.value(w.Late)
		}
	}
	return out
}

func (tx *transaction) shapes(w *features.Window) {
	for _, shape := range shapes {
		key := demandKey(shape.series, w.Key)
		for _, level := range shapeLevels {
			key.quantile = level.label
			tx.put(key, w.Start.Add(features.Minute).UnixMilli(), shape.value(w, level.q))
		}
	}
}

// put appends one sample to a series, or counts the reason why not.
func (tx *transaction) put(key seriesKey, t int64, v float64) {
	c := &tx.counters
	switch {
	case math.IsNaN(v):
		return // unknown
	case t > tx.tick:
		c.Refused++
		return
	}
	sr := tx.series[key]
	if sr == nil {
		if len(tx.series) >= tx.cfg.MaxSeries {
			c.Capped++
			return
		}
		sr = &series{labels: key.labels(), last: math.MinInt64}
		if last, ok := tx.resumed[string(sr.labels.Bytes(nil))]; ok {
			sr.last = last
		}
		tx.series[key] = sr
	}
	sr.used = tx.tick
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
