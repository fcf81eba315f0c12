package backtest

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// Recorded is a pool's monitoring data by minute. It replaces a trace.
type Recorded struct {
	Source string    // address of the source
	Start  time.Time // of the first minute
	// Demand has averages per minute by dimension, in its unit, NaN if unknown.
	Demand map[string][]float64
	// Replicas that were ready in each minute, NaN if unknown; nil if all are unknown.
	Replicas []float64
	KVTokens float64  // KV cache of a replica; 0 if unknown
	Notes    []string // remarks for users
}

// recordedClass is the class of recorded demand.
const recordedClass = "all"

// minutes is the number of recorded minutes.
func (r *Recorded) minutes() (n int) {
	for _, values := range r.Demand {
		n = max(n, len(values))
	}
	return n
}

// Trim drops the minutes before the first known demand.
func (r *Recorded) Trim() {
	first := r.minutes()
	for _, values := range r.Demand {
		if i := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) }); i >= 0 {
			first = min(first, i)
		}
	}
	for dimension, values := range r.Demand {
		r.Demand[dimension] = values[first:]
	}
	if r.Replicas != nil {
		r.Replicas = r.Replicas[first:]
	}
	r.Start = r.Start.Add(time.Duration(first) * features.Minute)
}

// replicas returns the ready replicas in a minute, or the newest known before it, or 0.
func (r *Recorded) replicas(minute int) int {
	for m := min(minute, len(r.Replicas)-1); m >= 0; m-- {
		if x := r.Replicas[m]; !math.IsNaN(x) {
			return int(math.Round(x))
		}
	}
	return 0
}

// recordedLog is the event log of the recorded data: each minute's sum, and a watermark. In a minute without data the
// watermark names no pool, so that the minute is unknown, not zero traffic.
type recordedLog struct {
	*Recorded
	pool      string
	minute    int
	watermark ingest.Watermark
	held      float64 // KV tokens
}

// Next sets b to the next minute; io.EOF after the last.
func (l *recordedLog) Next(b *ingest.Batch) error {
	b.Reset()
	if l.minute >= l.minutes() {
		return io.EOF
	}
	start, known := l.Start.Add(time.Duration(l.minute)*features.Minute), false
	rate := func(dimension string) float64 {
		values := l.Demand[dimension]
		if l.minute >= len(values) || math.IsNaN(values[l.minute]) {
			return math.NaN()
		}
		known = true
		return values[l.minute]
	}
	seconds := features.Minute.Seconds()
	sum := ingest.Sum{
		Pool: l.pool, Class: recordedClass, Start: start, Requests: seconds * rate(features.DimRequests),
		PromptTokens: seconds * rate(features.DimPrefill), CachedTokens: math.NaN(), OutputTokens: seconds * rate(features.DimDecode),
	}
	if l.held = rate(features.DimKV); !math.IsNaN(l.held) {
		sum.KVTokens = &l.held
	}
	l.watermark = ingest.Watermark{At: start.Add(features.Minute)}
	if known {
		b.Sums = append(b.Sums, sum)
		l.watermark.Pool = l.pool
	}
	l.minute++
	b.Watermark, b.Sequence = &l.watermark, uint64(l.minute)
	return nil
}

// capacityQuantile is the quantile of a replica's load that is taken as its capacity.
const capacityQuantile = .99

// kvTarget is the planned share of a replica's KV cache, by default.
const kvTarget = 0.85

// seenPool returns the recorded pool. A replica's capacity is the load observed in nearly all minutes, and for KV cache
// at least the default planned share.
func (r *Recorded) seenPool(name string, demand *Demand, warmup capacity.Lag) (capacity.Pool, error) {
	var each Load
	peak := 1
	for i := range each {
		var seen []float64
		for m := range demand.Minutes {
			n := r.replicas(m + int(demand.Start.Sub(r.Start)/features.Minute))
			if peak = max(peak, n); n > 0 && demand.Minutes[m][i] > 0 {
				seen = append(seen, demand.Minutes[m][i]/float64(n))
			}
		}
		if len(seen) > 0 {
			slices.Sort(seen)
			each[i] = seen[int(capacityQuantile*float64(len(seen)-1))]
		}
		if loadDimensions[i] == capacity.KV && each[i] > 0 {
			each[i] = max(each[i], kvTarget*r.KVTokens)
		}
	}
	return sizedPool(name, each, capacity.Replicas{Min: 1, Max: 4 * peak, Initial: max(1, r.replicas(0))}, warmup)
}

// recordedPolicy has the recorded replicas.
func recordedPolicy(s Scene, _ Setting) Policy {
	r := s.Recorded
	return func(o Observation) int { return r.replicas(int(o.At.Sub(r.Start) / features.Minute)) }
}

// recordedReplicas is a pool with the recorded replicas, without other bounds.
func (r *Recorded) recordedReplicas(pool capacity.Pool) capacity.Pool {
	peak := 0
	for m := range r.Replicas {
		peak = max(peak, r.replicas(m))
	}
	pool.Replicas = capacity.Replicas{Max: peak, Initial: r.replicas(0)}
	pool.BudgetHourUSD = 0
	pool.Warmup = capacity.NewWarmup(time.Second, time.Second)
	return pool
}

// notes lists the limits of the results.
func (r *Recorded) notes(sized bool) []string {
	notes := []string{
		"There are sums of minutes, not requests. So lengths and latencies of single requests, sessions, tenants, retries and the time that requests waited are not known.",
		"What was recorded is what was served. Where the pool was full, more may have been asked for than is counted here.",
		"All classes are counted together.",
		"Replicas of which nothing was recorded, such as those that warmed up, are in no GPU-hours of the recorded pool. Those of the other policies are counted from the ask on.",
	}
	if sized {
		notes = append(notes, fmt.Sprintf("What a replica can carry is not recorded. It is taken to be the most that it was seen to carry in %g %% of the minutes; if it can carry more, more can be saved. State it in a configuration (-config).", 100*capacityQuantile))
	}
	return append(notes, r.Notes...)
}
