package alerting

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// PathPoint is the forecast of the binding resource some minutes ahead: demand in its unit, and the replicas that are
// ready by then if no more are requested.
type PathPoint struct {
	_ struct{} `cbor:",toarray"`

	Minute   int     `json:"minute"`
	Median   float32 `json:"p50"`
	Quantile float32 `json:"demand_quantile"` // at the decision's quantile
	Ready    int     `json:"ready"`           // pending ones after the median warm-up lag
}

// pathEvery is the distance of the points in minutes.
const pathEvery = 5

// path is the forecast of r over the horizon, as far as known.
func (p *plan) path(r *resource) []PathPoint {
	var out []PathPoint
	for h := pathEvery; h <= forecaster.Horizon; h += pathEvery {
		at := &r.forecast.Minute[h-1]
		point := PathPoint{Minute: h, Median: float32(at.At(.5)), Quantile: float32(at.At(p.tau)), Ready: p.supply.Ready}
		if sum := float64(point.Median + point.Quantile); math.IsNaN(sum) || math.IsInf(sum, 0) {
			return out
		}
		for _, asked := range p.supply.Pending {
			if p.in.Pool.Warmup.ReadyBy(asked, p.now, p.now.Add(time.Duration(h)*time.Minute)) >= .5 {
				point.Ready++
			}
		}
		out = append(out, point)
	}
	return out
}

// SeenFloor is the reactive floor; nil if it is 0 because no resource has a capacity.
func (d *Decision) SeenFloor() *int {
	if d.Floor == 0 && len(d.Resources) == 0 {
		return nil
	}
	floor := d.Floor
	return &floor
}

// binding is the evidence on the binding resource; nil without one.
func (d *Decision) binding() *ResourceEvidence {
	for i := range d.Resources {
		if d.Resources[i].Dimension == d.Binding {
			return &d.Resources[i]
		}
	}
	return nil
}
