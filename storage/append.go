package storage

import (
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
// A tick that was stored before is skipped, as in a replay. It counts and skips samples that cannot be stored. An error
// means that the tick's samples are lost, for example on a full disk. The store continues with the next tick.
func (s *Store) Append(tick time.Time, windows []features.Window, forecasts []forecaster.PoolForecast, decisions []alerting.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.fresh.take(windows, tick.UnixMilli(), s.owns)
	t := tick.UnixMilli()
	if t <= s.stored {
		return nil
	}
	s.sweep(t)
	err := s.ready()
	if err == nil {
		before := s.counters.Appended
		if err = s.commit(t, windows, forecasts, decisions); err != nil {
			s.counters.Appended, s.suspect = before, true
		}
	}
	if err != nil {
		s.counters.LostTicks++
		return fmt.Errorf("series of tick %s are lost: %w", tick.UTC().Format(time.RFC3339), err)
	}
	s.stored = t
	s.maintain()
	return nil
}

// Restore keeps the unsettled minutes of a restored state for queries.
func (s *Store) Restore(tick time.Time, unsettled []features.Window) {
	s.fresh.take(unsettled, tick.UnixMilli(), s.owns)
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
	putAll(tx, seriesKey{pool: d.Pool}, t, poolColumns, d)
	for i := range d.Resources {
		r := &d.Resources[i]
		putAll(tx, seriesKey{pool: d.Pool, resource: r.Dimension}, t, resourceColumns, r)
	}
}

// putAll appends the columns of x to the series of a key.
func putAll[T any](tx *transaction, key seriesKey, t int64, columns []column[T], x T) {
	for _, c := range columns {
		key.name, key.more = c.series, c.label
		tx.put(key, t, c.value(x))
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

// windows stores the settled minutes: first the demand, then the shapes of classes with their own series.
func (tx *transaction) windows(windows []features.Window) {
	settled := minutes{}
	for i := range windows {
		if w := &windows[i]; w.Settled {
			settled.add(w, valuesOf(w), tx.owns(w.Key))
		}
	}
	for _, end := range slices.Sorted(maps.Keys(settled)) {
		settled.samples(end, func(key seriesKey, v float64) { tx.put(key, end, v) })
	}
	for i := range windows {
		if w := &windows[i]; w.Settled && tx.owns(w.Key) {
			putAll(tx, demandKey("", w.Key), w.Start.Add(features.Minute).UnixMilli(), shapeColumns, w)
		}
	}
}

// valuesOf returns a settled window's values by features.Dimensions; NaN if unknown.
func valuesOf(w *features.Window) []float64 {
	out := make([]float64, len(features.Dimensions))
	for i := range features.Dimensions {
		v, ok := features.Dimensions[i].Value(w)
		if out[i] = v; !ok {
			out[i] = math.NaN()
		}
	}
	return out
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
		sr = &series{labels: key.labels()}
		tx.series[key] = sr
	}
	sr.used = tx.tick
	ref, err := tx.app.Append(sr.ref, sr.labels, 0, t, v, nil, nil, promstorage.AppendV2Options{})
	if err != nil {
		if c.Refused++; c.Refused == 1 {
			tx.log.Warn("a sample cannot be stored; such samples are counted", "series", sr.labels.String(), "err", err)
		}
		return
	}
	sr.ref = ref
	c.Appended++
}
