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

// The ways to scale that an explanation compares.
const (
	WayNothing  = "nothing"  // the ready replicas only, without the pending ones
	WayReactive = "reactive" // each minute, request replicas for the demand of that minute, ready a warm-up later
	WayAsked    = "asked"    // the pending replicas and those that the decision requests, ready a warm-up later
)

// Alternative is the forecast of the binding resource with one way to scale, over the minutes of the path, with the
// median warm-up lag.
type Alternative struct {
	Way          string     `json:"way"`
	Replicas     int        `json:"replicas"`      // at the end
	ShortFrom    *time.Time `json:"short_from"`    // when the median of demand first exceeds capacity; null if never
	ShortMinutes int        `json:"short_minutes"` // how long it does
	Peak         float64    `json:"peak"`          // the largest share of the capacity in use, at the median of demand
	PeakQuantile float64    `json:"peak_quantile"` // at the decision's quantile
}

// same reports whether two ways have the same result.
func (a Alternative) same(b Alternative) bool {
	if a.ShortFrom != nil && b.ShortFrom != nil && a.ShortFrom.Equal(*b.ShortFrom) {
		a.ShortFrom = b.ShortFrom
	}
	a.Way = b.Way
	return a == b
}

// alternatives are the ways to scale; nil without a path.
func alternatives(d *Decision) []Alternative {
	r := d.binding()
	if r == nil || len(d.Path) == 0 || !(r.PerReplica > 0) {
		return nil
	}
	median, quantile, ready := d.byMinute(r.Demand)
	lag := d.Lead
	if d.Basis != nil && d.Basis.Warmup.P50 > 0 {
		lag = time.Duration(d.Basis.Warmup.P50 * float64(time.Second))
	}
	late := int(math.Ceil(lag.Minutes()))
	nothing, asked, reactive := make([]int, len(ready)), make([]int, len(ready)), make([]int, len(ready))
	more := d.Desired - d.Ready - d.Pending
	for m, n := range ready {
		nothing[m], asked[m], reactive[m] = d.Ready, n, d.Ready
		if m >= late || more < 0 {
			asked[m] = max(n+more, 0)
		}
		if m > late {
			reactive[m] = max(reactive[m-1], d.Ready)
		}
		if m >= late {
			reactive[m] = max(reactive[m], replicasFor(median[m-late], r.PerReplica))
		}
	}
	var out []Alternative
	for _, way := range []struct {
		name  string
		ready []int
	}{{WayNothing, nothing}, {WayReactive, reactive}, {WayAsked, asked}} {
		a := Alternative{Way: way.name, Replicas: way.ready[len(way.ready)-1]}
		for m, n := range way.ready {
			capacity := r.PerReplica * float64(n)
			if median[m] > capacity {
				a.ShortMinutes++
				if a.ShortFrom == nil {
					a.ShortFrom = instant(d.Tick.Add(time.Duration(m) * time.Minute))
				}
			}
			if n > 0 {
				a.Peak, a.PeakQuantile = max(a.Peak, round(median[m]/capacity)), max(a.PeakQuantile, round(quantile[m]/capacity))
			}
		}
		out = append(out, a)
	}
	return out
}

// byMinute is the path at each minute from now on, interpolated linearly.
func (d *Decision) byMinute(now float64) (median, quantile []float64, ready []int) {
	before := PathPoint{Median: float32(now), Quantile: float32(now), Ready: d.Ready}
	for _, next := range d.Path {
		for m := before.Minute; m < next.Minute; m++ {
			share := float32(m-before.Minute) / float32(next.Minute-before.Minute)
			median = append(median, float64(before.Median+share*(next.Median-before.Median)))
			quantile = append(quantile, float64(before.Quantile+share*(next.Quantile-before.Quantile)))
			ready = append(ready, before.Ready)
		}
		before = next
	}
	return append(median, float64(before.Median)), append(quantile, float64(before.Quantile)), append(ready, before.Ready)
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
