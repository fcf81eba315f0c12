package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A level that doubles or halves is a change within ten minutes, found to have begun when it did; noise is none in two
// days, be it of counts or of lengths.
func TestDepartureIsFoundSoonAndSeldom(t *testing.T) {
	for _, name := range []string{"counts", "heavy tokens"} {
		for seed := range uint64(5) {
			y := kindOf(name).make(rand.New(rand.NewPCG(seed, 21)))
			var c departure
			for m := range int64(2880) {
				if c.add(m, y(int(m))); c.Since > 0 {
					t.Fatalf("%s: a change since minute %d, found in minute %d", name, c.Since, m)
				}
			}
		}
	}
	for _, factor := range []float64{2, .5} {
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed, 22))
			var c departure
			const at = 500
			found := int64(0)
			for m := int64(1); m < at+60 && found == 0; m++ {
				rate := 60.0
				if m >= at {
					rate *= factor
				}
				if c.add(m, counted(r, rate)); c.Since > 0 {
					found = m
				}
			}
			if found < at || found > at+10 || c.Since < at-3 || c.Since > at+3 {
				t.Errorf("times %v in minute %d: found in minute %d to be since %d", factor, at, found, c.Since)
			}
		}
	}
}

// Minutes that are not known change nothing, and a level that stays becomes the one that is departed from.
func TestDepartureGoesOn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 23))
	var c departure
	changes := 0
	for m := int64(1); m <= 1200; m++ {
		y := counted(r, []float64{40, 160, 40}[m/401])
		if m%7 == 0 {
			y = math.NaN()
		}
		was := c.Since
		if c.add(m, y); c.Since != was {
			changes++
		}
	}
	if changes != 2 {
		t.Errorf("%d changes, want one up and one down", changes)
	}
}

// Where what rises falls again before long, a rise is not taken for one that stays; a first one is.
func TestDepartureLearnsWhetherChangesStay(t *testing.T) {
	bursts := kindOf("bursts").make(rand.New(rand.NewPCG(1, 24)))
	r := rand.New(rand.NewPCG(2, 24))
	var often, once departure
	for m := range int64(4 * 1440) {
		often.add(m, bursts(int(m)))
		rate := 40.0
		if m >= 4*1440-20 {
			rate = 120
		}
		once.add(m, counted(r, rate))
	}
	often.Upwards = true
	if got := often.trust(); got > .3 || often.Found[1] < 3 {
		t.Errorf("after %v bursts a rise is trusted by %.2f", often.Found[1], got)
	}
	if got := once.trust(); once.Since < 4*1440-23 || got < .99 {
		t.Errorf("the first rise, since %d, is trusted by %.2f", once.Since, got)
	}
}
