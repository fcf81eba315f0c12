package capacity

import (
	"math"
	"slices"
	"time"
)

// warmupWindow is how many observed warm-ups are kept; older ones are forgotten.
const warmupWindow = 64

// priorWeight is the number of observations the configured prior counts for.
const priorWeight = 10

// maxWarmup bounds an observation; what takes longer is a replica that never came, not a slow one.
const maxWarmup = 24 * time.Hour

// Warmup is the distribution of the lag between asking for a replica and having it ready: lognormal, from a prior given
// by its median and 90th percentile and from the newest 64 observations. It is a value: copies are independent.
type Warmup struct {
	mu, sigma float64 // of ln seconds: the prior
	state     WarmupState
}

// WarmupState is what a Warmup learned, oldest first, at most 64.
type WarmupState struct {
	Observed []time.Duration `cbor:"1,keyasint"`
}

// z90 is the 0.9 quantile of the standard normal distribution.
const z90 = 1.2815515655446004

// NewWarmup is the prior with the given median and 90th percentile, 0 < p50 ≤ p90: µ = ln p50, σ = ln(p90/p50)/z(0.9).
// Equal percentiles make a constant lag.
func NewWarmup(p50, p90 time.Duration) Warmup {
	return Warmup{mu: math.Log(p50.Seconds()), sigma: math.Log(p90.Seconds()/p50.Seconds()) / z90}
}

// Observe counts one warm-up that ended. Lags that are not positive or beyond a day are ignored.
func (w *Warmup) Observe(d time.Duration) {
	if d <= 0 || d > maxWarmup {
		return
	}
	kept := w.state.Observed
	if len(kept) == warmupWindow {
		kept = kept[1:]
	}
	w.state.Observed = append(slices.Clone(kept), d)
}

// State is what was observed, for a snapshot.
func (w *Warmup) State() WarmupState { return WarmupState{Observed: slices.Clone(w.state.Observed)} }

// Restore replaces what was observed.
func (w *Warmup) Restore(s WarmupState) {
	w.state = WarmupState{}
	for _, d := range s.Observed {
		w.Observe(d)
	}
}

// parameters are µ and σ of ln seconds, prior and observations pooled as the conjugate normal model does, the prior
// weighing as much as ten observations (Gelman et al., Bayesian Data Analysis, 3rd ed., §3.3).
func (w *Warmup) parameters() (mu, sigma float64) {
	n := float64(len(w.state.Observed))
	if n == 0 {
		return w.mu, w.sigma
	}
	mean, squares := 0.0, 0.0
	for _, d := range w.state.Observed {
		mean += math.Log(d.Seconds()) / n
	}
	for _, d := range w.state.Observed {
		e := math.Log(d.Seconds()) - mean
		squares += e * e
	}
	const k = priorWeight
	shift := mean - w.mu
	variance := (k*w.sigma*w.sigma + squares + k*n/(k+n)*shift*shift) / (k + n)
	return (k*w.mu + n*mean) / (k + n), math.Sqrt(variance)
}

// Quantile is the lag at level p, 0 < p < 1, rounded to a millisecond.
func (w *Warmup) Quantile(p float64) time.Duration {
	mu, sigma := w.parameters()
	s := math.Exp(mu + sigma*math.Sqrt2*math.Erfinv(2*p-1))
	return time.Duration(min(s, maxWarmup.Seconds()) * float64(time.Second)).Round(time.Millisecond)
}

// ReadyBy is the probability that a replica asked for at requested, and not ready at now, is ready at t: 1 − S(t)/S(now)
// with S the survival function of the lag. 0 for t ≤ now. An overdue replica stays doubtful: the lognormal's hazard
// falls in the tail.
func (w *Warmup) ReadyBy(requested, now, t time.Time) float64 {
	if !t.After(now) {
		return 0
	}
	alive := w.survival(now.Sub(requested))
	if alive <= 0 {
		return 1 // a constant lag that is over: ready any moment
	}
	return 1 - w.survival(t.Sub(requested))/alive
}

// survival is P(lag > d).
func (w *Warmup) survival(d time.Duration) float64 {
	if d <= 0 {
		return 1
	}
	mu, sigma := w.parameters()
	x := math.Log(d.Seconds()) - mu
	if sigma == 0 {
		// Half a millisecond of slack: µ is a rounded logarithm.
		if d.Seconds() < math.Exp(mu)-0.0005 {
			return 1
		}
		return 0
	}
	return math.Erfc(x/(sigma*math.Sqrt2)) / 2
}
