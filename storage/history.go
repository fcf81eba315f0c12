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

// History reads the stored data back as the pipeline's types, for reports.
type History struct {
	Store *Store
	Log   Decisions
	// Unsettled includes unsettled minutes with their expected values.
	Unsettled bool
}

// querier reads the samples from mint to maxt, Unix ms.
func (h History) querier(mint, maxt int64) (promstorage.Querier, error) {
	if h.Unsettled {
		return h.Store.Queryable().Querier(mint, maxt)
	}
	return h.Store.Querier(mint, maxt)
}

// Decisions passes all decisions with a tick in [from, to), in order.
type Decisions interface {
	Read(ctx context.Context, from, to time.Time, fn func(*alerting.Decision) error) error
}

// Observed calls fn with each series of settled demand, ordered by dimension, then key. values[i] is the minute that
// starts at from + i minutes, NaN if unknown. from is truncated to the minute. The slice is valid during the call.
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
		return fn(keyOf(l), values)
	})
}

// Values calls fn with the stored series that have a name and all of the labels, by minute as in Observed.
func (h History) Values(ctx context.Context, name string, having map[string]string, from, to time.Time, fn func(values []float64) error) error {
	return h.minutes(ctx, name, from, to, func(_ labels.Labels, values []float64) error { return fn(values) }, equal(having)...)
}

// equal returns a matcher for each label.
func equal(having map[string]string) (all []*labels.Matcher) {
	for _, label := range slices.Sorted(maps.Keys(having)) {
		all = append(all, labels.MustNewMatcher(labels.MatchEqual, label, having[label]))
	}
	return all
}

// each calls fn with the samples from mint to maxt, Unix ms, of each matching series, ordered by labels. The slices are
// valid during the call.
func (h History) each(ctx context.Context, mint, maxt int64, fn func(l labels.Labels, times []int64, values []float64) error, matching ...*labels.Matcher) error {
	q, err := h.querier(mint, maxt)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer q.Close()
	var it chunkenc.Iterator
	var times []int64
	var values []float64
	set := q.Select(ctx, true, nil, matching...)
	for set.Next() {
		at := set.At()
		times, values = times[:0], values[:0]
		for it = at.Iterator(it); it.Next() == chunkenc.ValFloat; {
			t, v := it.At()
			times, values = append(times, t), append(values, v)
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("history of %s: %w", at.Labels(), err)
		}
		if err := fn(at.Labels(), times, values); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

func named(name string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)
}

func keyOf(l labels.Labels) features.Key {
	return features.Key{Pool: l.Get("pool"), Class: l.Get("class")}
}

// minutes calls fn with each matching series of a name by minute, ordered by labels.
func (h History) minutes(ctx context.Context, name string, from, to time.Time, fn func(l labels.Labels, values []float64) error, only ...*labels.Matcher) error {
	from = from.Truncate(features.Minute)
	n := int(to.Sub(from) / features.Minute)
	if n <= 0 {
		return nil
	}
	// The timestamp of a minute is its end.
	mint, maxt := from.Add(features.Minute).UnixMilli(), from.Add(time.Duration(n)*features.Minute).UnixMilli()
	byMinute := make([]float64, n)
	return h.each(ctx, mint, maxt, func(l labels.Labels, times []int64, values []float64) error {
		for i := range byMinute {
			byMinute[i] = math.NaN()
		}
		for i, t := range times {
			byMinute[(t-mint)/features.Minute.Milliseconds()] = values[i]
		}
		return fn(l, byMinute)
	}, append(only, named(name))...)
}

// Forecasts calls fn with each forecast issued in [from, to), ordered by pool (its total first), class, dimension and
// origin. NaN marks what is not stored: minutes other than 5, 15, 30 and 60, Last, Weights. The forecast is valid
// during the call. It needs memory for the samples of one pool, class and dimension.
func (h History) Forecasts(ctx context.Context, from, to time.Time, fn func(*forecaster.Forecast) error) error {
	q, err := h.querier(from.UnixMilli(), to.UnixMilli()-1)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer q.Close()
	pools, _, err := q.LabelValues(ctx, "pool", nil, named(ForecastSeries))
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	slices.Sort(pools)
	for _, pool := range pools {
		for _, total := range []labels.MatchType{labels.MatchEqual, labels.MatchNotEqual} {
			of := labels.MustNewMatcher(labels.MatchEqual, "pool", pool)
			if err := h.readForecasts(ctx, from, to, fn, named(ForecastSeries), of, labels.MustNewMatcher(total, "class", features.TotalClass)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ForecastsOf is Forecasts for one pool, class and dimension.
func (h History) ForecastsOf(ctx context.Context, key features.Key, dimension string, from, to time.Time, fn func(*forecaster.Forecast) error) error {
	only := equal(map[string]string{model.MetricNameLabel: ForecastSeries, "pool": key.Pool, "class": key.Class, "dimension": dimension})
	return h.readForecasts(ctx, from, to, fn, only...)
}

// Decisions calls fn with each decision with a tick in [from, to), in order.
func (h History) Decisions(ctx context.Context, from, to time.Time, fn func(*alerting.Decision) error) error {
	return h.Log.Read(ctx, from, to, fn)
}

// readForecasts joins the series of each class and dimension into forecasts. A pool's series are sorted by label names:
// class, dimension, horizon, quantile. So those of one class and dimension are adjacent.
func (h History) readForecasts(ctx context.Context, from, to time.Time, fn func(*forecaster.Forecast) error, matching ...*labels.Matcher) error {
	var b forecastBundle
	err := h.each(ctx, from.UnixMilli(), to.UnixMilli()-1, func(l labels.Labels, times []int64, values []float64) error {
		key, dimension := keyOf(l), l.Get("dimension")
		if key != b.Key || dimension != b.dimension {
			if err := b.emit(fn); err != nil {
				return err
			}
			b = forecastBundle{Key: key, dimension: dimension}
		}
		if minute, level, ok := forecastSlot(l); ok { // otherwise another version's horizon or level
			b.columns = append(b.columns, forecastColumn{minute: minute, level: level, times: slices.Clone(times), values: slices.Clone(values)})
		}
		return nil
	}, matching...)
	if err != nil {
		return err
	}
	return b.emit(fn)
}

// forecastSlot returns the place of a series in a Forecast; minute 0 is the window maximum.
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

// forecastBundle has the series of one pool, class and dimension.
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

// emit merges the columns by time.
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
