package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

const (
	// MaxDays bounds a report's period, and with it its memory.
	MaxDays = 93
	// lookback is how far before the period demand, forecasts and decisions are read, because they reach into it.
	lookback = 2 * time.Hour
	// maxHold is how long a decision without a successor is in force; longer silences are gaps.
	maxHold = 15 * time.Minute
)

const (
	// warnProbability is the probability of saturation from which a decision warns, if it has no threshold.
	warnProbability = 0.5
	// mergeWithin is the largest gap between saturated minutes, or warning decisions, of one episode or warning.
	mergeWithin = 10 * time.Minute
)

// Reconcile compares forecasts and decisions of [from, to), cut to whole minutes, with outcomes. Demand must have
// settled: to must be older than features.revise. People read times in zone; nil is UTC.
func Reconcile(ctx context.Context, h History, from, to time.Time, zone *time.Location) (*Report, error) {
	from, to = from.UTC().Truncate(features.Minute), to.UTC().Truncate(features.Minute)
	if !from.Before(to) || to.Sub(from) > MaxDays*24*time.Hour {
		return nil, fmt.Errorf("report from %s to %s: a period is between a minute and %d days",
			from.Format(time.RFC3339), to.Format(time.RFC3339), MaxDays)
	}
	b := &builder{
		span:      span{base: from.Add(-lookback), from: from, to: to},
		observed:  map[seriesKey][]float64{},
		before:    map[string]Number{},
		rows:      map[seriesKey][]Accuracy{},
		ticks:     map[string][]tick{},
		basis:     map[string]alerting.Basis{},
		leftOut:   map[features.Key]bool{},
		forecasts: map[seriesKey]*forecastSums{},
		retries:   map[seriesKey][]float64{},
	}
	b.first, b.end = b.index(from), b.index(to)
	if err := b.read(ctx, h); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	r := &Report{From: from, To: to, Zone: Zone{zone}, Pools: []Pool{}}
	for _, pool := range b.pools() {
		decisions := b.decisions(pool)
		before, ok := b.before[pool]
		if !ok {
			before = value.Unknown
		}
		r.Pools = append(r.Pools, Pool{
			Pool: pool, Data: b.data(pool), Totals: b.totals(pool), RequestsBefore: before, Accuracy: b.accuracy(pool),
			Saturation: b.saturation(pool), Decisions: decisions, Cost: b.costs(pool, &decisions.Provision),
			Contradicts: b.basis[pool].Contradicts, Timeline: b.timeline(pool),
		})
	}
	r.summarise()
	return r, nil
}

// span is the period and the time before it, in minutes from base.
type span struct {
	base, from, to time.Time
	first, end     int // minutes of the period, [first, end)
}

// index of the minute that holds t; negative before base.
func (s *span) index(t time.Time) int {
	return int(math.Floor(float64(t.Sub(s.base)) / float64(features.Minute)))
}

func (s *span) time(index int) time.Time { return s.base.Add(time.Duration(index) * features.Minute) }

type seriesKey struct {
	features.Key
	dimension string
}

// builder has the data read from a history.
type builder struct {
	span
	observed  map[seriesKey][]float64
	scoring   *scoring
	rows      map[seriesKey][]Accuracy    // by horizon
	ticks     map[string][]tick           // of each pool, by time
	basis     map[string]alerting.Basis   // of each pool's newest decision
	before    map[string]Number           // requests of each pool in the same span before the period
	forecasts map[seriesKey]*forecastSums // of pools' totals
	leftOut   map[features.Key]bool
	retries   map[seriesKey][]float64 // of pools' totals: the load of all attempts over that of calls, by minute
}

// classesReported bounds the classes of all pools that are reported, heaviest by tokens.
const classesReported = 200

// limitClasses finds the classes beyond the bound.
func (b *builder) limitClasses(ctx context.Context, h History) error {
	tokens := map[features.Key]float64{}
	err := h.Observed(ctx, b.from, b.to, func(key features.Key, dimension string, values []float64) error {
		if key.Class == features.TotalClass || dimension != features.DimPrefill && dimension != features.DimCached && dimension != features.DimDecode {
			return nil
		}
		sum := 0.0
		for _, v := range values {
			sum += zeroIfUnknown(v)
		}
		tokens[key] += sum
		return nil
	})
	if err != nil || len(tokens) <= classesReported {
		return err
	}
	order := slices.SortedFunc(maps.Keys(tokens), func(x, y features.Key) int {
		return cmp.Or(cmp.Compare(tokens[y], tokens[x]), x.Compare(y))
	})
	for _, key := range order[classesReported:] {
		b.leftOut[key] = true
	}
	return nil
}

func (b *builder) read(ctx context.Context, h History) error {
	if err := b.limitClasses(ctx, h); err != nil {
		return err
	}
	if err := h.Observed(ctx, b.base, b.to, func(key features.Key, dimension string, values []float64) error {
		if b.needed(key, dimension) {
			b.observed[seriesKey{key, dimension}] = slices.Clone(values)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := h.Observed(ctx, b.from.Add(b.from.Sub(b.to)), b.from, func(key features.Key, dimension string, values []float64) error {
		known := len(values)
		for _, v := range values {
			if math.IsNaN(v) {
				known--
			}
		}
		if key.Class == features.TotalClass && dimension == features.DimRequests && 10*known >= 9*len(values) {
			b.before[key.Pool] = sumOf(values)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := h.Decisions(ctx, b.from.Add(-lookback), b.to, func(d *alerting.Decision) error {
		b.ticks[d.Pool] = append(b.ticks[d.Pool], newTick(d))
		if d.Basis != nil {
			b.basis[d.Pool] = *d.Basis
		}
		return nil
	}); err != nil {
		return err
	}
	for pool := range b.ticks {
		b.setLoadFactors(pool)
	}
	err := h.Forecasts(ctx, b.from.Add(-lookback), b.to, func(f *forecaster.Forecast) error {
		if b.leftOut[f.Key] {
			return nil
		}
		b.score(f)
		b.addForecast(f)
		return nil
	})
	b.endSeries()
	return err
}

// needed reports whether a series of demand is used.
func (b *builder) needed(key features.Key, dimension string) bool {
	d, ok := features.DimensionByName(dimension)
	return key.Class == features.TotalClass || !b.leftOut[key] && (ok && d.Forecast || dimension == features.DimCached ||
		dimension == features.DimServed || dimension == features.DimWastedPrefill || dimension == features.DimWastedDecode)
}

// demandAt is the demand in a minute; NaN if unknown.
func demandAt(demand []float64, minute int) float64 {
	if minute < 0 || minute >= len(demand) {
		return math.NaN()
	}
	return demand[minute]
}

// pools are the names of all pools with data in the period, in order.
func (b *builder) pools() []string {
	seen := map[string]bool{}
	for k, values := range b.observed {
		for _, v := range values[min(b.first, len(values)):] {
			if !math.IsNaN(v) {
				seen[k.Pool] = true
				break
			}
		}
	}
	for k := range b.rows {
		seen[k.Pool] = true
	}
	for pool, ticks := range b.ticks {
		if !ticks[len(ticks)-1].at.Before(b.from) {
			seen[pool] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// gapsListed bounds the listed gaps of a pool.
const gapsListed = 20

// data counts the known minutes of the period.
func (b *builder) data(pool string) Data {
	d := Data{Minutes: b.end - b.first, Gaps: []Gap{}}
	for k := range b.leftOut {
		if k.Pool == pool {
			d.ClassesLeftOut++
		}
	}
	known := make([]bool, b.end)
	for k, values := range b.observed {
		if k.Pool != pool {
			continue
		}
		for i := b.first; i < min(b.end, len(values)); i++ {
			known[i] = known[i] || !math.IsNaN(values[i])
		}
	}
	for i, ok := range known[b.first:] {
		switch n := len(d.Gaps); {
		case ok:
			d.Observed++
		case i > 0 && !known[b.first+i-1]:
			d.Gaps[n-1].Minutes++
		default:
			d.Gaps = append(d.Gaps, Gap{b.time(b.first + i), 1})
		}
	}
	slices.SortStableFunc(d.Gaps, func(x, y Gap) int { return cmp.Compare(y.Minutes, x.Minutes) })
	d.Gaps = d.Gaps[:min(len(d.Gaps), gapsListed)]
	slices.SortFunc(d.Gaps, func(x, y Gap) int { return x.Start.Compare(y.Start) })
	b.eachMinute(pool, b.first, func(*tick, int) { d.Decided++ })
	return d
}
