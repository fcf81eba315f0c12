package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/features"
)

// nowcast is what is known about the newest minutes of a series, and the uncertainty of the level that forecasts start
// from.
//
// The calibration was learned from forecasts that also started from nowcasts, so it includes their usual uncertainty.
// Only the excess is added, for example when the service has just slowed down and the learned delays are wrong.
type nowcast struct {
	Newest features.Estimate // of the newest minute; Mean NaN if unknown
	// Uncertain is the variance of the ten-minute level due to nowcasts, on the square-root scale; Usual its mean over
	// a day.
	Uncertain float64
	Usual     float64
	Seen      float64
	// NextSD is the part of the level's standard deviation, at the next minute, from minutes before it, in the series'
	// unit.
	NextSD float64
	// Counted has a bit for each of the newest minutes, the newest lowest: 1 if something was counted. A nowcast above
	// zero does not end silence.
	Counted uint32
	// Grown is the share of minutes, over an hour, in which an earlier one changed much.
	Grown float64
}

// nowcastDecay is the weight of a minute relative to the next in a level of ten minutes.
const nowcastDecay = 0.9

// learnReporting takes the estimate of an earlier minute, just before the next minute is pushed.
func (a *nowcast) learnReporting(e *features.Estimate, before int64) {
	a.addUncertainty(e.SD, before+1)
	if e.Counted > 0 {
		a.Counted |= 1 << before
	}
}

// addUncertainty adds that of a minute with its weight in the level. Neighbouring minutes share the error of the
// reported share, so deviations add up, not variances.
func (a *nowcast) addUncertainty(sd float64, before int64) {
	if sd > 0 {
		a.NextSD += (1 - nowcastDecay) * math.Pow(nowcastDecay, float64(before)) * sd
	}
}

// countedMinutes is the number of newest minutes in Counted.
const countedMinutes = 32

// counted reports whether something was counted that many minutes before the newest one (less than countedMinutes).
func (a *nowcast) counted(before int64) bool { return a.Counted&(1<<before) != 0 }

const (
	grownGain  = 1.0 / 60
	maxGrown   = 0.1  // from here on the newest count is taken for incomplete
	grownShare = 0.75 // of the unit: a minute changed much
)

// push takes the newest minute, after all earlier ones of the same tick.
func (a *nowcast) push(e features.Estimate, level float64) {
	a.Newest = e
	a.Counted <<= 1
	if e.Counted > 0 {
		a.Counted |= 1
	}
	a.Grown *= 1 - grownGain
	a.addUncertainty(e.SD, 0)
	a.Uncertain = 0
	if a.NextSD > 0 && level > 0 {
		a.Uncertain = a.NextSD * a.NextSD / (4 * level) // (d√y/dy)² = 1/4y
	}
	a.NextSD = 0
	a.Seen = math.Min(a.Seen+1, 1440)
	a.Usual += (a.Uncertain - a.Usual) / a.Seen
}

// widen spreads quantiles about their median by the excess uncertainty.
func (a *nowcast) widen(q *Quantiles) {
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

var unknown = features.Estimate{Mean: math.NaN()}

// exact is the estimate of an exact value; NaN if unknown.
func exact(y float64) features.Estimate {
	return features.Estimate{Mean: y, Counted: y, Share: 1}
}
