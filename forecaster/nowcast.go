package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/features"
)

// anchor is what the newest minutes of a series are, as far as they are known, and how uncertain that leaves the level
// that forecasts start from.
//
// The calibration was learned from forecasts that started from nowcasts as well, against outcomes
// that had settled: the usual uncertainty of nowcasts is part of them. Only what goes beyond it must be added, as when
// the service has just slowed down and the delays that were learned are off. So a forecast is widened by Excess alone.
type anchor struct {
	Newest features.Estimate `cbor:"1,keyasint"` // of the newest minute; Mean NaN when it is not known
	// Uncertain is the variance of the ten-minute level on the square-root scale that is due to nowcasts, Usual what it
	// is over a day.
	Uncertain float64 `cbor:"2,keyasint"`
	Usual     float64 `cbor:"3,keyasint"`
	Seen      float64 `cbor:"4,keyasint"`
	// Open is the part of the level's standard deviation that minutes before the next one have, in the series' unit.
	Open float64 `cbor:"5,keyasint"`
	// Heard has a bit for each of the newest minutes, the newest lowest, in which something was counted: what a nowcast
	// expects of a minute is no end of silence.
	Heard uint32 `cbor:"6,keyasint"`
	// Grown is the share of minutes, over an hour, in which an earlier one changed a good deal.
	Grown float64 `cbor:"7,keyasint,omitempty"`
}

// anchorFade is the weight of a minute relative to the next in a level of ten minutes.
const anchorFade = 0.9

// learnReporting takes what has become of a minute that came so many minutes before the newest one, when the next one is about
// to be pushed.
func (a *anchor) learnReporting(e *features.Estimate, before int64) {
	a.open(e.SD, before+1)
	if e.Counted > 0 {
		a.Heard |= 1 << before
	}
}

// open adds the uncertainty of a minute with its weight in the level. Errors in the share that is reported are common to
// neighbouring minutes, so deviations add up, not variances.
func (a *anchor) open(sd float64, before int64) {
	if sd > 0 {
		a.Open += (1 - anchorFade) * math.Pow(anchorFade, float64(before)) * sd
	}
}

// heardMinutes is how many of the newest minutes Heard covers.
const heardMinutes = 32

// heard says whether something was counted so many minutes before the newest one, less than heardMinutes.
func (a *anchor) heard(before int64) bool { return a.Heard&(1<<before) != 0 }

const (
	grownGain  = 1.0 / 60
	mostGrown  = 0.1  // from which on the newest count is not taken for all there is
	grownShare = 0.75 // of the unit, by which a minute has changed a good deal
)

// move takes the newest minute, after all the earlier ones of the same tick.
func (a *anchor) move(e features.Estimate, level float64) {
	a.Newest = e
	a.Heard <<= 1
	if e.Counted > 0 {
		a.Heard |= 1
	}
	a.Grown *= 1 - grownGain
	a.open(e.SD, 0)
	a.Uncertain = 0
	if a.Open > 0 && level > 0 {
		a.Uncertain = a.Open * a.Open / (4 * level) // (d√y/dy)² = 1/4y
	}
	a.Open = 0
	a.Seen = math.Min(a.Seen+1, 1440)
	a.Usual += (a.Uncertain - a.Usual) / a.Seen
}

// widen spreads quantiles about their median by the uncertainty beyond the usual.
func (a *anchor) widen(q *Quantiles) {
	excess := a.Uncertain - a.Usual
	if !(excess > 0) {
		return
	}
	median := math.Sqrt(q[L50])
	for i := range q {
		d, z := math.Sqrt(q[i])-median, gaussian[i]
		q[i] = unroot(median + math.Copysign(math.Sqrt(d*d+z*z*excess), z))
	}
	q.Sort()
}

// unknown is what nothing is known of.
var unknown = features.Estimate{Mean: math.NaN()}

func unknowns() []features.Estimate {
	out := make([]features.Estimate, len(dimensions))
	for d := range out {
		out[d] = unknown
	}
	return out
}

// exactly is a value that is taken for what it is; NaN when that is not known.
func exactly(y float64) features.Estimate {
	return features.Estimate{Mean: y, Counted: y, Low: y, High: y, Share: 1}
}

// plus adds estimates, of which those that are not known count for nothing.
func plus(sum, e features.Estimate) features.Estimate {
	if math.IsNaN(sum.Mean) {
		return e
	}
	return sum.Plus(e)
}
