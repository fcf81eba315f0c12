package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/network"
)

// numSimple is the number of inputs of the head: a constant, and where simple forecasts lie in the network's.
const numSimple = 1 + network.NumSimple

// inputs are what the head goes by at one origin: normal scores of simple forecasts in the network's distribution 15
// minutes ahead, in steps of simpleStep. One that is not known is 0. They shrink with the share of silent minutes of the
// day: there the head would learn chance.
type inputs [numSimple]int8

const (
	simpleStep  = 1.0 / 40
	mostScore   = 3      // scores beyond count as this far
	headOffset  = 0.3    // the constant: small, so that the prior holds it back
	mostMoved   = 1.5    // how far the head moves a forecast, in scores
	headPrior   = 100    // origins' worth of belief that nothing is to be moved
	headMemory  = 1000.0 // origins after which one counts half
	quietWeight = 2      // power of the share of minutes with traffic
)

func newInputs(in *network.Input, a *axis, least float64) (s inputs) {
	weight := math.Pow(1-in.Quiet, quietWeight)
	put := func(i int, x float64) { s[i] = int8(math.Round(weight * x / simpleStep)) }
	put(0, headOffset)
	for i, z := range in.Simple {
		if !math.IsNaN(z) {
			put(i+1, max(-mostScore, min(mostScore, a.score(max(z, 0), least))))
		}
	}
	return s
}

// head learns what is peculiar to a series: a ridge regression, for each knot, of where outcomes lie in the network's
// distribution on where simple forecasts lie in it. Scores are those of the standard normal. It forgets old origins by half
// in headMemory. The regressions share their inputs, and so one matrix of products:
//
//	A = Σ w·x·xᵀ + prior·I,  b = Σ w·x·y,  shift = x·A⁻¹b
//
// (Hoerl and Kennard 1970, doi:10.1080/00401706.1970.10488634, with exponential forgetting). O(numSimple³) an origin.
type head struct {
	Products [numSimple][numSimple]float32
	Answers  [numKnots][numSimple]float32
	Weights  [numKnots][numSimple]float32 // the solution
}

// shift is by how many scores the head moves a forecast, at each knot.
func (h *head) shift(s *inputs) (by [numKnots]float64) {
	for k := range by {
		for i, w := range h.Weights[k] {
			by[k] += float64(w) * simpleStep * float64(s[i])
		}
		by[k] = max(-mostMoved, min(mostMoved, by[k]))
	}
	return by
}

// learn takes the scores of the outcomes of an origin.
func (h *head) learn(s *inputs, scores *[numKnots]float64) {
	fade := float32(math.Exp2(-1 / headMemory))
	var x [numSimple]float32
	for i, n := range s {
		x[i] = simpleStep * float32(n)
	}
	for i := range x {
		for j := range x {
			h.Products[i][j] = fade*h.Products[i][j] + x[i]*x[j]
		}
		for k, y := range scores {
			h.Answers[k][i] = fade*h.Answers[k][i] + x[i]*float32(max(-mostScore, min(mostScore, y)))
		}
	}
	h.solve()
}

// solve sets Weights by a Cholesky decomposition, which the prior keeps well conditioned.
func (h *head) solve() {
	var l [numSimple][numSimple]float64
	for i := range numSimple {
		for j := range i + 1 {
			x := float64(h.Products[i][j])
			if i == j {
				x += headPrior
			}
			for m := range j {
				x -= l[i][m] * l[j][m]
			}
			if i == j {
				l[i][i] = math.Sqrt(x)
			} else {
				l[i][j] = x / l[j][j]
			}
		}
	}
	for k := range h.Weights {
		var z [numSimple]float64
		for i := range numSimple {
			z[i] = float64(h.Answers[k][i])
			for m := range i {
				z[i] -= l[i][m] * z[m]
			}
			z[i] /= l[i][i]
		}
		for i := numSimple - 1; i >= 0; i-- {
			for m := i + 1; m < numSimple; m++ {
				z[i] -= l[m][i] * z[m]
			}
			z[i] /= l[i][i]
			h.Weights[k][i] = float32(z[i])
		}
	}
}
