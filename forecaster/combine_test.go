package forecaster

import (
	"math/rand/v2"
	"testing"
)

// An expert with outcomes at stake keeps most of the weight while it does as well as the others, and loses it within hours
// where it is clearly off, long before that many outcomes have come.
func TestStakeGoesWhereItClearlyLoses(t *testing.T) {
	const others = 10 // square root of what they forecast, and of what comes
	of := func(network float32) float64 {
		r := rand.New(rand.NewPCG(8, 9))
		p := points{spread: spreads{Day: 1, Mixed: 1, Root: others}}
		var at [numModels]float32
		for i := range at {
			at[i] = others
		}
		at[modelAt("network")] = network
		for i, z := range gaussian {
			p.axis[models[modelAt("network")].axis-1][i] = network + float32(z)
			p.axis[models[modelAt("last_errors")].axis-1][i] = others + float32(z)
		}
		p.spell(&at)
		p.mixed[0] = nan32
		m := newMixture()
		for range 600 {
			z := others + r.NormFloat64()
			m.learn(&p, z*z, others*others)
		}
		return m.weights(&p, L50)[expertAt("network")]
	}
	if right, off := of(others), of(2*others); right < .7 || off > .2 {
		t.Errorf("after ten hours the network has %.2f of the weight where it is right, and %.2f where it is far off", right, off)
	}
}
