package forecaster

import "time"

// reliabilityLevels of the warm-up lag: an outcome with pending replicas is averaged over them.
const reliabilityLevels = 8

// reliabilityEdges are the bins of stated probabilities: the middle ones are a tenth wide around 10 %, 20 % … 90 %.
var reliabilityEdges = [...]float64{0, .05, .15, .25, .35, .45, .55, .65, .75, .85, .95, 1}

// Reliability judges projections: of those that stated a probability of saturation within their window, in how many did
// the demand that came exceed the supply that they assumed? That supply is held fixed, whatever was asked for or became
// ready since, so that an outcome does not depend on what a decision made of the projection. Where replicas were on their
// way, the outcome is averaged over eight levels of the lag. It keeps only the projections whose window is not over:
// O(resources · Horizon) for each minute.
type Reliability struct {
	open []openProjection
	bins [len(reliabilityEdges) - 1]ReliabilityBin
	over [len(reliabilityEdges) - 1]int64 // minute at which the newest of a bin's Windows ends
}

// ReliabilityBin has the projections with similar stated probabilities.
type ReliabilityBin struct {
	From   float64 `json:"from"` // of the stated probability
	To     float64 `json:"to"`
	N      int     `json:"n"`
	Stated float64 `json:"stated"` // mean
	Came   float64 `json:"came"`   // share that came true
	// Windows are the projections of N whose windows do not overlap, whatever the resource. Projections of following minutes are
	// not independent, so Came is no surer than the share of so many trials.
	Windows int `json:"windows"`
}

// openProjection is the projection of one resource whose window is not over.
type openProjection struct {
	dimension string
	from      int64 // minute
	per       float64
	span      int // minutes
	stated    float64
	ready     [][Horizon]float32 // usable replicas, one row for each level of the lag
	short     []bool             // there was too little supply, at each level of the lag
}

// Issue records a projection and its inputs.
func (r *Reliability) Issue(p *Projection, lag Lag, window time.Duration) {
	if p.Stale {
		return
	}
	levels := make([]float64, 1, reliabilityLevels)
	if len(p.Supply.Pending) > 0 {
		levels = levels[:reliabilityLevels]
	}
	for i := range levels {
		levels[i] = (float64(i) + .5) / float64(len(levels))
	}
	ready := usable(p.Origin, lag, p.Supply, 0, levels...)
	span := windowMinutes(window)
	for i := range p.Resources {
		x := &p.Resources[i]
		r.open = append(r.open, openProjection{
			dimension: x.Dimension, from: p.Origin.Unix() / 60, per: x.PerReplica, span: span, stated: x.Probability[span-1],
			ready: ready, short: make([]bool, len(levels)),
		})
	}
}

// Observe takes in the demand of a minute, Unix time; NaN where it is not known, which saturates nothing. Minutes come in order.
func (r *Reliability) Observe(minute int64, demand func(dimension string) float64) {
	open := r.open[:0]
	for _, x := range r.open {
		h := int(minute - x.from)
		if h >= 0 && h < x.span {
			y := demand(x.dimension)
			for i := range x.short {
				x.short[i] = x.short[i] || y > x.per*float64(x.ready[i][h])
			}
		}
		if h >= x.span-1 {
			r.count(&x)
			continue
		}
		open = append(open, x)
	}
	r.open = open
}

// count adds a projection whose window is over to its bin.
func (r *Reliability) count(x *openProjection) {
	i := 0
	for i+2 < len(reliabilityEdges) && x.stated >= reliabilityEdges[i+1] {
		i++
	}
	b := &r.bins[i]
	b.N++
	b.Stated += x.stated
	for _, short := range x.short {
		if short {
			b.Came += 1 / float64(len(x.short))
		}
	}
	if x.from >= r.over[i] {
		b.Windows++
		r.over[i] = x.from + int64(x.span)
	}
}

// Bins are those with projections, by rising probability.
func (r *Reliability) Bins() (bins []ReliabilityBin) {
	for i, b := range r.bins {
		if b.N > 0 {
			b.From, b.To = reliabilityEdges[i], reliabilityEdges[i+1]
			b.Stated, b.Came = b.Stated/float64(b.N), b.Came/float64(b.N)
			bins = append(bins, b)
		}
	}
	return bins
}
