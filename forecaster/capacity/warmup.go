package capacity

import (
	"math"
	"slices"
	"time"
)

// Bounds on what is remembered of warm-ups.
const (
	warmupWindow = 12             // newest observations that count, so that a change of the lag is learned after about ten starts
	maxWaits     = 64             // replicas whose wait counts
	maxWarmup    = 24 * time.Hour // a longer warm-up is treated as failed
	maxWaiting   = time.Hour      // a longer wait counts as this one: the replica may never come
)

// The prior counts as priorWeight observations, reduced by priorFade with each real one. Its spread always counts as at
// least spreadWeight observations, so that a few equal lags are not treated as constant.
const (
	priorWeight  = 10
	priorFade    = 0.9
	spreadWeight = 2
)

// Warmup is the distribution of the lag between the request for a replica and its readiness. It is lognormal, from a
// prior with a median and a 90th percentile, and from the newest observations. Copies are independent.
type Warmup struct {
	Observed []time.Duration `cbor:"1,keyasint"` // oldest first, at most 12
	Seen     int             `cbor:"2,keyasint"` // number of all observations; they reduce the prior

	prior lognormal
	fit   lognormal // of prior, observations and the waits of [Warmup.Given]
}

// lognormal are the mean and standard deviation of ln seconds.
type lognormal struct{ mu, sigma float64 }

// Z90 is the 0.9 quantile of the standard normal distribution.
const Z90 = 1.2815515655446004

// NewWarmup is the prior with the given median and 90th percentile, 0 < p50 ≤ p90: µ = ln p50, σ = ln(p90/p50)/z(0.9).
// Equal percentiles make a constant lag.
func NewWarmup(p50, p90 time.Duration) Warmup {
	prior := lognormal{math.Log(p50.Seconds()), math.Log(p90.Seconds()/p50.Seconds()) / Z90}
	return Warmup{prior: prior, fit: prior}
}

// Observe adds a completed warm-up. It ignores lags that are not positive or longer than a day. O(observations).
func (w *Warmup) Observe(d time.Duration) {
	if d <= 0 || d > maxWarmup {
		return
	}
	kept := append(slices.Clone(w.Observed), d)
	w.Observed = kept[max(0, len(kept)-warmupWindow):]
	w.Seen++
	w.fit = w.pooled(w.Observed)
}

// With is w with the observations of another Warmup, such as a saved one, which has no prior.
func (w Warmup) With(learned Warmup) Warmup {
	w.Observed, w.Seen = learned.Observed, learned.Seen
	w.fit = w.pooled(w.Observed)
	return w
}

// Given is the distribution with the waits of replicas that are not ready yet. A wait longer than the median lag counts
// as a lag: it is a lower bound of one, so the distribution grows before a slow replica is ready. Only the newest 64 waits
// count, each as an hour at most.
func (w Warmup) Given(waiting []time.Duration) Warmup {
	lags, median := slices.Clone(w.Observed), w.Quantile(.5)
	for _, d := range waiting[max(0, len(waiting)-maxWaits):] {
		if d > median {
			lags = append(lags, min(d, maxWaiting))
		}
	}
	w.fit = w.pooled(lags)
	return w
}

// pooled combines prior and observations by the conjugate normal model (Gelman et al., Bayesian Data Analysis, 3rd ed.,
// §3.3): with k the weight of the prior and n lags of mean m and sum of squares S about it,
//
//	µ  = (k·µ₀ + n·m)/(k + n)
//	σ² = (ν·σ₀² + S + k·n/(k + n)·(m − µ₀)²)/(ν + n)
//
// ν is max(k, 2), or k if σ₀ = 0.
func (w *Warmup) pooled(lags []time.Duration) lognormal {
	n := float64(len(lags))
	if n == 0 {
		return w.prior
	}
	mean, squares := 0.0, 0.0 // of ln seconds; squares about the mean
	for _, d := range lags {
		mean += math.Log(d.Seconds()) / n
	}
	for _, d := range lags {
		off := math.Log(d.Seconds()) - mean
		squares += off * off
	}
	k := priorWeight * math.Pow(priorFade, float64(w.Seen))
	freedom := max(k, spreadWeight)
	if w.prior.sigma == 0 {
		freedom = k // a constant prior has no spread
	}
	shift := mean - w.prior.mu
	variance := (freedom*w.prior.sigma*w.prior.sigma + squares + k*n/(k+n)*shift*shift) / (freedom + n)
	return lognormal{(k*w.prior.mu + n*mean) / (k + n), math.Sqrt(variance)}
}

// Quantile is the lag at level p, 0 < p < 1, rounded to a millisecond.
func (w *Warmup) Quantile(p float64) time.Duration {
	s := math.Exp(w.fit.mu + w.fit.sigma*math.Sqrt2*math.Erfinv(2*p-1))
	return time.Duration(min(s, maxWarmup.Seconds()) * float64(time.Second)).Round(time.Millisecond)
}

// ReadyBy is the probability that a replica, requested at requested and not ready at now, is ready at t: 1 −
// S(t)/S(now) with S the survival function of the lag; 0 for t ≤ now. It is low for an overdue replica, because the
// lognormal's hazard falls in the tail.
func (w *Warmup) ReadyBy(requested, now, t time.Time) float64 {
	if !t.After(now) {
		return 0
	}
	alive := w.survival(now.Sub(requested))
	if alive <= 0 {
		return 1 // a constant lag that is over
	}
	return 1 - w.survival(t.Sub(requested))/alive
}

// survival is P(lag > d).
func (w *Warmup) survival(d time.Duration) float64 {
	if d <= 0 {
		return 1
	}
	x := math.Log(d.Seconds()) - w.fit.mu
	if w.fit.sigma == 0 {
		// Half a millisecond of slack: µ is a rounded logarithm.
		if d.Seconds() < math.Exp(w.fit.mu)-0.0005 {
			return 1
		}
		return 0
	}
	return math.Erfc(x/(w.fit.sigma*math.Sqrt2)) / 2
}
