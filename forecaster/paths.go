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

// addPaths adds the sample paths of one class, or of many that move together, to the pool's: path j takes at each minute
// the quantile at the rank that template j had at that lead.
func addPaths(total [][Horizon]float32, minutes *[Horizon]Quantiles, r *ranks) {
	for h := range Horizon {
		q := &minutes[h]
		for j := range total {
			w := &rankWeights[r.Slot[j][h]]
			total[j][h] += float32(w.a*q[w.i] + w.b*q[w.i+1])
		}
	}
}

// settleMarginals replaces, minute by minute, the values of the summed paths by the quantiles of the pool total's own
// forecast at the same ranks. The sum of class paths has the right dependence over time, classes and dimensions; the
// total's own forecast, whose errors were tracked as such, has the calibrated spread. Cost: a sort per minute.
func settleMarginals(total [][Horizon]float32, f *Forecast) {
	// The bits of non-negative floats sort like the floats; the path's number below them keeps the order of equals.
	order := make([]uint64, len(total))
	for h := range Horizon {
		for j := range order {
			order[j] = uint64(math.Float32bits(total[j][h]))<<32 | uint64(j)
		}
		slices.Sort(order)
		for rank, key := range order {
			total[uint32(key)][h] = float32(f.Minute[h].At((float64(rank) + .5) / float64(len(order))))
		}
	}
}
