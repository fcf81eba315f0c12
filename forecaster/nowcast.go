package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/features"
)

// nowcast is what is known about the newest minutes of a series. The calibration was learned from forecasts that also
// started from nowcasts, so it includes their uncertainty.
type nowcast struct {
	Newest features.Estimate // of the newest minute; Mean NaN if unknown
	// Counted has a bit for each of the newest minutes, the newest lowest: 1 if something was counted. A nowcast above
	// zero does not end silence.
	Counted uint32
}

// countedMinutes is the number of newest minutes in Counted.
const countedMinutes = 32

// push takes the newest minute, after all earlier ones of the same tick.
func (a *nowcast) push(e features.Estimate) {
	a.Newest = e
	a.Counted <<= 1
	a.amend(&e, 0)
}

// amend takes the estimate of a minute so many before the newest.
func (a *nowcast) amend(e *features.Estimate, before int64) {
	if e.Counted > 0 {
		a.Counted |= 1 << before
	}
}

var unknown = features.Estimate{Mean: math.NaN()}
