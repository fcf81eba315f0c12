package features

import "math"

// prior is what a pool knows of its reporting delay at one age, for its classes: a hazard, and how many steps of a
// value (see reporting.quantum) that is worth.
//
// It is the empirical Bayes prior of the hazards of classes: they scatter about a mean μ with the variance τ² = μ(1−μ)/(s+1)
// of a beta distribution, which weighs as much as s steps seen. So where classes report alike, a young one is held to
// their delay, and where every class has a delay of its own, as it has when their outputs differ in length, a few steps
// of its own outweigh the prior. The mean is of classes and not of records: the next class is no likelier to be like a
// busy one than like any other.
type prior struct{ hazard, steps float64 }

const (
	usualSteps   = 30.0 // worth of a prior before classes have shown how much they differ …
	usualClasses = 3.0  // … and how many classes that belief is worth
	mostSteps    = 300.0
)

// priorFit takes what each class knows, and finds the prior by the method of moments with general weights (Kleinman 1973,
// doi:10.1080/01621459.1973.10481332; DerSimonian and Kacker 2007, doi:10.1016/j.cct.2006.04.004, equation 6). A class that has
// seen n steps weighs w = n/(n+usualSteps): those that have seen much weigh the same, however much it is. O(1).
type priorFit struct {
	weight, square     float64 // Σw, Σw²
	sum, sumSquares    float64 // Σwg, Σwg²
	noise, noiseSquare float64 // Σw/n, Σw²/n
}

func (l *priorFit) add(hazard, steps float64) {
	if !(steps > 0) {
		return
	}
	w := steps / (steps + usualSteps)
	l.weight += w
	l.square += w * w
	l.sum += w * hazard
	l.sumSquares += w * hazard * hazard
	l.noise += w / steps
	l.noiseSquare += w * w / steps
}

// prior is the fitted prior; the pool's own hazard counts as that of one class.
func (l *priorFit) prior(pool float64) prior {
	mean := (l.sum + pool) / (l.weight + 1)
	scale := mean * (1 - mean)
	if !(scale > 0) || !(l.weight > 0) {
		return prior{mean, usualSteps}
	}
	own := l.sum / l.weight
	misfit := (l.sumSquares-l.weight*own*own)/scale - (l.noise - l.noiseSquare/l.weight)
	classes := l.weight - l.square/l.weight
	share := (misfit + usualClasses/(usualSteps+1)) / (classes + usualClasses) // τ²/μ(1−μ) = 1/(s+1)
	return prior{mean, math.Min(1/math.Max(share, 1e-9)-1, mostSteps)}.atLeast(1)
}

func (l prior) atLeast(steps float64) prior {
	l.steps = math.Max(l.steps, steps)
	return l
}
