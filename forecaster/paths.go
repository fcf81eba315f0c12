package forecaster

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/forewarm/forewarm/features"
)

// Dependence that a series without templates is taken to have: of a minute's rank with the next one's, and with the rank
// of the other classes of its pool.
const (
	priorPersistence = 0.97
	priorTogether    = 0.5
)

// priorRanks draws NumPaths rank paths for a key from a Gaussian copula: a first-order autoregression over minutes, a
// part of it shared by all classes of the pool. The draws are fixed by the names, so that the same log gives the same
// bytes.
func priorRanks(key features.Key) (u [NumPaths][Horizon]uint8) {
	common := rand.New(rand.NewPCG(seed(key.Pool), 1))
	own := rand.New(rand.NewPCG(seed(key.String()), 2))
	for j := range u {
		c, o := common.NormFloat64(), own.NormFloat64()
		for h := range u[j] {
			u[j][h] = quantise(distuv.UnitNormal.CDF(math.Sqrt(priorTogether)*c + math.Sqrt(1-priorTogether)*o))
			fresh := math.Sqrt(1 - priorPersistence*priorPersistence)
			c = priorPersistence*c + fresh*common.NormFloat64()
			o = priorPersistence*o + fresh*own.NormFloat64()
		}
	}
	return u
}

func seed(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// samplePaths are joint paths of a total: path j takes at each minute the quantile at the rank that template j had at that
// lead. At each minute the values are then replaced, rank by rank, by evenly spaced quantiles, so that the paths have the
// forecast's own distribution. The templates of all totals are of the same origins, which keeps dependence over dimensions.
// Cost: a sort per minute.
func samplePaths(minutes *[Horizon]Quantiles, r *ranks) [][Horizon]float32 {
	paths := make([][Horizon]float32, NumPaths)
	// Ranks sort like the quantiles; the path's number below them keeps the order of equals.
	order := make([]uint32, NumPaths)
	for h := range Horizon {
		for j := range order {
			order[j] = uint32(r.Slot[j][h])<<16 | uint32(j)
		}
		slices.Sort(order)
		for rank, key := range order {
			paths[key&0xffff][h] = float32(minutes[h].At((float64(rank) + .5) / NumPaths))
		}
	}
	return paths
}
