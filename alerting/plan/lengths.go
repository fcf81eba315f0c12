package plan

import "math"

// Contexts are percentiles of the tokens that a request holds at its end; 0 where they are not known.
type Contexts struct{ P50, P95, Longest float64 }

// Distribution is a distribution of lengths in tokens, by bins of 2 %. The zero value is empty.
type Distribution struct {
	bins  [1050]float64
	total float64
}

const binsPerUnit = 50 // of the natural logarithm

// Add counts a length as often as weight says; both must be at least 0.
func (d *Distribution) Add(tokens, weight float64) {
	d.bins[min(int(binsPerUnit*math.Log1p(tokens)), len(d.bins)-1)] += weight
	d.total += weight
}

// AddLengths counts lengths of which two percentiles are known.
func (d *Distribution) AddLengths(l Lengths, weight float64) {
	const points = 32
	for i := range points {
		d.Add(l.quantile((float64(i)+.5)/points), weight/points)
	}
}

// Quantile is 0 where nothing was counted.
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

// ContextsOf are percentiles over the requests of all classes together. Prompts and outputs of a class are taken as
// independent. Cost O(1) a class.
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
