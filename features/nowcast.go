package features

import "math"

// Estimate is a nowcast: the expected settled value of a minute that is still being reported, in the dimension's unit.
//
// Records usually come when a request ends. So the newest minutes miss the running requests, and rates seem to fall.
// The reported share of a minute at age d is estimated from the reporting triangle by reverse-time hazards (see
// [hazards]). The rest is predicted from it and from the recent level (see [reporting]). If no record ever came late,
// the estimate is exactly the count.
//
// Records after Config.Revise are refused as late and are not predicted. If requests run longer than that, the settled
// count and its nowcast are too low.
type Estimate struct {
	Mean    float64
	Counted float64 // reported by now
	SD      float64 // of the missing part; 0 when nothing is missing
	// Low and High bound the settled value with a probability of 90 %, learned from the errors of earlier estimates at
	// the same age. If so little is missing that it may be nothing, Low is Counted.
	Low, High float64
	Share     float64 // expected reported share of the settled value; 1 when nothing is missing
}

// complete is the estimate of a complete value.
func complete(value float64) Estimate {
	return Estimate{Mean: value, Counted: value, Low: value, High: value, Share: 1}
}

// Plus is the estimate of the sum of two values with independent errors: distances from the mean add in quadrature.
func (e Estimate) Plus(o Estimate) Estimate {
	sum := Estimate{Mean: e.Mean + o.Mean, Counted: e.Counted + o.Counted, SD: math.Hypot(e.SD, o.SD), Share: 1}
	sum.Low = sum.Mean - math.Hypot(e.Mean-e.Low, o.Mean-o.Low)
	sum.High = sum.Mean + math.Hypot(e.High-e.Mean, o.High-o.Mean)
	if sum.Mean > 0 {
		sum.Share = (e.Mean*e.Share + o.Mean*o.Share) / sum.Mean
	}
	return sum
}

// nowcasted has the indices of the forecast rows of Dimensions, in order. Window.Nowcast has one Estimate for each.
var nowcasted = func() (rows []int) {
	for i := range Dimensions {
		if Dimensions[i].Forecast {
			Dimensions[i].nowcast = len(rows)
			rows = append(rows, i)
		}
	}
	return rows
}()

// Expected is the nowcast of each of Dimensions, NaN when unknown. Dimensions without a nowcast of their own use the
// reported share of requests.
func (w *Window) Expected() []float64 {
	out, rest := make([]float64, len(Dimensions)), 1.0
	for d := range Dimensions {
		now, ok := Dimensions[d].Now(w)
		if out[d] = now.Mean; !ok || !w.Covered {
			out[d] = math.NaN()
		}
		if d == 0 && w.Nowcast != nil { // requests
			if rest = math.NaN(); now.Counted > 0 {
				rest = now.Mean / now.Counted
			}
		}
		if !Dimensions[d].Forecast {
			out[d] *= rest
		}
	}
	return out
}

// Now is the nowcast of the dimension of a window; ok is false when it is unknown. For a settled window, and for
// dimensions that are not forecast, it is the Value.
func (d *Dimension) Now(w *Window) (e Estimate, ok bool) {
	if d.Forecast && w.Nowcast != nil {
		e = w.Nowcast[d.nowcast]
		return e, !math.IsNaN(e.Mean)
	}
	value, ok := d.Value(w)
	return complete(value), ok
}
