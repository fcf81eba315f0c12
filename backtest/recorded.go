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
	"github.com/forewarm/forewarm/internal/value"
)

// Recorded is a pool's monitoring data by minute. It replaces a trace.
type Recorded struct {
	Source string    // address of the source
	Start  time.Time // of the first minute, which may be unknown
	// Demand has averages per minute by dimension, in its unit, NaN if unknown.
	Demand map[string][]float64
	// Replicas that were ready in each minute, NaN if unknown; nil if all are unknown.
	Replicas []float64
	KVTokens float64  // KV cache of a replica; 0 if unknown
	Notes    []string // remarks for users
}

func (r *Recorded) minutes() (n int) {
	for _, values := range r.Demand {
		n = max(n, len(values))
	}
	return n
}

// replicas returns the ready replicas at a time, or the newest known before it, or 0.
func (r *Recorded) replicas(at time.Time) int {
	for m := min(int(at.Sub(r.Start)/features.Minute), len(r.Replicas)-1); m >= 0; m-- {
		if x := r.Replicas[m]; !math.IsNaN(x) {
			return int(math.Round(x))
		}
	}
	return 0
}

// peak is the largest number of ready replicas.
func (r *Recorded) peak() int { return int(math.Round(value.Highest(r.Replicas))) }

func (r *Recorded) open(opts Options) (*Reader, error) {
	x := &Reader{Format: recordedFormat, Summary: TraceSummary{Path: r.Source}, opts: opts, rows: &recordedRows{Recorded: r}}
	return x, x.begin()
}

// recordedRows reads the minutes in which some demand is known.
type recordedRows struct {
	*Recorded
	minute int // the next one
}

func (r *recordedRows) next() (Item, error) {
	for r.minute < r.minutes() {
		start, rates, known := r.Start.Add(time.Duration(r.minute)*features.Minute), unknownLoad, false
		for i, dimension := range loadDimensions {
			if values := r.Demand[dimension]; r.minute < len(values) {
				rates[i] = values[r.minute]
				known = known || !math.IsNaN(rates[i])
			}
		}
		r.minute++
		if !known {
			continue
		}
		seconds := features.Minute.Seconds()
		sum := &ingest.Sum{
			Class: "all", Start: start,
			Requests:     seconds * rates.Of(features.DimRequests),
			PromptTokens: seconds * rates.Of(features.DimPrefill), CachedTokens: math.NaN(),
			OutputTokens: seconds * rates.Of(features.DimDecode),
		}
		if kv := rates.Of(features.DimKV); !math.IsNaN(kv) {
			sum.KVTokens = &kv
		}
		return Item{Sum: sum}, nil
	}
	return Item{}, io.EOF
}

// capacityQuantile is the quantile of a replica's load that is taken as its capacity.
const capacityQuantile = .99

// kvTarget is the planned share of a replica's KV cache, by default.
const kvTarget = 0.85

// seenPool returns the recorded pool. A replica's capacity is the load observed in nearly all minutes, and for KV cache
// at least the default planned share.
func (r *Recorded) seenPool(name string, demand *Demand, warmup capacity.Lag) (capacity.Pool, error) {
	var each Load
	for i := range each {
		var seen []float64
		for m := range demand.Minutes {
			n := r.replicas(demand.Start.Add(time.Duration(m) * features.Minute))
			if n > 0 && demand.Minutes[m][i] > 0 {
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
	return sizedPool(name, each, capacity.Replicas{Min: 1, Max: 4 * max(1, r.peak()), Initial: max(1, r.replicas(demand.Start))}, warmup)
}

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
