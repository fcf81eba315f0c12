package forecaster

import (
	"math"
	"slices"
)

// excess is the mean excess of outcomes over the 95 % quantile of the paths' highest demand: the logarithm of their
// ratio, in multiples of that from the paths' median to the quantile. The exponential is the simplest limit
// distribution of peaks over a threshold (Pickands 1975, doi:10.1214/aos/1176343003). The zero value has learned
// nothing.
type excess struct {
	_ struct{} `cbor:",toarray"`

	Windows, Sum float64 // number of windows above the quantile, with forgetting, and the sum of their excess
}

const (
	tailPrior   = 2.0  // windows that the prior is worth
	normalRatio = 0.25 // the prior: mean excess of a normal distribution, in distances from median to 95 % quantile
	maxExcess   = 5.0  // of one outcome
	minMargin   = 0.02 // distance from median to 95 % quantile: demand that hardly varied may still do so
	minTail     = 1e-4 // smaller probabilities are zero
)

// learn takes the highest demand of a window. Older windows are forgotten as in countRank.
func (t *excess) learn(peaks *[rankBins - 1]float32, highest float32, weight float64) {
	t.Windows *= 1 - weight/calibratorMemory
	t.Sum *= 1 - weight/calibratorMemory
	median, high := float64(peaks[rankBins/2-1]), float64(peaks[rankBins-2])
	if float64(highest) <= high || high <= 0 {
		return
	}
	spread := maxExcess
	if median > 0 {
		spread = max(math.Log(high/median), minMargin)
	}
	t.Windows += weight
	t.Sum += weight * min(math.Log(float64(highest)/high)/spread, maxExcess)
}

// ratio is the mean excess in multiples of the spread.
func (t *excess) ratio() float64 {
	return (t.Sum + tailPrior*normalRatio) / (t.Windows + tailPrior)
}

// margins are the logarithms of the factors on demand at which a twentieth, and a half, of the paths of a resource
// saturate by each of calibratedHorizons; +Inf if no factor does.
type margins [numHorizons]struct{ twentieth, half float64 }

// newMargins: per is the capacity of one ready replica. O(paths · (Horizon + log paths)).
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

// tailProbability is the probability, 0…1, that a window whose highest demand exceeds the 95 % quantile of the paths
// also saturates by the i-th horizon.
func (r *margins) tailProbability(t *excess, i int) float64 {
	far := r[i].twentieth
	switch {
	case far <= 0:
		return 1
	case math.IsInf(far, 1):
		return 0
	}
	spread := max(r[i].half-far, minMargin)
	if math.IsInf(spread, 1) {
		spread = maxExcess
	}
	if p := math.Exp(-far / (spread * t.ratio())); p >= minTail {
		return p
	}
	return 0
}
