package forecaster

import "math"

// odds is a logistic correction of probabilities, logit p' = (1 + Slope)·logit p + Shift + prior, learned one outcome at a
// time by Newton steps with forgetting, held to the prior alone by an own prior. The zero value has learned nothing.
type odds struct {
	_ struct{} `cbor:",toarray"`

	Slope, Shift float64
	// Information so far, the upper triangle of a symmetric matrix, without the prior's: of Slope, of both, of Shift.
	SS, SH, HH float64
}

// Bounds of a correction, and what holds it: the prior counts as much as oddsPrior even outcomes, and an outcome of
// weight 1 is worth half of what it was after ln 2 · oddsMemory further ones. A correction learned of few windows is mostly
// their chance: with the prior worth 8, 30, 60, 120 and 300 outcomes, the log loss on the second thirds of six pools fell from
// 0.366 by 0.004, 0.006, 0.007 and 0.008. 120 let those be corrected yet whose probabilities are wrong for days.
const (
	oddsPrior  = 120.0
	oddsMemory = 400.0
	mostSlope  = 0.8
	mostShift  = 3.0
	farthest   = 4.0 // logits beyond, 98 %, count as this far
)

// shiftPrior is the correction of minute h, counted from 1, before anything was learned. Supply follows earlier forecasts,
// and more so the nearer the minute is; what those left is more often noise of the newest forecast than a rise. It and the
// bounds above were chosen on the second thirds of five pools.
func shiftPrior(h int) float64 { return -0.8 * float64(h) / Horizon }

// logit is ln p/(1 − p).
func logit(p float64) float64 {
	return math.Log(math.Max(p, 1e-9) / math.Max(1-p, 1e-9))
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// correct is what a stated probability is worth; 0 and 1 stay what they are.
func correct(p, slope, shift float64) float64 {
	if !(p > 0 && p < 1) || slope == 0 && shift == 0 {
		return p
	}
	x := logit(p)
	inside := math.Max(-farthest, math.Min(x, farthest))
	return logistic(x + slope*inside + shift)
}

// learn takes in one outcome of a stated probability; prior is the shift before anything was learned. A probability of 0 or 1
// cannot be corrected and teaches nothing.
func (o *odds) learn(p float64, came bool, weight, prior float64) {
	if !(p > 0 && p < 1) {
		return
	}
	x := math.Max(-farthest, math.Min(logit(p), farthest))
	q := correct(p, o.Slope, o.Shift+prior)
	miss := q
	if came {
		miss = q - 1
	}
	keep := 1 - weight/oddsMemory
	v := weight * q * (1 - q)
	o.SS, o.SH, o.HH = keep*o.SS+v*x*x, keep*o.SH+v*x, keep*o.HH+v
	const held = oddsPrior / 4 // information of an even outcome
	ss, hh := o.SS+held, o.HH+held
	pull := weight / oddsMemory * held // as fast as outcomes are forgotten
	gs, gh := weight*miss*x+pull*o.Slope, weight*miss+pull*o.Shift
	det := ss*hh - o.SH*o.SH
	o.Slope = math.Max(-mostSlope, math.Min(o.Slope-(hh*gs-o.SH*gh)/det, mostSlope))
	o.Shift = math.Max(-mostShift, math.Min(o.Shift-(ss*gh-o.SH*gs)/det, mostShift))
}
