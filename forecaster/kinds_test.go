package forecaster

import (
	"math"
	"math/rand/v2"
	"slices"
)

// kind is a generator of per-minute rates: each call draws a fresh series, a function of consecutive minutes from 0.
type kind struct {
	name string
	make func(r *rand.Rand) func(i int) float64
}

// kinds are typical courses of the demand of a class: noise that grows with the level and is correlated over minutes,
// counts, sums of heavy-tailed lengths, bursts of a few sessions, silence, and growth.
var kinds = []kind{
	{"correlated", noisy},
	{"counts", func(r *rand.Rand) func(int) float64 {
		mean := math.Exp(1 + 3*r.Float64())
		return func(int) float64 { return counted(r, mean) }
	}},
	{"heavy tokens", func(r *rand.Rand) func(int) float64 {
		rate, sigma := math.Exp(3*r.Float64()), .5+r.Float64()
		return func(int) float64 { return summed(r, rate, 1000, sigma) }
	}},
	{"wandering", func(r *rand.Rand) func(int) float64 {
		level, step := 0.0, .02+.04*r.Float64()
		return func(int) float64 {
			level = .995*level + step*r.NormFloat64()
			return counted(r, 60*math.Exp(level))
		}
	}},
	{"bursts", func(r *rand.Rand) func(int) float64 {
		left, height := 0, 0.0
		return func(int) float64 {
			if left--; left < 0 && r.Float64() < 1.0/60 {
				left, height = 3+r.IntN(25), 40*math.Exp(.5*r.NormFloat64())
			}
			if left < 0 {
				return counted(r, 8)
			}
			return counted(r, 8+height)
		}
	}},
	{"intermittent", func(r *rand.Rand) func(int) float64 {
		return func(int) float64 {
			if r.Float64() < .9 {
				return 0
			}
			return summed(r, 1.5, 800, .7)
		}
	}},
	{"climbing", func(r *rand.Rand) func(int) float64 {
		slope := math.Exp2(1 / (60 + 300*r.Float64()))
		return func(i int) float64 { return counted(r, 20*math.Pow(slope, float64(min(i, 400)))) }
	}},
}

func kindOf(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

// counted draws a Poisson count, from a mean of 500 on by its normal approximation.
func counted(r *rand.Rand, mean float64) float64 {
	if mean > 500 {
		return math.Max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64()))
	}
	n, p := 0.0, math.Exp(-mean)
	for u := r.Float64(); u > p && n < 2000; n++ {
		u *= r.Float64()
	}
	return n
}

// summed draws the sum of the lengths of a Poisson number of requests. Lengths are lognormal.
func summed(r *rand.Rand, rate, mean, sigma float64) (sum float64) {
	for range int(counted(r, rate)) {
		sum += mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
	}
	return sum
}
