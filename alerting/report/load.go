package report

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

// totalOf is the series of a pool's total in one dimension.
func totalOf(pool, dimension string) seriesKey {
	return seriesKey{features.Key{Pool: pool, Class: features.TotalClass}, dimension}
}

// setLoadFactors sets, for each minute, the load factor of the first decision after it. Minutes after the last decision
// have its factor. A decision covers at most maxHold.
func (b *builder) setLoadFactors(pool string) {
	_, end := b.bounds()
	ticks, most := b.ticks[pool], int(maxHold/features.Minute)
	from := 0
	for i := range ticks {
		at := b.index(ticks[i].at)
		to := at
		if i == len(ticks)-1 {
			to += most
		}
		for _, c := range slices.Concat(ticks[i].capacities, ticks[i].prompts) {
			key := totalOf(pool, c.dimension)
			for m := max(from, at-most, 0); m < min(to, end) && c.retries > 1; m++ {
				if b.retries[key] == nil {
					b.retries[key] = slices.Repeat([]float64{1}, end)
				}
				b.retries[key][m] = c.retries
			}
		}
		from = at
	}
}

// loadFactor is the load of all attempts over that of calls, of a pool in a minute.
func (b *builder) loadFactor(key seriesKey, minute int) float64 {
	if all := b.retries[key]; minute >= 0 && minute < len(all) {
		return all[minute]
	}
	return 1
}

// loadOf is the load of a pool's replicas in a minute: all attempts.
func (b *builder) loadOf(pool, resource string, minute int) float64 {
	key := totalOf(pool, resource)
	return at(b.observed[key], minute) * b.loadFactor(key, minute)
}

func zeroIfUnknown(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
