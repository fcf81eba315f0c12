package main

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

// hearing is what there is to tell how much of a resource's demand telemetry had.
type hearing struct {
	demand   func(int64) float64
	believed map[int64]float64 // by the minute of the decision: demand of the minute before
	late     map[int64]float64 // tokens, requests or token-seconds by the minute that they were handed out with
	usual    float64           // from which logarithm on less was heard of than usually
}

func (x *recomputed) hearing(resource string) *hearing {
	if h := x.heard[resource]; h != nil {
		return h
	}
	h := &hearing{demand: x.demand("*", resource), believed: map[int64]float64{}, late: map[int64]float64{}}
	for _, d := range x.raw.decisions {
		at := d.Tick.Unix() / 60
		if at < x.from-120 || at >= x.to {
			continue
		}
		of := d.Resources
		if d.ByRole != nil && resource == "prefill" {
			of = d.Prompts
		}
		for _, r := range of {
			if r.Dimension == resource {
				h.believed[at] = r.Calls()
			}
		}
	}
	for i := range x.raw.series {
		s := &x.raw.series[i]
		sign := map[string]map[string]float64{
			"prefill": {"forewarm_late_prompt_tokens": 1, "forewarm_late_cached_tokens": -1},
			"decode":  {"forewarm_late_output_tokens": 1},
			"kv":      {"forewarm_late_kv_token_seconds": 1},
		}[resource][s.labels.Get("__name__")]
		for at, v := range s.at {
			h.late[at] += sign * v
		}
	}
	var offs []float64
	for m := x.from; m < x.to; m++ {
		if off := math.Abs(math.Log(h.nowcast(m))); !math.IsNaN(off) && !math.IsInf(off, 0) {
			offs = append(offs, off)
		}
	}
	h.usual = .05
	if len(offs) > 0 {
		h.usual = math.Max(h.usual, 4*1.4826*median(offs))
	}
	x.heard[resource] = h
	return h
}

// nowcast is demand as it was known in the five minutes up to an origin, or as it last was, over what came.
func (h *hearing) nowcast(origin int64) float64 {
	thought, came := 0.0, 0.0
	for at := origin - 4; at <= origin; at++ {
		if y, ok := h.believed[at]; ok {
			thought, came = thought+y, came+h.drawn(at-1)
		}
	}
	if thought+came > 0 {
		return thought / came
	}
	for at := origin - 5; at > origin-120; at-- {
		if y, ok := h.believed[at]; ok {
			return y / h.drawn(origin-1)
		}
	}
	return math.NaN()
}

// drawn is the demand of a minute, on the line between the known ones about it where it is not known.
func (h *hearing) drawn(minute int64) float64 {
	var knots [2]float64
	var apart [2]float64
	for side, step := range []int64{-1, 1} {
		knots[side] = math.NaN()
		for by := int64(0); by < 120 && math.IsNaN(knots[side]); by++ {
			knots[side], apart[side] = h.demand(minute+step*by), float64(by)
		}
	}
	switch {
	case apart[0] == 0 || math.IsNaN(knots[1]):
		return knots[0]
	case math.IsNaN(knots[0]):
		return knots[1]
	}
	return (knots[0]*apart[1] + knots[1]*apart[0]) / (apart[0] + apart[1])
}

// tooLate is the share of what was asked for in [from, to) that came after the bound, within an hour.
func (h *hearing) tooLate(from, to, until int64) float64 {
	late, known := 0.0, 0.0
	for at := from; at < to; at++ {
		if y := h.demand(at); !math.IsNaN(y) {
			known += 60 * y
		}
	}
	for at, v := range h.late { // with the minute that ends then
		if at > from && at <= until {
			late += v
		}
	}
	if late+known == 0 {
		return 0
	}
	return late / (late + known)
}

// seen is the share of demand that telemetry had, as it was forecast and as it came, over an episode; lossy says that for most
// of it requests are missing that never came.
func (x *recomputed) seen(resource string, all []heldAgainst, step int64) (seen [2]float64, lossy bool) {
	h := x.hearing(resource)
	usually := h.tooLate(x.from, x.to, x.to)
	last := all[len(all)-1]
	after := math.Max(0, h.tooLate(all[0].minute, last.minute+step, last.minute+step+60)-usually)
	before := math.Max(0, h.tooLate(all[0].origin-15, last.origin, last.origin+60)-usually)
	var heard, whole [2]float64
	missing := 0
	for i := range all {
		issued, now := x.standing(all[i].origin), x.standing(all[i].minute)
		share := math.Min(h.nowcast(all[i].origin), 1)
		bad := issued.Stale || len(issued.Basis.Faults) > 0
		for at := all[i].origin - 5; at < all[i].origin; at++ {
			bad = bad || math.IsNaN(h.demand(at))
		}
		if math.IsNaN(share) || !bad && -math.Log(share) <= h.usual {
			share = 1
		}
		forecast, came := all[i].forecast.demand, all[i].came.demand
		lacked := finite(forecast/came, 1) // what a forecast lacked, and what fell short of it, bound what is lost
		of := math.Max(share*(1-before), math.Min(lacked, 1))
		if lacked < 1 && before >= (1-lacked)/2 {
			of = lacked
		}
		of = math.Max(of, .001)
		short := finite(came*of/forecast, 1)
		is := math.Max(.001, math.Max(1-after, math.Min(short, 1)))
		heard[0], whole[0] = heard[0]+forecast, whole[0]+forecast/of
		heard[1], whole[1] = heard[1]+came, whole[1]+came/is
		for _, lost := range []bool{
			short < 1 && after >= (1-short)/2,
			slices.ContainsFunc(now.Basis.Faults, func(f features.ProducerFault) bool { return f.Kind == features.FaultSilent }),
			math.IsNaN(h.demand(all[i].minute-1)) || all[i].minute+1 < x.to && math.IsNaN(h.demand(all[i].minute+1)),
		} {
			if lost {
				missing++
			}
		}
	}
	for side := range seen {
		if seen[side] = 1; heard[side] > 0 {
			seen[side] = heard[side] / whole[side]
		}
	}
	return seen, 2*missing > len(all)
}

func finite(v, otherwise float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return otherwise
	}
	return v
}
