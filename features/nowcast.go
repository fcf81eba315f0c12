package features

import "math"

// Estimate is what a value that is still being reported will come to: its nowcast. Values are in the dimension's unit.
//
// Records usually come when a request ends, so the newest minutes miss the requests that are still running, and rates
// look as if falling when they are not. The share of a minute that has been reported at age d is estimated from the
// reporting triangle by reverse-time hazards (see [hazards]); the rest is predicted from it and from the recent level
// (see [reporting]). Where nothing ever came late the estimate is the count itself, exactly.
//
// What comes after Config.Revise is refused as late and is not part of what is predicted: where requests can run for
// longer than that, the settled count is itself too low, and the nowcast with it.
type Estimate struct {
	Mean    float64
	Counted float64 // what is reported by now
	SD      float64 // of the part that is missing; 0 when nothing is
	// Low and High bound the settled value with a probability of 90 %, learned from how far earlier estimates of minutes
	// as old were off. Where so little is missing that it may be nothing, Low is what was counted.
	Low, High float64
	Share     float64 // of the settled value that is reported by now, expected; 1 when nothing is missing
}

// complete is the estimate of a value of which nothing is missing.
func complete(value float64) Estimate {
	return Estimate{Mean: value, Counted: value, Low: value, High: value, Share: 1}
}

// Plus is the estimate of the sum of two values whose errors are independent: their distances from the mean add up like
// standard deviations.
func (e Estimate) Plus(o Estimate) Estimate {
	sum := Estimate{Mean: e.Mean + o.Mean, Counted: e.Counted + o.Counted, SD: math.Hypot(e.SD, o.SD), Share: 1}
	sum.Low = sum.Mean - math.Hypot(e.Mean-e.Low, o.Mean-o.Low)
	sum.High = sum.Mean + math.Hypot(e.High-e.Mean, o.High-o.Mean)
	if sum.Mean > 0 {
		sum.Share = (e.Mean*e.Share + o.Mean*o.Share) / sum.Mean
	}
	return sum
}

// nowcasted are the rows of Dimensions that are nowcast, those that are forecast: indices, in order. Window.Nowcast has
// one Estimate for each.
var nowcasted = func() (rows []int) {
	for i := range Dimensions {
		if Dimensions[i].Forecast {
			Dimensions[i].nowcast = len(rows)
			rows = append(rows, i)
		}
	}
	return rows
}()

// Expected is what each of Dimensions will come to, NaN where that is not known. Those that have no nowcast of their own are
// taken to be reported as requests are.
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

// Now is what the dimension of a window will come to when all of its records are in; ok is false when that is not known.
// For a settled window, and for dimensions that are not forecast, it is the Value.
func (d *Dimension) Now(w *Window) (e Estimate, ok bool) {
	if d.Forecast && w.Nowcast != nil {
		e = w.Nowcast[d.nowcast]
		return e, !math.IsNaN(e.Mean)
	}
	value, ok := d.Value(w)
	return complete(value), ok
}
