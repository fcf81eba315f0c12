package storage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// History reads the stored series back as the pipeline's types, for reports.
type History struct {
	Series promstorage.Queryable // a Store or, with the expected values of unsettled minutes, its Queryable
}

// Observed calls fn with each series of demand, ordered by dimension, then key. values[i] is the minute that
// starts at from + i minutes, NaN if unknown. from is truncated to the minute. The slice is valid during the call.
func (h History) Observed(
	ctx context.Context, from, to time.Time, fn func(key features.Key, dimension string, values []float64) error,
) error {
	for _, d := range features.Dimensions {
		err := h.minutes(ctx, from, to, matchers(d.Series, nil), func(l labels.Labels, values []float64) error {
			return fn(keyOf(l), d.Name, values)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Values returns the stored series with a name and all of the labels, by minute as in Observed; nil if there is none.
func (h History) Values(
	ctx context.Context, name string, having map[string]string, from, to time.Time,
) (out []float64, err error) {
	err = h.minutes(ctx, from, to, matchers(name, having), func(_ labels.Labels, values []float64) error {
		out = slices.Clone(values)
		return nil
	})
	return out, err
}

// matchers match the series with a name and all of the labels.
func matchers(name string, having map[string]string) []*labels.Matcher {
	all := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)}
	for label, value := range having {
		all = append(all, labels.MustNewMatcher(labels.MatchEqual, label, value))
	}
	return all
}

// each calls fn with the samples from mint to maxt, Unix ms, of each matching series, ordered by labels. The slices are
// valid during the call.
func (h History) each(
	ctx context.Context, mint, maxt int64, matching []*labels.Matcher,
	fn func(l labels.Labels, times []int64, values []float64) error,
) error {
	q, err := h.Series.Querier(mint, maxt)
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

func keyOf(l labels.Labels) features.Key {
	return features.Key{Pool: l.Get("pool"), Class: l.Get("class")}
}

// minutes calls fn with each matching series by minute, ordered by labels.
func (h History) minutes(
	ctx context.Context, from, to time.Time, matching []*labels.Matcher, fn func(l labels.Labels, values []float64) error,
) error {
	from = from.Truncate(features.Minute)
	n := int(to.Sub(from) / features.Minute)
	if n <= 0 {
		return nil
	}
	// The timestamp of a minute is its end.
	mint, maxt := from.Add(features.Minute).UnixMilli(), from.Add(time.Duration(n)*features.Minute).UnixMilli()
	byMinute := make([]float64, n)
	return h.each(ctx, mint, maxt, matching, func(l labels.Labels, times []int64, values []float64) error {
		for i := range byMinute {
			byMinute[i] = math.NaN()
		}
		for i, t := range times {
			byMinute[(t-mint)/features.Minute.Milliseconds()] = values[i]
		}
		return fn(l, byMinute)
	})
}

// Forecasts calls fn with each forecast issued in [from, to), ordered by pool, class, dimension and origin. NaN marks
// what is not stored: minutes other than 5, 15, 30 and 60, Last, Weights. The forecast is valid during the call. It
// needs memory for the samples of one pool, class and dimension.
func (h History) Forecasts(ctx context.Context, from, to time.Time, fn func(*forecaster.Forecast) error) error {
	q, err := h.Series.Querier(from.UnixMilli(), to.UnixMilli()-1)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer q.Close()
	pools, _, err := q.LabelValues(ctx, "pool", nil, matchers(ForecastSeries, nil)...)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	slices.Sort(pools)
	for _, pool := range pools {
		if err := h.readForecasts(ctx, map[string]string{"pool": pool}, from, to, fn); err != nil {
			return err
		}
	}
	return nil
}

// Forecast returns the newest forecast issued from from to at; nil if there is none. NaN is as in Forecasts.
func (h History) Forecast(
	ctx context.Context, key features.Key, dimension string, from, at time.Time,
) (newest *forecaster.Forecast, err error) {
	having := map[string]string{"pool": key.Pool, "class": key.Class, "dimension": dimension}
	err = h.readForecasts(ctx, having, from, at.Add(time.Millisecond), func(f *forecaster.Forecast) error {
		newest = new(*f)
		return nil
	})
	return newest, err
}

// issued has the stored values of one forecast, by horizon and level. NaN is unknown.
type issued struct {
	origin int64 // Unix ms
	values [len(horizons)][forecaster.NumLevels]float64
}

// readForecasts joins the series of each class and dimension into forecasts. A pool's series are sorted by label names:
// class, dimension, horizon, quantile. So those of one class and dimension are adjacent.
func (h History) readForecasts(
	ctx context.Context, having map[string]string, from, to time.Time, fn func(*forecaster.Forecast) error,
) error {
	var (
		key       features.Key
		dimension string
		all       []issued // of key and dimension, by origin
	)
	emit := func() error {
		for i := range all {
			f := unknownForecast
			f.Key, f.Dimension, f.Origin = key, dimension, time.UnixMilli(all[i].origin).UTC()
			for j, minute := range forecastMinutes {
				f.Minute[minute-1] = all[i].values[j]
			}
			f.WindowMax = all[i].values[len(forecastMinutes)]
			if err := fn(&f); err != nil {
				return err
			}
		}
		all = all[:0]
		return nil
	}
	matching := matchers(ForecastSeries, having)
	err := h.each(ctx, from.UnixMilli(), to.UnixMilli()-1, matching, func(l labels.Labels, times []int64, values []float64) error {
		if k, d := keyOf(l), l.Get("dimension"); k != key || d != dimension {
			if err := emit(); err != nil {
				return err
			}
			key, dimension = k, d
		}
		horizon, level := slices.Index(horizons[:], l.Get("horizon")), slices.Index(levelLabels[:], l.Get("quantile"))
		if horizon < 0 || level < 0 {
			return nil // of another version
		}
		i := 0
		for j, origin := range times {
			for i < len(all) && all[i].origin < origin {
				i++
			}
			if i == len(all) || all[i].origin > origin {
				x := issued{origin: origin}
				for k := range x.values {
					x.values[k] = unknownForecast.WindowMax
				}
				all = slices.Insert(all, i, x)
			}
			all[i].values[horizon][level] = values[j]
		}
		return nil
	})
	if err != nil {
		return err
	}
	return emit()
}

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
