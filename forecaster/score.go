package forecaster

import "math"

// Pinball is the quantile loss of forecast q at level tau for outcome y, in y's unit: tau·(y−q) when y ≥ q, else
// (1−tau)·(q−y). Its expectation is least at the true quantile (Koenker and Bassett 1978, doi:10.2307/1913643).
func Pinball(tau, y, q float64) float64 {
	if y >= q {
		return tau * (y - q)
	}
	return (1 - tau) * (q - y)
}

// ScoredLevels are the levels whose mean pinball is reported, those that sizing uses.
var ScoredLevels = [5]int{L50, L80, L90, L95, L99}

// Accumulator scores forecasts of one series at one horizon against what came. The zero value is ready. It is the one
// place where accuracy is computed: shadows, backtest and reports all use it. O(1) per outcome, fixed size.
type Accumulator struct {
	N       int                `json:"n" cbor:"1,keyasint"`
	SumY    float64            `json:"-" cbor:"2,keyasint"`
	AbsErr  float64            `json:"-" cbor:"3,keyasint"` // of the median
	Err     float64            `json:"-" cbor:"4,keyasint"` // median − outcome
	LastErr float64            `json:"-" cbor:"5,keyasint"` // absolute, of the last-value forecast
	LastN   int                `json:"-" cbor:"6,keyasint"`
	Loss    [NumLevels]float64 `json:"-" cbor:"7,keyasint"` // pinball
	Below   [NumLevels]int     `json:"-" cbor:"8,keyasint"` // outcomes ≤ quantile
	LastOwn float64            `json:"-" cbor:"9,keyasint"` // AbsErr over the outcomes that LastErr counts
	PIT     [10]int            `json:"-" cbor:"10,keyasint"`
}

// Add counts outcome y of forecast q; last is what the last-value forecast said, NaN when it had nothing to say. An
// outcome that is NaN or infinite is no outcome and is ignored.
func (a *Accumulator) Add(y float64, q *Quantiles, last float64) {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return
	}
	a.N++
	a.SumY += math.Abs(y)
	e := q[L50] - y
	a.Err += e
	a.AbsErr += math.Abs(e)
	if !math.IsNaN(last) {
		a.LastErr += math.Abs(y - last)
		a.LastOwn += math.Abs(e)
		a.LastN++
	}
	for i, tau := range Levels {
		a.Loss[i] += Pinball(tau, y, q[i])
		if y <= q[i] {
			a.Below[i]++
		}
	}
	a.PIT[min(9, int(q.CDF(y)*10))]++
}

// Merge adds the outcomes of o.
func (a *Accumulator) Merge(o *Accumulator) {
	a.N, a.LastN = a.N+o.N, a.LastN+o.LastN
	a.SumY, a.AbsErr, a.Err = a.SumY+o.SumY, a.AbsErr+o.AbsErr, a.Err+o.Err
	a.LastErr, a.LastOwn = a.LastErr+o.LastErr, a.LastOwn+o.LastOwn
	for i := range a.Loss {
		a.Loss[i] += o.Loss[i]
		a.Below[i] += o.Below[i]
	}
	for i := range a.PIT {
		a.PIT[i] += o.PIT[i]
	}
}

// WAPE is Σ|median − y| / Σ|y|; NaN without outcomes or with none but zeros.
func (a *Accumulator) WAPE() float64 { return ratio(a.AbsErr, a.SumY) }

// Bias is Σ(median − y) / Σ|y|: positive when the median is too high.
func (a *Accumulator) Bias() float64 { return ratio(a.Err, a.SumY) }

// MASE is the median's absolute error over that of the last-value forecast at the same lead and the same outcomes
// (Hyndman and Koehler 2006, doi:10.1016/j.ijforecast.2006.03.001, scaled by the lead instead of one step).
func (a *Accumulator) MASE() float64 { return ratio(a.LastOwn, a.LastErr) }

// Skill is 1 − MASE: the share of the last-value forecast's error that the median removes. 0 is no better, negative is
// worse.
func (a *Accumulator) Skill() float64 { return 1 - a.MASE() }

// MeanPinball is the pinball loss averaged over outcomes and ScoredLevels, in the series' unit.
func (a *Accumulator) MeanPinball() float64 {
	s := 0.0
	for _, i := range ScoredLevels {
		s += a.Loss[i]
	}
	return ratio(s, float64(a.N*len(ScoredLevels)))
}

// CRPS approximates the continuous ranked probability score, ∫ 2·pinball(τ) dτ, by the trapezoid rule over Levels, the
// loss taken constant beyond the outermost levels (Gneiting and Raftery 2007, doi:10.1198/016214506000001437, §4.2).
func (a *Accumulator) CRPS() float64 {
	s := Levels[0]*a.Loss[0] + (1-Levels[NumLevels-1])*a.Loss[NumLevels-1]
	for i := 1; i < NumLevels; i++ {
		s += (Levels[i] - Levels[i-1]) * (a.Loss[i] + a.Loss[i-1]) / 2
	}
	return ratio(2*s, float64(a.N))
}

// Coverage is the share of outcomes at or below the quantile with index level, and its 95 % Wilson interval
// (Wilson 1927, doi:10.1080/01621459.1927.10502953). The interval takes outcomes as independent; at leads of h minutes
// neighbouring ones are not, and the true interval is wider.
func (a *Accumulator) Coverage(level int) (share, lo, hi float64) {
	if a.N == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	const z = 1.959964
	n, p := float64(a.N), float64(a.Below[level])/float64(a.N)
	mid := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return p, mid - half, mid + half
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}
