package main

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/forewarm/forewarm/alerting"
)

// raw has the stored data: samples by series and time, decisions by tick.
type raw struct {
	series    []rawSeries
	decisions []alerting.Decision
	end       int64 // of the period: a report does not use later decisions
}

type rawSeries struct {
	labels labels.Labels
	at     map[int64]float64 // by Unix minute
}

func readRaw(t *testing.T, h *simulatedHistory) *raw {
	t.Helper()
	q, err := h.store.Queryable().Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	r := &raw{}
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, "forewarm_(demand_.*|forecast)"))
	for set.Next() {
		s := rawSeries{set.At().Labels(), map[int64]float64{}}
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			at, v := it.At()
			s.at[at/60000] = v
		}
		r.series = append(r.series, s)
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	if err := h.Decisions(t.Context(), time.Time{}, time.Unix(1<<40, 0), func(d *alerting.Decision) error {
		r.decisions = append(r.decisions, *d)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *raw) find(match map[string]string) *rawSeries {
	for i := range r.series {
		same := true
		for name, value := range match {
			same = same && r.series[i].labels.Get(name) == value
		}
		if same {
			return &r.series[i]
		}
	}
	return nil
}

// seriesNames has the names of demand series by dimension.
var seriesNames = map[string]string{
	"requests": "forewarm_demand_requests_per_second", "prefill": "forewarm_demand_prefill_tokens_per_second", "cached": "forewarm_demand_cached_tokens_per_second",
	"decode": "forewarm_demand_decode_tokens_per_second", "kv": "forewarm_demand_kv_tokens",
}

// demand returns the settled demand of the minute that begins at a Unix minute. Its sample has the time of its end.
func (r *raw) demand(class, dimension string) func(minute int64) float64 {
	s := r.find(map[string]string{"__name__": seriesNames[dimension], "class": class})
	return func(minute int64) float64 {
		if s == nil {
			return math.NaN()
		}
		if v, ok := s.at[minute+1]; ok {
			return v
		}
		return math.NaN()
	}
}

// quantiles returns a forecast by level, nil if none is stored.
func (r *raw) quantiles(class, dimension, horizon string) func(origin int64) map[float64]float64 {
	of := map[float64]*rawSeries{}
	for _, level := range []float64{.05, .1, .25, .5, .75, .8, .9, .95, .99} {
		of[level] = r.find(map[string]string{"__name__": "forewarm_forecast", "class": class, "dimension": dimension, "horizon": horizon, "quantile": strconv.FormatFloat(level, 'g', -1, 64)})
	}
	return func(origin int64) map[float64]float64 {
		out := map[float64]float64{}
		for level, s := range of {
			if s == nil {
				return nil
			}
			v, ok := s.at[origin]
			if !ok {
				return nil
			}
			out[level] = v
		}
		return out
	}
}

// retried returns the load of all attempts divided by that of calls in a minute, by the decision in force.
func (r *raw) retried(resource string, minute int64) float64 {
	if d := r.inForce(minute); d != nil {
		for _, e := range slices.Concat(d.Resources, d.Prompts) {
			if e.Dimension == resource && e.Retries != nil {
				return e.Retries.Factor
			}
		}
	}
	return 1
}

// inForce returns the decision that applies in a minute: the newest one of the last 15 minutes, nil without one.
func (r *raw) inForce(minute int64) *alerting.Decision {
	var found *alerting.Decision
	for i := range r.decisions {
		if at := r.decisions[i].Tick.Unix() / 60; at <= minute && at > minute-15 {
			found = &r.decisions[i]
		}
	}
	return found
}
