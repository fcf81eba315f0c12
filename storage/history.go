package storage

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// History reads back what was stored, in the terms in which it was made. Reports are its readers.
type History struct {
	Store *Store
	Log   Decisions
	// Unsettled has minutes that have not settled read as well, as they are expected to settle.
	Unsettled bool
}

// querier reads the samples from mint to maxt, Unix ms.
func (h History) querier(mint, maxt int64) (promstorage.Querier, error) {
	if h.Unsettled {
		return h.Store.Queryable().Querier(mint, maxt)
	}
	return h.Store.Querier(mint, maxt)
}

// Decisions gives every decision whose tick is in [from, to), in order.
type Decisions interface {
	Read(ctx context.Context, from, to time.Time, fn func(*alerting.Decision) error) error
}

// Observed calls fn with every series of settled demand, ordered by dimension, then key: values[i] is the minute that
// starts at from + i minutes, NaN where it is not known. from is cut to the minute. The slice is valid during the call.
func (h History) Observed(ctx context.Context, from, to time.Time, fn func(key features.Key, dimension string, values []float64) error) error {
	for i := range features.Dimensions {
		d := &features.Dimensions[i]
		if err := h.Dimension(ctx, d, from, to, func(key features.Key, values []float64) error { return fn(key, d.Name, values) }); err != nil {
			return err
		}
	}
	return nil
}

// Dimension is Observed for one dimension.
func (h History) Dimension(ctx context.Context, d *features.Dimension, from, to time.Time, fn func(key features.Key, values []float64) error) error {
	return h.minutes(ctx, d.Series, from, to, func(l labels.Labels, values []float64) error {
		return fn(features.Key{Pool: l.Get("pool"), Class: l.Get("class")}, values)
	})
}

// Lengths calls fn with what is kept of the lengths of each class's prompts and outputs, in tokens: the quantile at level of
// each minute's requests, as Observed has minutes.
func (h History) Lengths(ctx context.Context, from, to time.Time, fn func(key features.Key, output bool, level float64, values []float64) error) error {
	for i, s := range []string{promptSeries, outputSeries} {
		if err := h.minutes(ctx, s, from, to, func(l labels.Labels, values []float64) error {
			level, err := strconv.ParseFloat(l.Get("quantile"), 64)
			if err != nil {
				return err
			}
			return fn(features.Key{Pool: l.Get("pool"), Class: l.Get("class")}, i == 1, level, values)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Values calls fn with the stored series of a name that have all of the labels, by the minute as in Observed.
func (h History) Values(ctx context.Context, name string, having map[string]string, from, to time.Time, fn func(values []float64) error) error {
	return h.minutes(ctx, name, from, to, func(_ labels.Labels, values []float64) error { return fn(values) }, equal(having)...)
}

// equal matches each of the labels.
func equal(having map[string]string) (all []*labels.Matcher) {
	for _, label := range slices.Sorted(maps.Keys(having)) {
		all = append(all, labels.MustNewMatcher(labels.MatchEqual, label, having[label]))
	}
	return all
}

// minutes calls fn with every series of a name that matches by the minute, ordered by its labels.
func (h History) minutes(ctx context.Context, name string, from, to time.Time, fn func(l labels.Labels, values []float64) error, only ...*labels.Matcher) error {
	from = from.Truncate(features.Minute)
	n := int(to.Sub(from) / features.Minute)
	if n <= 0 {
		return nil
	}
	// A minute is stamped with its end.
	mint, maxt := from.Add(features.Minute).UnixMilli(), from.Add(time.Duration(n)*features.Minute).UnixMilli()
	q, err := h.querier(mint, maxt)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer q.Close()
	values := make([]float64, n)
	set := q.Select(ctx, true, nil, append(only, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name))...)
	var it chunkenc.Iterator
	for set.Next() {
		at := set.At()
		for i := range values {
			values[i] = math.NaN()
		}
		it = at.Iterator(it)
		for it.Next() == chunkenc.ValFloat {
			t, v := it.At()
			if i := int((t - mint) / features.Minute.Milliseconds()); i >= 0 && i < n {
				values[i] = v
			}
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("history of %s: %w", at.Labels(), err)
		}
		if err := fn(at.Labels(), values); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("history of %s: %w", name, err)
	}
	return nil
}

// Late calls fn, in the order of keys, with what came too late and was handed out with the minutes of [from, to) of each
// class that had any.
func (h History) Late(ctx context.Context, from, to time.Time, fn func(key features.Key, late features.Late) error) error {
	q, err := h.Store.Querier(from.Add(features.Minute).UnixMilli(), to.UnixMilli())
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer q.Close()
	sums := map[features.Key]*features.Late{}
	var it chunkenc.Iterator
	for _, v := range lateValues {
		set := q.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, v.series))
		for set.Next() {
			at := set.At()
			l := at.Labels()
			key := features.Key{Pool: l.Get("pool"), Class: l.Get("class")}
			if sums[key] == nil {
				sums[key] = &features.Late{}
			}
			it = at.Iterator(it)
			for it.Next() == chunkenc.ValFloat {
				_, n := it.At()
				*v.of(sums[key]) += n
			}
			if err := it.Err(); err != nil {
				return fmt.Errorf("history of %s: %w", l, err)
			}
		}
		if err := set.Err(); err != nil {
			return fmt.Errorf("history of %s: %w", v.series, err)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(sums), features.Key.Compare) {
		if err := fn(key, *sums[key]); err != nil {
			return err
		}
	}
	return nil
}

// Forecasts calls fn with every forecast issued in [from, to): ordered by pool, its total before its classes, class and
// dimension as text, then by origin. What is not kept is NaN in it: minutes other than Config.ForecastMinutes, Last, Weights. It is valid during the
// call. Costs memory for the samples of one pool, class and dimension.
func (h History) Forecasts(ctx context.Context, from, to time.Time, fn func(*forecaster.Forecast) error) error {
	q, err := h.Store.Querier(from.UnixMilli(), to.UnixMilli()-1)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer q.Close()
	name := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, ForecastSeries)
	pools, _, err := q.LabelValues(ctx, "pool", nil, name)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	slices.Sort(pools)
	for _, pool := range pools {
		for _, total := range []labels.MatchType{labels.MatchEqual, labels.MatchNotEqual} {
			// Sorted series come by class, dimension, horizon, quantile: the labels' order by name.
			set := q.Select(ctx, true, nil, name, labels.MustNewMatcher(labels.MatchEqual, "pool", pool), labels.MustNewMatcher(total, "class", features.TotalClass))
			if err := readForecasts(set, pool, fn); err != nil {
				return fmt.Errorf("history of forecasts for %s: %w", pool, err)
			}
		}
	}
	return nil
}

// ForecastsOf is Forecasts for one pool, class and dimension.
func (h History) ForecastsOf(ctx context.Context, key features.Key, dimension string, from, to time.Time, fn func(*forecaster.Forecast) error) error {
	q, err := h.Store.Querier(from.UnixMilli(), to.UnixMilli()-1)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer q.Close()
	only := equal(map[string]string{model.MetricNameLabel: ForecastSeries, "pool": key.Pool, "class": key.Class, "dimension": dimension})
	if err := readForecasts(q.Select(ctx, true, nil, only...), key.Pool, fn); err != nil {
		return fmt.Errorf("history of forecasts for %s: %w", key.Pool, err)
	}
	return nil
}

// Decisions calls fn with every decision whose tick is in [from, to), in order.
func (h History) Decisions(ctx context.Context, from, to time.Time, fn func(*alerting.Decision) error) error {
	return h.Log.Read(ctx, from, to, fn)
}

// readForecasts joins the series of each class and dimension, which come one after the other, into forecasts.
func readForecasts(set promstorage.SeriesSet, pool string, fn func(*forecaster.Forecast) error) error {
	var b forecastBundle
	var it chunkenc.Iterator
	for set.Next() {
		at := set.At()
		l := at.Labels()
		key, dimension := features.Key{Pool: pool, Class: l.Get("class")}, l.Get("dimension")
		if key != b.Key || dimension != b.dimension {
			if err := b.emit(fn); err != nil {
				return err
			}
			b = forecastBundle{Key: key, dimension: dimension}
		}
		minute, level, ok := forecastSlot(l)
		if !ok {
			continue // of another version's horizons or levels
		}
		column := forecastColumn{minute: minute, level: level}
		it = at.Iterator(it)
		for it.Next() == chunkenc.ValFloat {
			t, v := it.At()
			column.times, column.values = append(column.times, t), append(column.values, v)
		}
		if err := it.Err(); err != nil {
			return err
		}
		b.columns = append(b.columns, column)
	}
	if err := set.Err(); err != nil {
		return err
	}
	return b.emit(fn)
}

// forecastSlot says where in a Forecast a series' values belong; minute 0 is the window maximum.
func forecastSlot(l labels.Labels) (minute, level int, ok bool) {
	if h := l.Get("horizon"); h != HorizonWindowMax {
		m, err := strconv.Atoi(h)
		if err != nil || m < 1 || m > forecaster.Horizon {
			return 0, 0, false
		}
		minute = m
	}
	level = slices.Index(levelLabels[:], l.Get("quantile"))
	return minute, level, level >= 0
}

// forecastBundle is everything stored of one pool, class and dimension.
type forecastBundle struct {
	features.Key
	dimension string
	columns   []forecastColumn
}

// forecastColumn is one series; next is the first value not yet emitted.
type forecastColumn struct {
	minute, level int
	next          int
	times         []int64
	values        []float64
}

// emit walks all columns by time.
func (b *forecastBundle) emit(fn func(*forecaster.Forecast) error) error {
	var f forecaster.Forecast
	for {
		origin := int64(math.MaxInt64)
		for i := range b.columns {
			if c := &b.columns[i]; c.next < len(c.times) {
				origin = min(origin, c.times[c.next])
			}
		}
		if origin == math.MaxInt64 {
			return nil
		}
		f = unknownForecast
		f.Key, f.Dimension, f.Origin = b.Key, b.dimension, time.UnixMilli(origin).UTC()
		for i := range b.columns {
			c := &b.columns[i]
			if c.next == len(c.times) || c.times[c.next] != origin {
				continue
			}
			if c.minute == 0 {
				f.WindowMax[c.level] = c.values[c.next]
			} else {
				f.Minute[c.minute-1][c.level] = c.values[c.next]
			}
			c.next++
		}
		if err := fn(&f); err != nil {
			return err
		}
	}
}

// unknownForecast has NaN for every number.
var unknownForecast = func() (f forecaster.Forecast) {
	f.Last = math.NaN()
	for i := range f.WindowMax {
		f.WindowMax[i] = math.NaN()
		for m := range f.Minute {
			f.Minute[m][i] = math.NaN()
		}
	}
	return f
}()
