package backtest

import (
	"math/rand/v2"
	"slices"
)

// Objective is what settings of a pool are compared by: GPU-hours, and what is paid for demand that found no replica.
type Objective struct {
	// Worth is how many replica-minutes a minute short of a replica is worth. GPUs is how many a replica has.
	Worth float64
	GPUs  int
	// Priced: Worth comes from stated prices. Without, nothing that saturates more is better.
	Priced bool
}

// cost of accounts, in GPU-hours.
func (o Objective) cost(days []Account) (hours float64) {
	for _, d := range days {
		hours += d.GPUHours + o.Worth*d.Short*float64(max(o.GPUs, 1))/60
	}
	return hours
}

// Bounds of the noise rule.
const (
	fewestDays   = 2
	leastGain    = 0.01 // of the cost
	chance       = 0.05 // of a change that is none to be taken for one, over all that were tried
	bootstraps   = 4000
	bootstrapKey = 7
)

// Better says whether after costs less than before beyond noise, both by day on the same demand, when so many changes
// were tried: in each half of the days, by a hundredth in all, and in all but chance/tried of the draws of days with
// replacement (Efron and Tibshirani 1993, An Introduction to the Bootstrap, §13.3; the bound is Bonferroni's). Days
// are the blocks because errors of an hour depend on each other. Deterministic; O(bootstraps · days).
func (o Objective) Better(before, after []Account, tried int) bool {
	n := len(before)
	if n < fewestDays || len(after) != n {
		return false
	}
	gains := make([]float64, n)
	for i := range gains {
		gains[i] = o.cost(before[i:i+1]) - o.cost(after[i:i+1])
	}
	if o.Gain(before, after) < leastGain*o.cost(before) {
		return false
	}
	for _, half := range [][2]int{{0, n / 2}, {n / 2, n}} {
		was, is := Sum(before[half[0]:half[1]]), Sum(after[half[0]:half[1]])
		if o.cost([]Account{is}) >= o.cost([]Account{was}) || !o.Priced && is.Saturated > was.Saturated {
			return false
		}
	}
	return beyondChance(gains, tried)
}

// beyondChance says whether gains by day add up to one in all but chance/tried of the draws of days with replacement.
func beyondChance(gains []float64, tried int) bool {
	draw := rand.New(rand.NewPCG(bootstrapKey, uint64(len(gains))))
	drawn := make([]float64, bootstraps)
	for i := range drawn {
		for range gains {
			drawn[i] += gains[draw.IntN(len(gains))]
		}
	}
	slices.Sort(drawn)
	return drawn[int(chance/float64(max(tried, 1))*bootstraps)] > 0
}

// Gain is what after saves of the cost of before, in GPU-hours.
func (o Objective) Gain(before, after []Account) float64 { return o.cost(before) - o.cost(after) }

// Sum adds up accounts, such as those of days.
func Sum(accounts []Account) (sum Account) {
	for _, a := range accounts {
		sum = sum.Since(Account{}.Since(a))
	}
	return sum
}
