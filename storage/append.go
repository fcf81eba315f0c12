package storage

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
)

// Append stores the output of one tick in one transaction: settled windows, forecasts at the kept horizons, decisions.
// It skips a tick that was stored before, as in a replay. It counts and skips samples that cannot be stored. An error
// means that the tick's samples are lost, for example on a full disk, or because later ones are stored. The store continues
// with the next tick. Unsettled minutes are kept for queries also after an error.
func (s *Store) Append(out *pipeline.Output) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := out.Tick.UnixMilli()
	defer s.fresh.take(out.Windows, t, s.owns)
	if t <= s.stored && (len(out.Decisions()) == 0 || s.decided(t)) {
		return nil
	}
	err := s.checkOrder(t)
	if err == nil {
		err = s.ready()
	}
	if err == nil {
		err = s.commit(t, out)
		s.suspect = err != nil
	}
	if err != nil {
		s.counters.LostTicks++
		return fmt.Errorf("series of tick %s are lost: %w", out.Tick.UTC().Format(time.RFC3339), err)
	}
	s.stored = t
	s.maintain()
	return nil
}

// decided reports whether a decision at t, Unix ms, is stored, or cannot be read.
func (s *Store) decided(t int64) (found bool) {
	err := History{s}.each(context.Background(), t, t, matchers(poolColumns[0].series, nil),
		func(labels.Labels, []int64, []float64) error { found = true; return nil })
	return found || err != nil
}

// checkOrder returns an error if series later than t, Unix ms, are stored.
func (s *Store) checkOrder(t int64) error {
	if t > s.stored {
		return nil
	}
	return fmt.Errorf("%s has later series, up to %s, and takes no earlier ones: if a clock was ahead, "+
		"stop the daemon and move %[1]s away to start without history", s.dir, time.UnixMilli(s.stored).UTC().Format(time.RFC3339))
}

// Restore keeps the unsettled minutes of a restored state for queries.
func (s *Store) Restore(tick time.Time, unsettled []features.Window) {
	s.fresh.take(unsettled, tick.UnixMilli(), s.owns)
}

// commit is Append without its checks. The TSDB panics on some disk failures.
func (s *Store) commit(t int64, out *pipeline.Output) (err error) {
	defer recovered(&err)
	tx := &transaction{Store: s, app: s.db.AppenderV2(context.Background()), tick: t}
	tx.refs = tx.app.(promstorage.GetRef)
	// The most important first: Config.MaxSeries drops the later ones.
	for _, d := range out.Decisions() {
		tx.decision(d)
	}
	for i := range out.Pools {
		tx.forecasts(out.Pools[i].Forecast.Total)
	}
	for i := range out.Minutes {
		m := &out.Minutes[i]
		putAll(tx, m.Settled.Add(features.Minute).UnixMilli(), latencyColumns, m.Served, "pool", m.Pool)
	}
	tx.windows(out.Windows)
	for i := range out.Pools {
		tx.forecasts(out.Pools[i].Forecast.Classes)
	}
	return tx.app.Commit()
}

// owns reports whether a class has its own series. The others of a pool are summed in features.OverflowClass.
func (s *Store) owns(key features.Key) bool {
	return key.Class != features.OverflowClass && (s.Shown == nil || s.Shown(key))
}

type transaction struct {
	*Store
	app  promstorage.AppenderV2
	refs promstorage.GetRef // app, which has this method too
	tick int64
}

func (tx *transaction) decision(d *alerting.Decision) {
	t := d.Tick.UnixMilli()
	putAll(tx, t, poolColumns, d, "pool", d.Pool)
	for i := range d.Resources {
		r := &d.Resources[i]
		putAll(tx, t, resourceColumns, r, "pool", d.Pool, "resource", r.Dimension)
	}
}

// putAll appends the columns of x to the series with some labels: names and values in turn.
func putAll[T any](tx *transaction, t int64, columns []column[T], x T, with ...string) {
	for _, c := range columns {
		tx.put(series(c.series, slices.Concat(with, c.label)...), t, c.value(x))
	}
}

func (tx *transaction) forecasts(fs []forecaster.Forecast) {
	for i := range fs {
		f := &fs[i]
		// The forecaster's overflow class may hold other classes than the stored one, so its forecasts are not stored.
		if f.Class != features.TotalClass && !tx.owns(f.Key) {
			continue
		}
		for h := range horizons { // the last one is the window maximum
			q := &f.WindowMax
			if h < len(forecastMinutes) {
				q = &f.Minute[forecastMinutes[h]-1]
			}
			for level, v := range q {
				s := series(ForecastSeries, "class", f.Class, "dimension", f.Dimension, "horizon", horizons[h],
					"pool", f.Pool, "quantile", levelLabels[level])
				tx.put(s, f.Origin.UnixMilli(), v)
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
		settled.samples(end, func(s labels.Labels, v float64) { tx.put(s, end, v) })
	}
	for i := range windows {
		if w := &windows[i]; w.Settled && tx.owns(w.Key) {
			putAll(tx, w.Start.Add(features.Minute).UnixMilli(), shapeColumns, w, "class", w.Class, "pool", w.Pool)
		}
	}
}

// valuesOf returns a settled window's values by features.Dimensions; NaN if unknown.
func valuesOf(w *features.Window) []float64 {
	out := make([]float64, len(features.Dimensions))
	for i := range features.Dimensions {
		v, ok := features.Dimensions[i].Value(w)
		if !ok {
			v = math.NaN()
		}
		out[i] = v
	}
	return out
}

// put appends one sample to a series, or counts the reason why not.
func (tx *transaction) put(s labels.Labels, t int64, v float64) {
	c := &tx.counters
	switch {
	case math.IsNaN(v):
		return // unknown
	case t > tx.tick:
		c.Refused++
		return
	}
	ref, _ := tx.refs.GetRef(s, s.Hash())
	if ref == 0 && tx.db.Head().NumSeries() >= uint64(tx.cfg.MaxSeries) {
		c.Capped++
		return
	}
	if _, err := tx.app.Append(ref, s, 0, t, v, nil, nil, promstorage.AppendV2Options{}); err != nil {
		c.Refused++
		tx.refusing.Do(func() {
			tx.log.Warn("a sample cannot be stored; such samples are counted", "series", s.String(), "err", err)
		})
	}
}
