package model

import "math"

// Burst tells bursts from drifts: one begins when a cumulative sum of standardised one-minute deviations above the level
// of an hour and a half passes a bound (Page 1954, doi:10.2307/2333009), and lasts until a good part of what it brought is
// gone. How long bursts of this series last is learned as hazards by age, shrunk to a prior; the forecast is the level
// before the burst, and what it brought as far as it is likely to be still there. It sleeps between bursts: what then
// comes it knows no better than the levels do.
//
// State: 23 numbers; O(1) per minute, O(lead) per forecast.
type Burst struct {
	sum       float64 // cumulative sum
	deviation float64 // mean absolute deviation of a minute's root from the root of the level, outside bursts
	seen      float64
	base      float64 // level before the burst
	excess    float64 // what it brings, a mean over the last minutes
	peak      float64 // the largest excess of this burst
	age       float64 // minutes; 0: there is none
	exposed   [burstAges]float64
	ended     [burstAges]float64
}

// burstAges is the number of groups of ages: up to 4, 8, 16 … minutes, and older.
const burstAges = 8

const (
	burstSlack  = 1.0  // deviations that a minute may lie above the level before it counts
	burstBound  = 8.0  // of the sum, in deviations
	burstGone   = 0.35 // of the largest excess: below it the burst is over
	burstMost   = 360  // minutes after which it is the new level
	burstPrior  = 40   // minutes' worth of belief in the prior hazards
	burstMemory = 20   // bursts
	burstLevel  = 0.2  // weight of a minute in the excess
)

func burstAge(age float64) int {
	g := 0
	for bound := 4.0; g < burstAges-1 && age > bound; bound *= 2 {
		g++
	}
	return g
}

// hazard is the probability that a burst of an age ends within a minute. Before there is evidence it falls with the age:
// what has lasted lasts.
func (b *Burst) hazard(age float64) float64 {
	g := burstAge(age)
	return (b.ended[g] + burstPrior/(age+15)) / (b.exposed[g] + burstPrior)
}

// Update takes the newest minute.
func (b *Burst) Update(h *History) {
	y := h.At(h.Newest)
	if math.IsNaN(y) {
		return
	}
	b.seen++
	if b.age > 0 {
		b.goOn(y)
		return
	}
	level := h.Level(Level90m)
	d := math.Sqrt(y) - math.Sqrt(level)
	if unit := b.deviation; b.seen > 60 && unit > 0 {
		b.sum = math.Max(0, b.sum+math.Min(d/unit, burstBound/2)-burstSlack)
		if b.sum > burstBound {
			b.begin(h)
			return
		}
	}
	b.deviation += math.Max(1.0/360, 1/b.seen) * (math.Abs(d) - b.deviation)
}

func (b *Burst) begin(h *History) {
	b.base = h.Level(Level90m)
	if before := h.Mean(h.Newest-45, h.Newest-10); !math.IsNaN(before) {
		b.base = math.Min(b.base, before)
	}
	b.excess = math.Max(0, h.Mean(h.Newest-4, h.Newest)-b.base)
	b.peak, b.age, b.sum = b.excess, 1, 0
}

func (b *Burst) goOn(y float64) {
	b.excess += burstLevel * (y - b.base - b.excess)
	b.peak = math.Max(b.peak, b.excess)
	g := burstAge(b.age)
	b.exposed[g]++
	b.age++
	if b.excess < burstGone*b.peak {
		b.ended[g]++
		const keep = 1 - 1.0/burstMemory
		for g := range b.exposed {
			b.exposed[g] *= keep
			b.ended[g] *= keep
		}
		b.age = 0
	} else if b.age > burstMost {
		b.age = 0
	}
}

// Since is for how many minutes there has been a burst, 0 when there is none, and what it brings at present.
func (b *Burst) Since() (minutes, excess float64) {
	if b.age == 0 {
		return 0, 0
	}
	return b.age, b.excess
}

// Forecast is the level before the burst, and what is left of the burst.
func (b *Burst) Forecast(_ *History, lead int) float64 {
	if b.age == 0 {
		return math.NaN()
	}
	still := 1.0
	for i := range lead {
		still *= 1 - b.hazard(b.age+float64(i))
	}
	return math.Max(0, b.base+still*b.excess)
}

// State lists the fields in order.
func (b *Burst) State() []float64 {
	s := []float64{b.sum, b.deviation, b.seen, b.base, b.excess, b.peak, b.age}
	s = append(s, b.exposed[:]...)
	return append(s, b.ended[:]...)
}

// Restore takes over a State.
func (b *Burst) Restore(s []float64) bool {
	if len(s) != 7+2*burstAges {
		return false
	}
	b.sum, b.deviation, b.seen, b.base, b.excess, b.peak, b.age = s[0], s[1], s[2], s[3], s[4], s[5], s[6]
	copy(b.exposed[:], s[7:])
	copy(b.ended[:], s[7+burstAges:])
	return true
}
