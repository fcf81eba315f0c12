package forecaster

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/features"
)

// reliabilityLevels of the warm-up lag: an outcome with pending replicas is averaged over them.
const reliabilityLevels = 8

// reliabilityEdges are the bins of stated probabilities: the middle ones are a tenth wide around 10 %, 20 % … 90 %.
var reliabilityEdges = [...]float64{0, .05, .15, .25, .35, .45, .55, .65, .75, .85, .95, 1}

// Reliability scores projections. Of those that stated a probability of saturation within their window: in what share
// did demand exceed the assumed supply? That supply is fixed, so an outcome does not depend on later decisions; with
// pending replicas it is averaged over eight levels of the lag. Of the times to saturation stated for a level: what
// share had saturated by then?
//
// Projections of consecutive minutes share most of their windows, so counts are not of independent trials: Windows
// counts those that do not overlap, and Low and High are the interval for that many trials. Memory: O(resources ·
// Horizon) for each of the last Horizon minutes.
type Reliability struct {
	open []openProjection
	bins [len(reliabilityEdges) - 1]ReliabilityBin
	eta  [3]ETACoverage

	binOver [len(reliabilityEdges) - 1]int64 // end of a bin's newest counted window, in minutes
	etaOver [3]int64
}

// ReliabilityBin has the projections with similar stated probabilities.
type ReliabilityBin struct {
	From, To float64 // of the stated probability
	N        int
	Stated   float64 // mean; NaN without any
	Observed float64 // share that saturated; NaN without any

	Windows   int     // that do not overlap, of all resources
	Low, High float64 // 90 % interval of Observed for that many Windows; NaN without any
}

// ETACoverage is, of the positive ETAs stated at quantile Level, the share that had saturated by then. If they are
// right, Observed is Level.
type ETACoverage struct {
	Level    float64
	N        int
	Observed float64 // NaN without any

	Windows   int
	Low, High float64
}

var etaLevels = [...]float64{.1, .5, .9}

// openProjection is the projection of one resource whose window is not over.
type openProjection struct {
	dimension string
	from      int64 // minute
	per       float64
	span      int
	stated    float64
	eta       [3]time.Duration
	ready     [][Horizon]float32 // usable replicas, a row for each level of the lag
	passage   []int              // minute of the first shortage, from 1; 0 before
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
			eta: [...]time.Duration{x.ETA.P10, x.ETA.P50, x.ETA.P90}, ready: ready, passage: make([]int, len(levels)),
		})
	}
}

// Observe takes the demand of a minute (Unix time); NaN if unknown, which is no saturation. Minutes come in order.
func (r *Reliability) Observe(minute int64, demand func(dimension string) float64) {
	open := r.open[:0]
	for _, x := range r.open {
		h := int(minute - x.from)
		if h >= 0 && h < Horizon {
			y := demand(x.dimension)
			for i := range x.passage {
				if x.passage[i] == 0 && y > x.per*float64(x.ready[i][h]) {
					x.passage[i] = h + 1
				}
			}
		}
		if h >= Horizon-1 {
			r.tally(&x)
			continue
		}
		open = append(open, x)
	}
	r.open = open
}

// tally counts a projection whose window is over.
func (r *Reliability) tally(x *openProjection) {
	by := func(minute int) (share float64) {
		for _, h := range x.passage {
			if h > 0 && h <= minute {
				share += 1 / float64(len(x.passage))
			}
		}
		return share
	}
	i := 0
	for i+2 < len(reliabilityEdges) && x.stated >= reliabilityEdges[i+1] {
		i++
	}
	b := &r.bins[i]
	b.N++
	b.Stated += x.stated
	b.Observed += by(x.span)
	countDisjoint(&b.Windows, &r.binOver[i], x.from, x.span)
	for k, eta := range x.eta {
		if eta > 0 {
			r.eta[k].N++
			minutes := int(eta/features.Minute) + 1
			r.eta[k].Observed += by(minutes)
			countDisjoint(&r.eta[k].Windows, &r.etaOver[k], x.from, minutes)
		}
	}
}

// countDisjoint counts a window that begins after the last counted one has ended.
func countDisjoint(windows *int, over *int64, from int64, span int) {
	if from >= *over {
		*windows++
		*over = from + int64(span)
	}
}

// Table is the result so far.
func (r *Reliability) Table() (bins []ReliabilityBin, eta []ETACoverage) {
	for i, b := range r.bins {
		b.From, b.To = reliabilityEdges[i], reliabilityEdges[i+1]
		b.Stated /= float64(b.N) // NaN without any
		b.Observed /= float64(b.N)
		b.Low, b.High = wilson(b.Observed, b.Windows)
		bins = append(bins, b)
	}
	for i, e := range r.eta {
		e.Level = etaLevels[i]
		e.Observed /= float64(e.N)
		e.Low, e.High = wilson(e.Observed, e.Windows)
		eta = append(eta, e)
	}
	return bins, eta
}

// wilson is the 90 % interval of a probability that gave a share of n trials (Wilson 1927, "Probable inference, the law
// of succession, and statistical inference", doi:10.1080/01621459.1927.10502953); NaN without a trial.
func wilson(share float64, n int) (low, high float64) {
	const z = 1.645
	k := z * z / float64(n)
	middle, half := share+k/2, math.Sqrt(k*share*(1-share)+k*k/4)
	return (middle - half) / (1 + k), (middle + half) / (1 + k)
}
