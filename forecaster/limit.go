package forecaster

import (
	"math"
	"time"
)

// Limit is a limit of a whole pool that more replicas do not raise, such as a rate limit or a quota.
type Limit struct {
	Name       string
	Dimensions []string // of demand, summed up
	PerS       float64  // largest sum, per second
}

// ProjectLimits compares the sample paths of a pool's demand with its limits, as Project does with capacity; PerReplica
// of the results is the limit. Paths are not calibrated. A limit of 0, or of a dimension without a forecast, is
// skipped. O(limits × paths × minutes).
func ProjectLimits(pf *PoolForecast, limits []Limit, window time.Duration) []ResourceProjection {
	var out []ResourceProjection
	var one [][Horizon]float32
	for _, l := range limits {
		demand, now, ok := pf.sum(l.Dimensions)
		if !(l.PerS > 0) || !ok {
			continue
		}
		if one == nil {
			one = make([][Horizon]float32, len(demand))
			for j := range one {
				for h := range one[j] {
					one[j][h] = 1
				}
			}
		}
		r := projectResource(l.Name, l.PerS, pf, demand, one, windowMinutes(window), nil)
		r.Demand, r.Utilisation = now, now/l.PerS
		out = append(out, r)
	}
	return out
}

// sum adds up the paths of dimensions, and their newest demand; ok is false if one has no forecast.
func (pf *PoolForecast) sum(dimensions []string) (paths [][Horizon]float32, now float64, ok bool) {
	for _, name := range dimensions {
		at := -1
		for d := range pf.Paths.Dimensions {
			if pf.Paths.Dimensions[d] == name {
				at = d
			}
		}
		f := pf.Of(name)
		if at < 0 || f == nil || math.IsNaN(f.Now.Mean) {
			return nil, 0, false
		}
		now += f.Now.Mean
		if paths == nil {
			paths = make([][Horizon]float32, len(pf.Paths.At[at]))
		}
		for j := range paths {
			for h := range Horizon {
				paths[j][h] += pf.Paths.At[at][j][h]
			}
		}
	}
	return paths, now, paths != nil
}
