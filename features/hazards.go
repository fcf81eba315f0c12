package features

import "math"

// hazards is the reporting delay of one dimension, learned from the reporting triangle: at age d, in minutes since a
// minute's first count, the value of minute m grows by x(m,d) to N(m,d). With exponential forgetting,
//
//	g(d) = Σ x(m,d) / Σ N(m,d)   F(d) = Π_{j>d} (1 − g(j))
//
// g is the hazard in reverse time. It does not need complete minutes: increments of open minutes are learned at once
// (Kalbfleisch and Lawless 1989, Lawless 1994; see Höhle and an der Heiden 2014, doi:10.1111/biom.12194, §3). F(d) is
// the share of the settled value that is reported at age d; 1/F is the chain ladder's development factor (Mack 1993,
// doi:10.2143/AST.23.2.2005092). A value that shrinks with later records (prompt tokens that prove to be cached) has
// negative hazards and shares above 1. O(ages) in time and memory.
type hazards struct {
	Late []float32 `cbor:"1,keyasint"` // Σ x by age, from 1
	Seen []float32 `cbor:"2,keyasint"` // Σ N by age, from 1
}

func newHazards(ages int) hazards {
	return hazards{Late: make([]float32, ages), Seen: make([]float32, ages)}
}

func (h *hazards) fade(keep float32) {
	for i := range h.Late {
		h.Late[i] *= keep
		h.Seen[i] *= keep
	}
}

// learn adds the increment x at an age; n is the value after it.
func (h *hazards) learn(age int, x, n float64) {
	h.Late[age-1] += float32(x)
	h.Seen[age-1] += float32(n)
}

// at is g(age), 0 without data.
func (h *hazards) at(age int) float64 {
	if !(h.Seen[age-1] > 0) {
		return 0
	}
	return min(float64(h.Late[age-1])/float64(h.Seen[age-1]), 1)
}

// The delays of a pool are the prior for those of its classes.
const (
	priorSteps = 30.0  // weight of the prior, in steps of a value (see reporting.quantum)
	maxSteps   = 300.0 // steps of its own from which on a class does not need the prior
)

// blend is g(age) of a class with the prior of its pool, and the number of steps that it is based on. The weight of the
// prior falls linearly to zero at maxSteps of the class, so that a class with its own delays does not keep the pool's.
func (h *hazards) blend(age int, pool *hazards, quantum float64) (hazard, steps float64) {
	if !(quantum > 0) {
		return pool.at(age), priorSteps
	}
	own := math.Max(0, float64(h.Seen[age-1])/quantum)
	prior := priorSteps * math.Max(0, 1-own/maxSteps)
	return (own*h.at(age) + prior*pool.at(age)) / (own + prior), own + prior
}

// share is the reported share F of a minute's value at an age, and the variance of the logarithm of its estimate, by
// Greenwood's formula in reverse time: Σ_{j>d} g/((1−g)·n) with n the steps seen.
type share struct{ reported, logVariance float64 }

// shares fills s with F by age, from 0 to the settled age.
func (h *hazards) shares(s []share, pool *hazards, quantum float64) {
	last := len(s) - 1
	s[last] = share{reported: 1}
	for age := last; age > 0; age-- {
		g, steps := h.blend(age, pool, quantum)
		s[age-1] = share{s[age].reported * (1 - g), s[age].logVariance}
		if g > 0 && g < 1 {
			s[age-1].logVariance += g / (1 - g) / (steps + 1)
		}
	}
}

// Memory of the delays: the minutes in which memoryRecords records come, within bounds. Busy classes adapt to a change
// of the service within minutes, sparse ones average over a day.
const (
	memoryRecords = 2000
	minMemory     = 8    // minutes
	maxMemory     = 1440 // minutes
)

// keep is the decay factor of delays per minute, for a rate of records.
func keep(recordsPerMinute float64) float32 {
	return float32(1 - 1/math.Max(minMemory, math.Min(memoryRecords/recordsPerMinute, maxMemory)))
}
