package features

import "math"

// prior is the pool's prior of its classes' reporting delay at one age: a hazard, and its weight in steps of a value
// (see reporting.quantum).
//
// It is an empirical Bayes prior. The hazards of classes vary about a mean μ with the variance τ² = μ(1−μ)/(s+1) of a
// beta distribution, which weighs as much as s steps. If classes have similar delays, the prior of a young class has
// much weight. If they differ, for example because their outputs differ in length, a few steps of its own outweigh the
// prior. The mean is over classes and not over records, because a new class is as likely to be like a rare one as like
// a busy one.
type prior struct{ hazard, steps float64 }

const (
	usualSteps   = 30.0 // initial weight of a prior in steps …
	usualClasses = 3.0  // … and the weight of that assumption in classes
	maxSteps     = 300.0
)

// priorFit fits the prior to the hazards of classes by the method of moments with general weights (Kleinman 1973,
// doi:10.1080/01621459.1973.10481332; DerSimonian and Kacker 2007, doi:10.1016/j.cct.2006.04.004, equation 6). A class
// with n steps weighs w = n/(n+usualSteps), so that busy classes have nearly equal weight. O(1).
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
	return prior{mean, math.Min(1/math.Max(share, 1e-9)-1, maxSteps)}.atLeast(1)
}

func (l prior) atLeast(steps float64) prior {
	l.steps = math.Max(l.steps, steps)
	return l
}
