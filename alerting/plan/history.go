package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// rates are the demand of one minute by dimension, as stored; NaN if unknown.
type rates struct{ requests, prefill, cached, decode, kv, retry, served, wastedPrefill, wastedDecode float64 }

func unknownRates() (r rates) {
	for _, d := range features.Dimensions {
		if f := r.of(d.Name); f != nil {
			*f = math.NaN()
		}
	}
	return r
}

func (r *rates) of(dimension string) *float64 {
	switch dimension {
	case features.DimRequests:
		return &r.requests
	case features.DimPrefill:
		return &r.prefill
	case features.DimCached:
		return &r.cached
	case features.DimDecode:
		return &r.decode
	case features.DimKV:
		return &r.kv
	case features.DimRetry:
		return &r.retry
	case features.DimServed:
		return &r.served
	case features.DimWastedPrefill:
		return &r.wastedPrefill
	case features.DimWastedDecode:
		return &r.wastedDecode
	}
	return nil
}

// add adds v; the first known value replaces NaN.
func (r *rates) add(dimension string, v float64) {
	into := r.of(dimension)
	switch {
	case into == nil || math.IsNaN(v):
	case math.IsNaN(*into):
		*into = v
	default:
		*into += v
	}
}

// attempts: again is the share of the work of failed attempts that comes on top of demand; twice is the share of demand
// that is served twice. Demand has each call in full, served or not. A failed attempt comes on top if another followed
// it, not if it was the last one of its call. More attempts than calls are served if clients give up unnoticed.
func (r *rates) attempts() (again, twice float64) {
	served := r.served
	if math.IsNaN(served) || !(r.requests > 0) {
		return 0, 0
	}
	if failed := r.requests + known(r.retry) - served; failed > 0 {
		again = min(known(r.retry)/failed, 1)
	}
	return again, max(served/r.requests-1, 0)
}

// load of all attempts. Failed attempts hold KV cache as calls do.
func (r *rates) load(p *Pool, again, twice float64) Load {
	prompt, output := known(r.prefill)*(1+twice)+again*known(r.wastedPrefill), known(r.decode)*(1+twice)+again*known(r.wastedDecode)
	kv := r.kv
	if tokens := known(r.prefill) + known(r.decode); tokens > 0 {
		kv *= (prompt + output) / tokens
	}
	return FromRates(r.requests+known(r.retry), prompt, known(r.cached), output, kv, p.Rates.PrefillTokensPerS, p.Rates.ITL.Seconds())
}

// liveTraffic makes traffic from minutes and the mean rates of each class.
func liveTraffic(p *Pool, source string, minutes []rates, classes map[string]rates) Traffic {
	t := Traffic{Source: source}
	cached, sum := false, unknownRates()
	for i := range minutes {
		for _, d := range []string{features.DimRequests, features.DimRetry, features.DimServed} {
			sum.add(d, *minutes[i].of(d))
		}
	}
	again, twice := sum.attempts()
	for i := range minutes {
		if math.IsNaN(minutes[i].requests) {
			continue // a minute without telemetry is not zero traffic
		}
		cached = cached || minutes[i].cached > 0
		t.Minutes = append(t.Minutes, minutes[i].load(p, again, twice))
		t.Calls.Calls += minutes[i].requests
	}
	n := float64(len(t.Minutes))
	t.Calls = Calls{Calls: t.Calls.Calls / n, Served: min(sum.served, sum.requests) / n}
	if missing := len(minutes) - len(t.Minutes); missing > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d minutes have no telemetry and are left out.", missing))
	}
	if !cached {
		t.Notes = append(t.Notes, "No cached tokens are known: all prompt tokens count as prefill.")
	}
	t.Notes = append(t.Notes, "Only the median and the 95th percentile of lengths are kept for each minute, so how much lengths vary is estimated.")
	sums := map[string]tally{}
	for name, r := range classes {
		if !math.IsNaN(r.requests) {
			again, twice := r.attempts()
			sums[name] = tally{load: r.load(p, again, twice), calls: r.requests, served: min(r.served, r.requests)}
		}
	}
	t.Classes = means(sums, 1)
	return t
}

// ErrNoTraffic means that a history has no traffic of a pool.
var ErrNoTraffic = errors.New("there is no traffic")

// History is the stored demand of all pools, one value a minute.
type History interface {
	Observed(ctx context.Context, from, to time.Time, fn func(key features.Key, dimension string, values []float64) error) error
	Tokens(ctx context.Context, by string, from, to time.Time, fn func(key features.Key, name string, values []float64) error) error
	Lengths(ctx context.Context, from, to time.Time, fn func(key features.Key, output bool, level float64, values []float64) error) error
}

// ReadHistory sets the traffic of the pool, and the lengths of its requests, from the days before end. It returns
// [ErrNoTraffic] if there is none.
func (in *Input) ReadHistory(ctx context.Context, h History, source string, end time.Time, days int) error {
	start := end.AddDate(0, 0, -days).Truncate(features.Minute)
	minutes := make([]rates, int(end.Sub(start)/features.Minute))
	for i := range minutes {
		minutes[i] = unknownRates()
	}
	classes, calls := map[string]rates{}, map[string][]float64{}
	sums := map[string]map[string]float64{} // of classes, by dimension
	if err := h.Observed(ctx, start, end, func(key features.Key, dimension string, values []float64) error {
		if key.Pool != in.Pool.Name {
			return nil
		}
		if key.Class == features.TotalClass {
			for i, v := range values[:min(len(values), len(minutes))] {
				minutes[i].add(dimension, v)
			}
			return nil
		}
		if dimension == features.DimRequests {
			calls[key.Class] = append([]float64{}, values...)
		}
		if sums[key.Class] == nil {
			sums[key.Class] = map[string]float64{}
		}
		for _, v := range values {
			if !math.IsNaN(v) {
				sums[key.Class][dimension] += v
			}
		}
		return nil
	}); err != nil {
		return err
	}
	first, known := 0, 0.
	for first < len(minutes) && math.IsNaN(minutes[first].requests) {
		first++ // before the first telemetry
	}
	if first == len(minutes) {
		return fmt.Errorf("%s: %w of pool %q in the newest %s", source, ErrNoTraffic, in.Pool.Name, count(days, "day"))
	}
	for i := range minutes {
		if !math.IsNaN(minutes[i].requests) {
			known++
		}
	}
	for class, byDimension := range sums {
		r := unknownRates()
		for dimension, sum := range byDimension {
			r.add(dimension, sum/known)
		}
		classes[class] = r
	}
	for math.IsNaN(minutes[len(minutes)-1].requests) {
		minutes = minutes[:len(minutes)-1] // the newest minutes have not settled
	}
	minutes = minutes[first:]
	in.Traffic = liveTraffic(&in.Pool, fmt.Sprintf("%s (%s)", source, count(len(minutes), "minute")), minutes, classes)
	if err := in.readTenants(ctx, h, start, end); err != nil {
		return err
	}
	lengths, err := readLengths(ctx, h, in.Pool.Name, start, end, calls)
	in.Lengths = ContextsOf(lengths)
	return err
}

// readTenants adds the loads of tenants with their own series: of each class in proportion to tokens.
func (in *Input) readTenants(ctx context.Context, h History, start, end time.Time) error {
	tokens, all := map[string]map[string]float64{}, map[string]float64{}
	if err := h.Tokens(ctx, "tenant", start, end, func(key features.Key, name string, values []float64) error {
		if key.Pool != in.Pool.Name {
			return nil
		}
		if tokens[key.Class] == nil {
			tokens[key.Class] = map[string]float64{}
		}
		for _, v := range values {
			tokens[key.Class][name] += known(v)
			all[key.Class] += known(v)
		}
		return nil
	}); err != nil {
		return err
	}
	sums := map[string]tally{}
	for i := range in.Traffic.Classes {
		c := &in.Traffic.Classes[i]
		for name, of := range tokens[c.Name] {
			if share := of / all[c.Name]; name != "" && share > 0 {
				sum := sums[name]
				sum.add(&tally{c.Load.Times(share), share * c.Calls.Calls, share * c.Served})
				sums[name] = sum
			}
		}
	}
	in.Traffic.Tenants = means(sums, 1)
	return nil
}

// readLengths reads each class's lengths of prompts and outputs; a minute's weight is its calls.
func readLengths(ctx context.Context, h History, pool string, start, end time.Time, calls map[string][]float64) (out []*ClassLengths, err error) {
	byClass, medians := map[string]*ClassLengths{}, []float64(nil)
	err = h.Lengths(ctx, start, end, func(key features.Key, output bool, level float64, values []float64) error {
		weights := calls[key.Class]
		switch {
		case key.Pool != pool || weights == nil:
			return nil
		case level == .5:
			medians = append(medians[:0], values...) // the 95th percentile comes next
			return nil
		}
		c := byClass[key.Class]
		if c == nil {
			c = new(ClassLengths)
			byClass[key.Class] = c
			out = append(out, c)
		}
		into := &c.Prompt
		if output {
			into = &c.Output
		}
		for i, p95 := range values {
			if p50 := medians[i]; p50 > 0 && p95 >= p50 && weights[i] > 0 {
				into.AddLengths(Lengths{P50: p50, P95: p95}, weights[i])
			}
		}
		return nil
	})
	return out, err
}

// ApplyDecision sets the lead time and rates of a decision, and its replicas unless they are stated (above 0).
func (p *Pool) ApplyDecision(d *alerting.Decision, replicas, prefill int) {
	if p.Lead = d.Lead; replicas == 0 && d.Ready > 0 {
		p.Replicas = d.Ready
	}
	if d.ByRole != nil && prefill == 0 && d.ByRole.PrefillReady > 0 {
		p.Prefill = d.ByRole.PrefillReady
	}
	used := map[string]float64{}
	for _, r := range append(d.Prompts, d.Resources...) {
		used[r.Dimension] = r.PerReplica
	}
	if kv := used[capacity.KV]; kv > 0 && p.KVTarget > 0 {
		p.Reported = int(min(kv/p.KVTarget, 1e12))
	}
	for _, r := range d.Basis.Rates {
		switch {
		case r.Used <= 0:
		case r.Dimension == capacity.Prefill:
			p.Rates.PrefillTokensPerS = r.Used
		case r.Dimension == capacity.Decode:
			p.Rates.DecodeTokensPerS, p.Rates.Bound = r.Used, true
		}
		if r.Dimension != capacity.KV && r.Learned > 0 && r.Used == r.Learned {
			p.Rates.Source = capacity.Learned
			p.Rates.Extrapolated = p.Rates.Extrapolated || slices.ContainsFunc(d.Basis.Notes, func(note string) bool { return strings.HasPrefix(note, r.Dimension+": extrapolated") })
		}
	}
}
