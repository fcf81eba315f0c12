package forecaster

import (
	"math"
	"slices"
)

// excess is how far outcomes exceeded the 95 % quantile of the paths' highest demand where they did: the mean excess over a
// threshold, on the logarithm's scale, in multiples of the distance from the paths' median to that quantile. An exponential
// beyond a threshold is the simplest of the distributions that peaks over thresholds tend to (Pickands 1975,
// doi:10.1214/aos/1176343003). The zero value has learned nothing.
type excess struct {
	_ struct{} `cbor:",toarray"`

	Windows, Sum float64 // that exceeded it, older ones counting less, and the sum of theirs
}

// What a tail is held by before much is learned: tailPrior windows of a normal distribution's mean excess, which is 0.25 of the
// distance from its median to its 95 % quantile. No outcome counts as farther than mostExcess; a distance below leastMargin counts
// as that, for what hardly varied so far may yet. A probability below leastTail is none.
const (
	tailPrior   = 2.0
	normalRatio = 0.25
	mostExcess  = 5.0
	leastMargin = 0.02
	leastTail   = 1e-4
)

// learn takes in a window whose highest demand was that, and forgets by weight of a window as ranks do.
func (t *excess) learn(peaks *[rankBins - 1]float32, highest float32, weight float64) {
	t.Windows *= 1 - weight/calibratorMemory
	t.Sum *= 1 - weight/calibratorMemory
	median, high := float64(peaks[rankBins/2-1]), float64(peaks[rankBins-2])
	if float64(highest) <= high || high <= 0 {
		return
	}
	spread := mostExcess
	if median > 0 {
		spread = max(math.Log(high/median), leastMargin)
	}
	t.Windows += weight
	t.Sum += weight * min(math.Log(float64(highest)/high)/spread, mostExcess)
}

// ratio is the mean excess in multiples of the spread.
func (t *excess) ratio() float64 {
	return (t.Sum + tailPrior*normalRatio) / (t.Windows + tailPrior)
}

// margins is how much more than its paths a resource could take: the logarithms of the factors on all demand at which a twentieth of
// the paths, and half of them, saturate by each of calibratedHorizons; +Inf where no factor does it.
type margins [numHorizons]struct{ twentieth, half float64 }

// newMargins looks at the paths of a resource of which so much is ready. O(paths · (Horizon + log paths)).
func newMargins(per float64, demand, ready [][Horizon]float32) (r margins) {
	least, sorted := make([]float64, len(demand)), make([]float64, len(demand))
	for j := range least {
		least[j] = math.Inf(1)
	}
	from := 0
	for i, to := range calibratedHorizons {
		for j := range demand {
			for h := from; h < to; h++ {
				if d := float64(demand[j][h]); d > 0 {
					least[j] = min(least[j], per*float64(ready[j][h])/d)
				}
			}
		}
		from = to
		copy(sorted, least)
		slices.Sort(sorted)
		n := len(sorted)
		r[i].twentieth = math.Log(sorted[n-(rankBins-1)*n/rankBins-1])
		r[i].half = math.Log(sorted[n-rankBins/2*n/rankBins-1])
	}
	return r
}

// beyond is the probability, 0…1, that a window whose highest demand exceeds the 95 % quantile of the paths' saturates the i-th
// horizon's: the share of an exponential beyond how far that is.
func (r *margins) beyond(t *excess, i int) float64 {
	far := r[i].twentieth
	switch {
	case far <= 0:
		return 1
	case math.IsInf(far, 1):
		return 0
	}
	spread := max(r[i].half-far, leastMargin)
	if math.IsInf(spread, 1) {
		spread = mostExcess
	}
	if p := math.Exp(-far / (spread * t.ratio())); p >= leastTail {
		return p
	}
	return 0
}
