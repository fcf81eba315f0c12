package forecaster

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/features"
)

// reliabilityLevels are the levels of the warm-up lag that an outcome is averaged over, where replicas were on their way.
const reliabilityLevels = 8

// reliabilityEdges part the stated probabilities: the middle ones are a tenth wide around 10 %, 20 % … 90 %.
var reliabilityEdges = [...]float64{0, .05, .15, .25, .35, .45, .55, .65, .75, .85, .95, 1}

// Reliability judges projections: of those that stated a probability of saturation within their window, in how many did
// the demand that came exceed the supply that they assumed? That supply is held fixed, whatever was asked for or became
// ready since, so that an outcome does not depend on what a decision made of the projection; where replicas were on their
// way, it is averaged over eight levels of the lag. And of the times to saturation that were stated for a level: by how
// many had it come?
//
// Projections of following minutes share most of their windows, so counts are not of independent trials: Windows counts those
// that do not overlap, and Low and High say how sure a share is that so many trials gave. It keeps
// nothing beyond Horizon minutes of projections: O(resources · Horizon) for each minute.
type Reliability struct {
	open []judged
	bins [len(reliabilityEdges) - 1]ReliabilityBin
	eta  [3]ETACoverage

	binOver [len(reliabilityEdges) - 1]int64 // minute at which the newest of a bin's Windows is over
	etaOver [3]int64
}

// ReliabilityBin are the projections that stated about the same probability.
type ReliabilityBin struct {
	From, To float64 // of the stated probability
	N        int
	Stated   float64 // mean; NaN without any
	Came     float64 // share that came true; NaN without any

	Windows   int     // that do not overlap, whatever the resource
	Low, High float64 // of Came with a probability of 90 %, were Windows all that it is known from; NaN without any
}

// ETACoverage is, of the times that were stated as the Level quantile of the time to saturation and lay ahead, by how many
// it had come. Were they right, Came would be Level.
type ETACoverage struct {
	Level float64
	N     int
	Came  float64 // NaN without any

	Windows   int
	Low, High float64
}

var etaLevels = [...]float64{.1, .5, .9}

// judged is the projection of one resource that is not over.
type judged struct {
	dimension string
	from      int64 // minute
	per       float64
	span      int
	stated    float64
	eta       [3]time.Duration
	ready     [][Horizon]float32 // usable replicas, one row for each level of the lag
	passage   []int              // minute of the first shortage, counted from 1; 0 before there is any
}

// Issue takes down a projection, and what it was made from.
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
		r.open = append(r.open, judged{
			dimension: x.Dimension, from: p.Origin.Unix() / 60, per: x.PerReplica, span: span, stated: x.Probability[span-1],
			eta: [...]time.Duration{x.ETA.P10, x.ETA.P50, x.ETA.P90}, ready: ready, passage: make([]int, len(levels)),
		})
	}
}

// Observe takes in what a minute, Unix time, brought; NaN where that is not known, which saturates nothing. Minutes come in
// order.
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

// tally counts a projection that is over.
func (r *Reliability) tally(x *judged) {
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
	b.Came += by(x.span)
	apart(&b.Windows, &r.binOver[i], x.from, x.span)
	for k, eta := range x.eta {
		if eta > 0 {
			r.eta[k].N++
			minutes := int(eta/features.Minute) + 1
			r.eta[k].Came += by(minutes)
			apart(&r.eta[k].Windows, &r.etaOver[k], x.from, minutes)
		}
	}
}

// apart counts a window that begins after the last one that was counted is over.
func apart(windows *int, over *int64, from int64, span int) {
	if from >= *over {
		*windows++
		*over = from + int64(span)
	}
}

// Table is what was found so far.
func (r *Reliability) Table() (bins []ReliabilityBin, eta []ETACoverage) {
	for i, b := range r.bins {
		b.From, b.To = reliabilityEdges[i], reliabilityEdges[i+1]
		b.Stated /= float64(b.N) // NaN without any
		b.Came /= float64(b.N)
		b.Low, b.High = wilson(b.Came, b.Windows)
		bins = append(bins, b)
	}
	for i, e := range r.eta {
		e.Level = etaLevels[i]
		e.Came /= float64(e.N)
		e.Low, e.High = wilson(e.Came, e.Windows)
		eta = append(eta, e)
	}
	return bins, eta
}

// wilson is the interval in which the probability lies with 90 % that gave a share of n trials (Wilson 1927, "Probable
// inference, the law of succession, and statistical inference", doi:10.1080/01621459.1927.10502953); NaN without a trial.
func wilson(share float64, n int) (low, high float64) {
	const z = 1.645
	k := z * z / float64(n)
	middle, half := share+k/2, math.Sqrt(k*share*(1-share)+k*k/4)
	return (middle - half) / (1 + k), (middle + half) / (1 + k)
}
