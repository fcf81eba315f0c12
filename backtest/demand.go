package backtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// loadDimensions are the demand dimensions that can be a replica's resource, in the order of Load.
var loadDimensions = [...]string{capacity.KV, capacity.Prefill, capacity.Decode, capacity.Requests}

// Load is the demand of all attempts of one minute, by loadDimensions, in their units; NaN if unknown.
type Load [len(loadDimensions)]float64

// Of returns the load of one dimension; NaN if that is no resource.
func (l Load) Of(dimension string) float64 {
	if i := slices.Index(loadDimensions[:], dimension); i >= 0 {
		return l[i]
	}
	return math.NaN()
}

// maxDemandMinutes bounds a trace: four years, or 210 MiB.
const maxDemandMinutes = 4 * 366 * 1440

// Demand is a trace's demand by minute.
type Demand struct {
	Start   time.Time // of the first minute
	Minutes []Load
	// Calls is the demand of calls, each counted once, by the name of features.Dimensions; NaN if unknown.
	Calls map[string][]float64
}

// At returns the load of the minute that begins at t; NaN outside the trace.
func (d *Demand) At(t time.Time) Load {
	i := int(t.Sub(d.Start) / features.Minute)
	if i < 0 || i >= len(d.Minutes) {
		return unknownLoad
	}
	return d.Minutes[i]
}

func (l Load) unknown() bool {
	return !slices.ContainsFunc(l[:], func(x float64) bool { return x >= 0 })
}

var unknownLoad = Load{math.NaN(), math.NaN(), math.NaN(), math.NaN()}

// Peak returns the largest load of each dimension separately; NaN if never known.
func (d *Demand) Peak() Load {
	peak := unknownLoad
	for _, m := range d.Minutes {
		for i, x := range m {
			if !(peak[i] >= x) && !math.IsNaN(x) {
				peak[i] = x
			}
		}
	}
	return peak
}

// Scan reads a source to its end and sums its demand by minute, with the pipeline's aggregation. It is for parts of
// a backtest that know the future: the size of replicas, the traffic of simulated pools, and the oracle.
func Scan(ctx context.Context, log *Source, cfg features.Config) (*Demand, error) {
	aggregator := features.New(cfg)
	demand := &Demand{Calls: map[string][]float64{}}
	var end time.Time
	for batch, err := range log.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		for i := range batch.Requests {
			if r := &batch.Requests[i]; r.Phase != ingest.PhaseArrived { // its end counts it
				aggregator.AddAttempt(r, features.Earlier{CallCounted: r.Attempt > 1})
			}
		}
		for i := range batch.Sums {
			aggregator.AddSum(&batch.Sums[i])
		}
		if batch.Watermark == nil {
			continue
		}
		aggregator.AddWatermark(batch.Watermark)
		end = batch.Watermark.At
		if err := demand.close(aggregator, end); err != nil {
			return nil, err
		}
	}
	for until := end.Add(cfg.Revise); end.Before(until); { // late windows after the trace's end
		end = end.Add(features.Minute)
		if err := demand.close(aggregator, end); err != nil {
			return nil, err
		}
	}
	return demand, nil
}

// close ends a minute and adds the settled windows.
func (d *Demand) close(a *features.Aggregator, t time.Time) error {
	windows, pools := a.Close(t)
	at := -1
	for i := range windows {
		w := &windows[i]
		if !w.Settled {
			continue
		}
		if d.Start.IsZero() {
			d.Start = w.Start
		}
		at = int(w.Start.Sub(d.Start) / features.Minute)
		if at >= maxDemandMinutes {
			return fmt.Errorf("the trace is longer than %d days: cut it, or check its times", maxDemandMinutes/1440)
		}
		for len(d.Minutes) <= at {
			d.Minutes = append(d.Minutes, unknownLoad)
			for _, dimension := range features.Dimensions {
				d.Calls[dimension.Name] = append(d.Calls[dimension.Name], math.NaN())
			}
		}
		for _, dimension := range features.Dimensions {
			if y, ok := dimension.Value(w); ok {
				if sum := &d.Calls[dimension.Name][at]; math.IsNaN(*sum) {
					*sum = y
				} else {
					*sum += y
				}
			}
		}
	}
	if at >= 0 {
		for j, name := range loadDimensions {
			d.Minutes[at][j] = d.Calls[name][at]
			if len(pools) > 0 && len(pools[0].Attempts) > 0 { // the oldest minute is the settled one
				d.Minutes[at][j] *= features.LoadFactor(pools[0].Attempts[:1], name)
			}
		}
	}
	return nil
}

// PeakPool returns a pool that needs n replicas in the busiest minute, in each resource with known demand: KV, prefill
// and decode, or requests if only those are counted. So each resource binds at its peak. Replicas are bounded by four
// times n ≥ 1.
func PeakPool(name string, peak Load, n int, warmup capacity.Lag) (capacity.Pool, error) {
	for i := range peak {
		peak[i] /= float64(n)
	}
	return sizedPool(name, peak, capacity.Replicas{Min: 1, Max: 4 * n, Initial: n}, warmup)
}

// sizedPool returns a pool with a replica's capacity per resource; zero, negative and NaN do not bind.
func sizedPool(name string, each Load, replicas capacity.Replicas, warmup capacity.Lag) (capacity.Pool, error) {
	const margin = 1e-9 // rounding must not add a replica at the peak
	of := func(dimension string) float64 {
		if x := each.Of(dimension); x > 0 {
			return x * (1 + margin)
		}
		return 0
	}
	cfg := capacity.Config{
		Name: name, KVTarget: 1, PrefillTarget: 1, KVCapacityTokens: int(math.Ceil(of(capacity.KV))),
		PrefillTokensPerS: of(capacity.Prefill), DecodeTokensPerS: of(capacity.Decode), Warmup: warmup, Replicas: replicas,
	}
	if cfg.KVCapacityTokens == 0 && cfg.PrefillTokensPerS == 0 && cfg.DecodeTokensPerS == 0 {
		cfg.MaxRequestsPerS = of(capacity.Requests)
	}
	return capacity.New(cfg, nil)
}
