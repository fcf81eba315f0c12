package forecaster

import (
	"math"
	"math/rand/v2"
	"slices"
)

// NumPaths is the number of joint sample paths of a pool.
const NumPaths = 128

// persistence is the correlation of the normal scores of consecutive minutes of a path.
const persistence = 0.95

// pathRanks are the ranks of paths at each minute: the same for all pools and dimensions, so a path that is high in one
// dimension is high in the others. Drawn from a Gaussian copula, a first-order autoregression over minutes.
var pathRanks = func() (ranks [NumPaths][Horizon]uint8) {
	r := rand.New(rand.NewPCG(1, 2))
	var scores [NumPaths]float64
	for h := range Horizon {
		for j := range scores {
			if h == 0 {
				scores[j] = r.NormFloat64()
				continue
			}
			scores[j] = persistence*scores[j] + math.Sqrt(1-persistence*persistence)*r.NormFloat64()
		}
		sorted := scores
		slices.Sort(sorted[:])
		for j, x := range scores {
			rank, _ := slices.BinarySearch(sorted[:], x)
			ranks[j][h] = uint8(rank)
		}
	}
	return ranks
}()

// samplePaths are joint paths of a total: evenly spaced quantiles of the forecast at each minute, assigned by rank.
func samplePaths(minutes *[Horizon]Quantiles) [][Horizon]float32 {
	paths := make([][Horizon]float32, NumPaths)
	for j := range paths {
		for h := range Horizon {
			paths[j][h] = float32(minutes[h].At((float64(pathRanks[j][h]) + .5) / NumPaths))
		}
	}
	return paths
}
