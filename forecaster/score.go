package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/network"
	"github.com/forewarm/forewarm/internal/value"
)

// Pinball is the quantile loss of forecast q at level tau for outcome y, in y's unit: tau·(y−q) when y ≥ q, else
// (1−tau)·(q−y). Its expectation is least at the true quantile (Koenker and Bassett 1978, doi:10.2307/1913643).
func Pinball(tau, y, q float64) float64 {
	if y >= q {
		return tau * (y - q)
	}
	return (1 - tau) * (q - y)
}

// ScoredLevels are the levels of MeanPinball, those that sizing uses.
var ScoredLevels = [5]int{L50, L80, L90, L95, L99}

// HorizonWindowMax names the largest minute of WindowFrom..WindowTo where a horizon in minutes is expected.
const HorizonWindowMax = "max15_30"

// Accumulator has the scores of the forecasts of one series at one horizon. A Scorer fills it.
type Accumulator struct {
	Horizon string // minutes, or HorizonWindowMax
	N       int    // outcomes
	Missing int    // forecasts with an unknown outcome

	target           network.Span
	first, last      int64   // origins of outcomes
	sum, err, absErr float64 // Σ|y|; Σ(median − y) and Σ|median − y|
	lastErr, lastOwn float64 // Σ|y − last value|; Σ|median − y| over the same outcomes
	loss             Quantiles
	covered          Quantiles // outcomes at or below each quantile
}

// add counts outcome y of a forecast made at an origin (in minutes), and the last value then.
func (a *Accumulator) add(origin int64, y, last float64, own *Quantiles) {
	if a.N == 0 {
		a.first = origin
	}
	a.last = origin
	a.N++
	a.sum += math.Abs(y)
	e := own[L50] - y
	a.err += e
	a.absErr += math.Abs(e)
	if !math.IsNaN(last) {
		a.lastErr += math.Abs(y - last)
		a.lastOwn += math.Abs(e)
	}
	for i, tau := range Levels {
		a.loss[i] += Pinball(tau, y, own[i])
		if y <= own[i] {
			a.covered[i]++
		}
	}
}

// Mean is the mean outcome.
func (a *Accumulator) Mean() float64 { return value.Share(a.sum, float64(a.N)) }

// WAPE is Σ|median − y| / Σ|y|; NaN if Σ|y| is 0.
func (a *Accumulator) WAPE() float64 { return value.Share(a.absErr, a.sum) }

// Bias is Σ(median − y) / Σ|y|: positive when the median is too high.
func (a *Accumulator) Bias() float64 { return value.Share(a.err, a.sum) }

// RelativeMAE is the median's absolute error over that of the last value, at the same horizon and outcomes (Hyndman and
// Koehler 2006, doi:10.1016/j.ijforecast.2006.03.001, §2.4). For the window maximum the last value is the largest of as
// many minutes before the origin.
func (a *Accumulator) RelativeMAE() float64 {
	if a.lastErr <= 1e-9*a.sum { // rounding errors
		return math.NaN()
	}
	return a.lastOwn / a.lastErr
}

// MeanPinball is the loss averaged over outcomes and ScoredLevels, in the series' unit.
func (a *Accumulator) MeanPinball() float64 {
	s := 0.0
	for _, i := range ScoredLevels {
		s += a.loss[i]
	}
	return value.Share(s, float64(a.N*len(ScoredLevels)))
}

// Coverage is the share of outcomes at or below a quantile, with its 95 % Wilson interval for the effective number of
// outcomes. Outcomes of overlapping horizons depend on each other and count less.
type Coverage struct {
	Share     value.Number `json:"share"`
	Low       value.Number `json:"low"`
	High      value.Number `json:"high"`
	Effective value.Number `json:"effective_n"`
}

// Coverage of the quantile at that level index. The interval is Wilson's (1927, doi:10.1080/01621459.1927.10502953) for
// the number of outcomes that do not overlap.
func (a *Accumulator) Coverage(level int) Coverage {
	if a.N == 0 {
		return Coverage{Share: value.Unknown, Low: value.Unknown, High: value.Unknown}
	}
	const z = 1.959964
	n := float64(a.N)
	overlap := 1.0 // outcomes that share a minute
	if a.last > a.first {
		overlap = math.Max(1, math.Ceil(float64(a.target.To)*(n-1)/float64(a.last-a.first)))
	}
	p, effective := a.covered[level]/n, n/overlap
	mid := (p + z*z/(2*effective)) / (1 + z*z/effective)
	half := z / (1 + z*z/effective) * math.Sqrt(p*(1-p)/effective+z*z/(4*effective*effective))
	low, high := value.Number(max(mid-half, 0)), value.Number(min(mid+half, 1))
	return Coverage{Share: value.Number(p), Low: low, High: high, Effective: value.Number(effective)}
}
