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
	Series []RecordedSeries
	// Replicas that were ready in each minute, NaN if unknown; nil if all are unknown.
	Replicas []float64
	KVTokens float64  // KV cache of a replica; 0 if unknown
	Notes    []string // remarks for users
}

// RecordedSeries is the demand of a class in one dimension: averages per minute in the dimension's unit, NaN if
// unknown.
type RecordedSeries struct {
	Class, Dimension string
	Values           []float64
}

// minutes is the number of recorded minutes.
func (r *Recorded) minutes() (n int) {
	for i := range r.Series {
		n = max(n, len(r.Series[i].Values))
	}
	return n
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

// recordedLog is the event log of the recorded data: each minute's sums by class, and a watermark. In a minute without
// data the watermark names no pool, so that the minute is unknown, not zero traffic.
type recordedLog struct {
	*Recorded
	pool      string
	classes   []string
	minute    int
	watermark ingest.Watermark
	held      []float64 // tokens, by class
}

func newRecordedLog(r *Recorded, pool string) *recordedLog {
	l := &recordedLog{Recorded: r, pool: pool}
	for i := range r.Series {
		if !slices.Contains(l.classes, r.Series[i].Class) {
			l.classes = append(l.classes, r.Series[i].Class)
		}
	}
	l.held = make([]float64, len(l.classes))
	return l
}

// Next sets b to the next minute; io.EOF after the last.
func (l *recordedLog) Next(b *ingest.Batch) error {
	b.Reset()
	if l.minute >= l.minutes() {
		return io.EOF
	}
	start := l.Start.Add(time.Duration(l.minute) * features.Minute)
	l.watermark = ingest.Watermark{At: start.Add(features.Minute)}
	for i, class := range l.classes {
		if sum, known := l.sum(i, class, start); known {
			b.Sums = append(b.Sums, sum)
			l.watermark.Pool = l.pool
		}
	}
	l.minute++
	b.Watermark, b.Sequence = &l.watermark, uint64(l.minute)
	return nil
}

func (l *recordedLog) sum(i int, class string, start time.Time) (sum ingest.Sum, known bool) {
	seconds, nan := features.Minute.Seconds(), math.NaN()
	sum = ingest.Sum{
		Pool: l.pool, Class: class, Start: start, Requests: nan, PromptTokens: nan, CachedTokens: nan, OutputTokens: nan,
	}
	for j := range l.Series {
		s := &l.Series[j]
		if s.Class != class || l.minute >= len(s.Values) || math.IsNaN(s.Values[l.minute]) {
			continue
		}
		known = true
		switch x := s.Values[l.minute]; s.Dimension {
		case features.DimRequests:
			sum.Requests = x * seconds
		case features.DimPrefill:
			sum.PromptTokens = x * seconds
		case features.DimDecode:
			sum.OutputTokens = x * seconds
		case features.DimKV:
			l.held[i] = x
			sum.KVTokens = &l.held[i]
		}
	}
	return sum, known
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
		"Classes are those that the queries tell apart.",
		"Replicas of which nothing was recorded, such as those that warmed up, are in no GPU-hours of the recorded pool. Those of the other policies are counted from the ask on.",
	}
	if sized {
		notes = append(notes, fmt.Sprintf("What a replica can carry is not recorded. It is taken to be the most that it was seen to carry in %g %% of the minutes; if it can carry more, more can be saved. State it in a configuration (-config).", 100*capacityQuantile))
	}
	return append(notes, r.Notes...)
}
