package plan

import (
	"errors"
	"fmt"
	"math"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/value"
)

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

// repeatedShares returns two shares. again is that of the work of failed attempts that comes on top of demand: demand
// has each call in full, served or not, so a failed attempt comes on top only if another one followed it. twice is that
// of demand that is served twice: if clients give up unnoticed, more attempts than calls are served.
func (s history) repeatedShares() (again, twice float64) {
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

// load is that of all attempts in a minute. Failed attempts hold KV cache as calls do.
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

// traffic is that of the minutes with telemetry.
func (s history) traffic(p *Pool, source string) Traffic {
	requests := s[features.DimRequests]
	t := Traffic{Source: fmt.Sprintf("%s (%s)", source, value.Count(len(requests), "minute"))}
	again, twice := s.repeatedShares()
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
	t.Notes = append(t.Notes, "Lengths of single requests are not kept, so how much they vary is estimated.")
	return t
}

// ErrNoTraffic means that a history has no traffic of a pool.
var ErrNoTraffic = errors.New("there is no traffic")

// SetTraffic sets the traffic from the demand by dimension, one value a minute, or returns [ErrNoTraffic].
func (in *Input) SetTraffic(demand map[string][]float64, source string) error {
	requests := demand[features.DimRequests]
	first, last := len(requests), -1 // minutes before the first telemetry, and those that have not settled, are left out
	for i, calls := range requests {
		if !math.IsNaN(calls) {
			first, last = min(first, i), i
		}
	}
	if last < 0 {
		return fmt.Errorf("%s: %w of pool %q", source, ErrNoTraffic, in.Pool.Name)
	}
	for dimension, values := range demand {
		demand[dimension] = values[min(first, len(values)):min(last+1, len(values))]
	}
	in.Traffic = history(demand).traffic(&in.Pool, source)
	return nil
}
