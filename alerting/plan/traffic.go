package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/value"
)

// Records sums up the records of a trace by minute. The zero value is empty.
type Records struct {
	start   time.Time
	minutes []Load
	calls   float64

	prompts, outputs lengths
	binned           bool
}

// maxMinutes bounds a trace: a year.
const maxMinutes = 366 * 1440

// lengths are tokens of requests.
type lengths struct{ sum, known, unknown float64 }

// of is the length of n requests: their tokens, or the mean of those before if that is unknown; NaN without any before.
func (l *lengths) of(tokens, n float64) float64 {
	if !(tokens >= 0) {
		l.unknown += n
		return l.sum / l.known
	}
	l.sum, l.known = l.sum+tokens*n, l.known+n
	return tokens
}

// AddSum counts a sum over requests. The error means that the trace is too long.
func (g *Records) AddSum(s *ingest.Sum) error {
	n := zeroIfUnknown(s.Requests)
	if n == 0 {
		return nil
	}
	g.binned = true
	g.calls += n
	prompt, output := g.prompts.of(s.PromptTokens/n, n), g.outputs.of(s.OutputTokens/n, n)
	cached := min(zeroIfUnknown(s.CachedTokens)/n, prompt)
	return g.addTo(s.Start, Request(prompt, cached, output).Times(n))
}

// Add counts a request. The error means that the trace is too long.
func (g *Records) Add(r *ingest.Request) error {
	if r.Phase == ingest.PhaseArrived {
		return nil // its end is another record
	}
	prompt, output := g.prompts.of(float64(r.PromptTokens), 1), g.outputs.of(float64(r.OutputTokens), 1)
	load := Request(prompt, min(float64(max(r.CachedTokens, 0)), prompt), output)
	if r.Attempt <= 1 {
		g.calls++
	} else if r.Phase == ingest.PhaseRejected || r.Status == ingest.StatusRejected {
		load = Load{Requests: 1} // no replica computes it again
	}
	return g.addTo(r.EventTime(), load)
}

// addTo adds a sum over requests to its minute.
func (g *Records) addTo(at time.Time, l Load) error {
	if g.start.IsZero() {
		g.start = at.Truncate(features.Minute)
	}
	i := max(int(at.Sub(g.start)/features.Minute), 0) // a record comes at its end: it may arrive before the first to end
	if i >= maxMinutes {
		return fmt.Errorf("the trace is longer than %d days: cut it, or check its times", maxMinutes/1440)
	}
	for len(g.minutes) <= i {
		g.minutes = append(g.minutes, Load{})
	}
	g.minutes[i] = g.minutes[i].Plus(l.Times(1 / features.Minute.Seconds()))
	return nil
}

// Fill sets the traffic.
func (g *Records) Fill(in *Input, source string) {
	seconds := float64(len(g.minutes)) * features.Minute.Seconds()
	t := Traffic{
		Source:  fmt.Sprintf("%s (%s)", source, value.Count(len(g.minutes), "minute")),
		Minutes: g.minutes, Calls: g.calls / seconds,
	}
	if g.binned {
		t.Notes = append(t.Notes, "The trace has sums, not requests: lengths are assumed equal within a bin, "+
			"so active KV tokens are too low if lengths vary.")
	}
	if g.prompts.unknown+g.outputs.unknown > 0 {
		t.Notes = append(t.Notes, "Where the trace has no length of a request, it counts as long as those before on average.")
	}
	in.Traffic = t
}

func zeroIfUnknown(x float64) float64 {
	if math.IsNaN(x) || x < 0 {
		return 0
	}
	return x
}

// history is the demand of a pool by dimension: one value a minute, NaN if unknown.
type history map[string][]float64

// at is the demand in a minute, NaN if unknown.
func (s history) at(dimension string, minute int) float64 {
	if values := s[dimension]; minute < len(values) {
		return values[minute]
	}
	return math.NaN()
}

// attempts: again is the share of the work of failed attempts that comes on top of demand; twice is the share of demand
// that is served twice. Demand has each call in full, served or not. A failed attempt comes on top if another followed
// it, not if it was the last one of its call. More attempts than calls are served if clients give up unnoticed.
func (s history) attempts() (again, twice float64) {
	var requests, retries, served float64
	for i, v := range s[features.DimServed] {
		if !math.IsNaN(v) { // sums do not say what was served
			requests += zeroIfUnknown(s.at(features.DimRequests, i))
			retries += zeroIfUnknown(s.at(features.DimRetry, i))
			served += v
		}
	}
	if requests == 0 {
		return 0, 0
	}
	if failed := requests + retries - served; failed > 0 {
		again = min(retries/failed, 1)
	}
	return again, max(served/requests-1, 0)
}

// load of all attempts in a minute. Failed attempts hold KV cache as calls do.
func (s history) load(p *Pool, minute int, again, twice float64) Load {
	v := func(dimension string) float64 { return s.at(dimension, minute) }
	ifKnown := func(dimension string) float64 { return zeroIfUnknown(v(dimension)) }
	prompt := v(features.DimPrefill)*(1+twice) + again*ifKnown(features.DimWastedPrefill)
	output := v(features.DimDecode)*(1+twice) + again*ifKnown(features.DimWastedDecode)
	kv := v(features.DimKV)
	if tokens := v(features.DimPrefill) + v(features.DimDecode); tokens > 0 {
		kv *= (prompt + output) / tokens
	}
	requests := v(features.DimRequests) + ifKnown(features.DimRetry)
	return FromRates(requests, prompt, ifKnown(features.DimCached), output, kv, p.Rates.PrefillTokensPerS, p.ITL.Seconds())
}

// traffic of the minutes with telemetry.
func (s history) traffic(p *Pool, source string) Traffic {
	requests := s[features.DimRequests]
	t := Traffic{Source: fmt.Sprintf("%s (%s)", source, value.Count(len(requests), "minute"))}
	again, twice := s.attempts()
	for i, calls := range requests {
		if !math.IsNaN(calls) { // a minute without telemetry is not zero traffic
			t.Minutes = append(t.Minutes, s.load(p, i, again, twice))
			t.Calls += calls
		}
	}
	t.Calls /= float64(len(t.Minutes))
	if missing := len(requests) - len(t.Minutes); missing > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("The traffic leaves out %s without telemetry.", value.Count(missing, "minute")))
	}
	t.Notes = append(t.Notes, "Only the median and the 95th percentile of lengths are kept for each minute, "+
		"so how much lengths vary is estimated.")
	return t
}

// ErrNoTraffic means that a history has no traffic of a pool.
var ErrNoTraffic = errors.New("there is no traffic")

// History is the stored demand of all pools, one value a minute.
type History interface {
	Observed(ctx context.Context, from, to time.Time, fn func(key features.Key, dimension string, values []float64) error) error
}

// ReadHistory sets the traffic of the pool from the days before end. It returns [ErrNoTraffic] if there is none.
func (in *Input) ReadHistory(ctx context.Context, h History, source string, end time.Time, days int) error {
	start := end.AddDate(0, 0, -days).Truncate(features.Minute)
	demand := history{}
	if err := h.Observed(ctx, start, end, func(key features.Key, dimension string, values []float64) error {
		if key.Pool == in.Pool.Name && key.Class == features.TotalClass {
			demand[dimension] = slices.Clone(values)
		}
		return nil
	}); err != nil {
		return err
	}
	requests := demand[features.DimRequests]
	first, last := len(requests), -1 // minutes before the first telemetry, and those that have not settled, are left out
	for i, calls := range requests {
		if !math.IsNaN(calls) {
			first, last = min(first, i), i
		}
	}
	if last < 0 {
		return fmt.Errorf("%s: %w of pool %q in the newest %s", source, ErrNoTraffic, in.Pool.Name, value.Count(days, "day"))
	}
	for dimension, values := range demand {
		demand[dimension] = values[min(first, len(values)):min(last+1, len(values))]
	}
	in.Traffic = demand.traffic(&in.Pool, source)
	return nil
}
