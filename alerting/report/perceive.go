package report

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
)

const (
	// presentMinutes before an origin are what the start of a forecast is judged by.
	presentMinutes = 5
	// usualNowcast is by how many standard deviations what was thought to be known at an origin differs from what settled
	// when records came later than usual; and leastNowcast by how much at least, a logarithm.
	usualNowcast = 4
	leastNowcast = 0.05
	// leastSeen bounds the share of demand that telemetry is said to have had, from below.
	leastSeen = 0.001
	// lateReach is for how long after an episode what comes late is counted to it.
	lateReach = time.Hour
)

// perceive fills in what share of demand telemetry had, when minutes were forecast and when they came. lossy says that of
// most of them requests are missing that never came; the note says what is assumed.
func (b *builder) perceive(ctx context.Context, h History, pool string, s *errorRun) (lossy bool, note string, err error) {
	looked, of := s.points, b.supplied(pool, s.resource)
	supply, usual := of.minutes, of.usual
	demand := b.observed[b.totalOf(pool, s.resource)]
	late, err := b.lateShare(ctx, h, pool, s.resource, demand, s.from(), s.to())
	if err != nil {
		return false, "", err
	}
	first, last := looked[0].origin, looked[len(looked)-1].origin
	lateBefore, err := b.lateShare(ctx, h, pool, s.resource, demand, first-recentMinutes, last)
	if err != nil {
		return false, "", err
	}
	silent, gaps, assumed, unreported, held := 0, 0, 0, 0, 0
	for i := range looked {
		p := &looked[i]
		f, a := &p.of[forecasted], &p.of[actual]
		heard := min(finiteOr(nowcast(supply, demand, p.origin), 1), 1) // what was taken for too much is not lost
		if -math.Log(heard) <= usual && !impaired(supply, demand, p.origin) {
			heard = 1
		}
		// Telemetry explains no more than what a forecast was off by.
		off := finiteOr(f.demand/a.demand, 1)
		f.seen = clamp(heard*(1-lateBefore), off)
		if off < 1 && lateBefore >= (1-off)/2 {
			f.seen = max(leastSeen, off) // most of what it lacked came, too late
		}
		short := finiteOr(a.demand/(f.demand/f.seen), 1)
		a.seen = clamp(1-late, short)
		if short < 1 && late >= (1-short)/2 {
			held++ // most of what fell short came, too late
		}
		if supply[p.minute].silent {
			silent++
		}
		if math.IsNaN(at(demand, p.minute-1)) || math.IsNaN(at(demand, p.minute+1)) && p.minute+1 < len(demand) {
			gaps++ // telemetry began or ended within the minute
		}
		switch x := &supply[p.minute]; {
		case x.unreported:
			unreported++
		case x.assumed:
			assumed++
		}
	}
	var notes []string
	if silent > 0 {
		notes = append(notes, "a producer was silent: requests that fell short are taken for lost telemetry")
	}
	if assumed > 0 {
		notes = append(notes, "no replica reported, so that a late one would not show")
	}
	if unreported > 0 {
		notes = append(notes, askedNote)
	}
	return 2*(silent+gaps+held) > len(looked), strings.Join(notes, "; "), nil
}

// askedNote is of prefill in a disaggregated pool.
const askedNote = "by the replicas last asked for: none that prefills reports, so that a late one would not show"

// clamp moves a share that was seen no further from 1 than the ratio that it explains, and not below leastSeen.
func clamp(seen, ratio float64) float64 { return max(leastSeen, seen, min(ratio, 1)) }

// nowcast is what decisions took demand to be in the minutes before an origin, over what it settled to; where none says
// so, the last one that did. Minutes that never settled are taken to lie on a line between those that did. NaN is unknown.
func nowcast(supply []supplyMinute, demand []float64, origin int) float64 {
	believed, settled, n := 0.0, 0.0, 0
	for m := origin - presentMinutes + 1; m <= origin; m++ {
		if m > 0 && m < len(supply) && !math.IsNaN(supply[m].believed) {
			believed, settled, n = believed+supply[m].believed, settled+bridged(demand, m-1), n+1
		}
	}
	if n > 0 {
		return believed / settled
	}
	for m := origin - presentMinutes; m > max(0, origin-int(lookback/features.Minute)); m-- {
		if m < len(supply) && !math.IsNaN(supply[m].believed) {
			return supply[m].believed / bridged(demand, origin-1)
		}
	}
	return math.NaN()
}

// bridged is the demand of a minute, on a line between its neighbours where it is not known.
func bridged(demand []float64, minute int) float64 {
	before, after := minute, minute
	const reach = int(lookback / features.Minute)
	for before > minute-reach && math.IsNaN(at(demand, before)) {
		before--
	}
	for after < minute+reach && math.IsNaN(at(demand, after)) {
		after++
	}
	y0, y1 := at(demand, before), at(demand, after)
	switch {
	case before == after, math.IsNaN(y1):
		return y0
	case math.IsNaN(y0):
		return y1
	}
	return y0 + (y1-y0)*float64(minute-before)/float64(after-before)
}

// impaired says that a forecast was made on bad telemetry: stale, with gaps, or of producers with faults.
func impaired(supply []supplyMinute, demand []float64, origin int) bool {
	if origin < 0 || origin >= len(supply) {
		return false
	}
	x := &supply[origin]
	if x.stale || x.faulty {
		return true
	}
	for m := origin - presentMinutes; m < origin; m++ {
		if m >= 0 && math.IsNaN(at(demand, m)) {
			return true
		}
	}
	return false
}

// usualNowcast is from which logarithm of nowcast on records came later than they usually do.
func (b *builder) usualNowcast(supply []supplyMinute, demand []float64) float64 {
	first, end := b.bounds()
	var offs []float64
	for m := first; m < end; m++ {
		if off := math.Log(nowcast(supply, demand, m)); !math.IsNaN(off) && !math.IsInf(off, 0) {
			offs = append(offs, math.Abs(off))
		}
	}
	slices.Sort(offs)
	return max(leastNowcast, finiteOr(usualNowcast*perMAD*float64(between(offs, .5)), 0))
}

func finiteOr(v, otherwise float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return otherwise
	}
	return v
}

// lateShare is the share of the demand of [from, to) that came after the bound on late records, beyond what is usual.
func (b *builder) lateShare(ctx context.Context, h History, pool, resource string, demand []float64, from, to int) (float64, error) {
	of := func(l *features.Late) float64 {
		switch resource {
		case features.DimRequests:
			return l.Requests
		case features.DimPrefill:
			return l.PromptTokens - l.CachedTokens
		case features.DimDecode:
			return l.OutputTokens
		}
		return l.KVTokenSeconds
	}
	if !b.lateAtAll[pool] {
		return 0, nil
	}
	first, end := b.bounds()
	usual := 0.0
	for _, k := range slices.SortedFunc(maps.Keys(b.late), features.Key.Compare) {
		if l := b.late[k]; k.Pool == pool {
			usual += of(&l)
		}
	}
	usual = finiteOr(share(usual, usual+total60(demand, first, end)), 0)
	late := 0.0
	if err := h.Late(ctx, b.time(from), b.time(to).Add(lateReach), func(key features.Key, l features.Late) error {
		if key.Pool == pool {
			late += of(&l)
		}
		return nil
	}); err != nil {
		return 0, err
	}
	return max(0, finiteOr(share(late, late+total60(demand, from, to)), 0)-usual), nil
}

// total60 is the sum over minutes of what is known by the second.
func total60(demand []float64, from, to int) (sum float64) {
	for m := from; m < to; m++ {
		sum += features.Minute.Seconds() * zeroIfUnknown(at(demand, m))
	}
	return sum
}
