package plan

import "math"

// Contexts are percentiles of the tokens of a request at its end; 0 if unknown.
type Contexts struct{ P50, P95, Longest float64 }

// Distribution is a histogram of lengths in tokens, with bins of 2 %. The zero value is empty.
type Distribution struct {
	bins  [1050]float64
	total float64
}

const binsPerUnit = 50 // of the natural logarithm

// Add counts a length with a weight; both must be at least 0.
func (d *Distribution) Add(tokens, weight float64) {
	d.bins[min(int(binsPerUnit*math.Log1p(tokens)), len(d.bins)-1)] += weight
	d.total += weight
}

// AddLengths counts lengths with two known percentiles.
func (d *Distribution) AddLengths(l Lengths, weight float64) {
	const points = 32
	for i := range points {
		d.Add(l.quantile((float64(i)+.5)/points), weight/points)
	}
}

// Quantile is 0 if the distribution is empty.
func (d *Distribution) Quantile(q float64) float64 {
	if !(d.total > 0) {
		return 0
	}
	at, left := 0, q*d.total
	for at < len(d.bins)-1 && left > d.bins[at] {
		left -= d.bins[at]
		at++
	}
	return math.Expm1((float64(at) + left/d.bins[at]) / binsPerUnit)
}

// quantile of a lognormal distribution.
func (d Lengths) quantile(q float64) float64 {
	if d.P50 == 0 {
		return 0
	}
	return d.P50 * math.Exp(d.sigma()*math.Sqrt2*math.Erfinv(2*q-1))
}

// ClassLengths are the lengths of prompts and outputs of a class.
type ClassLengths struct{ Prompt, Output Distribution }

// ContextsOf are percentiles over the requests of all classes, assuming that prompts and outputs of a class are
// independent. O(1) a class.
func ContextsOf(classes []*ClassLengths) Contexts {
	const points = 32
	var all Distribution
	for _, c := range classes {
		weight := max(c.Prompt.total, c.Output.total) / (points * points)
		for i := range points {
			prompt := c.Prompt.Quantile((float64(i) + .5) / points)
			for j := range points {
				all.Add(prompt+c.Output.Quantile((float64(j)+.5)/points), weight)
			}
		}
	}
	return Contexts{P50: all.Quantile(.5), P95: all.Quantile(.95)}
}
