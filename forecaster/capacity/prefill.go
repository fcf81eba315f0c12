package capacity

import (
	"math"
	"slices"
)

// prefillBin has sums over minutes of about the same load, which fade. Sxx and Sxt are the sums of squares and products
// of a minute about its means.
type prefillBin struct {
	_ struct{} `cbor:",toarray"`

	Minutes                float64
	Sxx, Sxt               float64
	SxtSxt, SxtSxx, SxxSxx float64 // of their squares and products, for the standard error of the slope
	LoadSxx, ReplicasSxx   float64 // load and replicas, weighted by Sxx
	Idle                   int     // minutes since the newest minute of the bin
}

// Constants of the prefill fit. Those without a source were chosen on simulated pools, see planted_test.go.
const (
	prefillFade = 0.999  // decay of weights per minute: half in 12 hours, so that quiet and busy hours of a day are compared
	maxIdle     = 1500   // minutes of other loads after which a bin is dropped: a day
	prefillBins = 32     // of load, by factors of √2, the first around minLoad
	minLoad     = 16     // tokens/s
	fewMinutes  = 8      // a bin with fewer is left out
	maxOutlier  = 8      // a minute whose slope deviates by more mean absolute deviations is left out
	correlated  = 2      // factor of the variance of a mean, because errors of neighbouring minutes are correlated
	lawError    = 0.02   // relative standard error of the law itself
	waitError   = 0.05   // and of the wait of prompts for each other
	busiest     = 0.97   // share of the rate above which a minute is too short for a steady state
	overload    = 1.1    // largest load over the rate
	chi90       = 2.7055 // 90 % quantile of χ² with one degree of freedom
	rateStep    = 1.01   // factor between the candidate rates
	tooHigh     = 1.07   // largest overestimate of a fit: an iteration has a fixed cost
	tooLow      = 1.03   // largest underestimate of a fit
	contradicts = 4      // χ² per degree of freedom from which loads contradict each other, as for hours after a change of the rate
	widest      = 1.26   // largest high/low of a usable interval
	widestTrial = 1e6    // largest such ratio of the rates that are tried
	minSlope    = 1e-8   // s/token, as 100 M tokens/s are beyond any replica; of prompts of equal time it is a rounding error
)

// sharing are models of the slowdown of concurrent prompts. A prompt takes x/R · (1 + share·W) beyond the overhead,
// with W = W₁^(1−router) · W_c^router. Router 0 is processor sharing on each replica with random routing, W₁ = ρ/(1 −
// ρ) for any distribution (Kleinrock 1976, Queueing Systems II, §4.4). Router 1 is Erlang's wait for c replicas that
// share all work, which is close to routing to the least busy replica (Gupta et al. 2007,
// doi:10.1016/j.peva.2007.06.012). With share 0 prompts are computed one after the other; then the wait does not depend
// on the prompt's length.
var sharing = [...]struct{ share, router float64 }{{0, 0}, {.25, 1}, {.5, 1}, {1, 1}, {1, 2. / 3}, {1, 1. / 3}, {1, 0}}

func (s *Service) observePrefill(m ServiceMinute) {
	p := m.Prompts
	if !(p.N >= minRequests && p.Tokens > 0 && p.Seconds > 0 && m.Prefill > 0) || math.IsInf(p.TokensSq+p.TokenSeconds+m.Prefill, 0) {
		return
	}
	sxx, sxt := p.TokensSq-p.Tokens*p.Tokens/p.N, p.TokenSeconds-p.Tokens*p.Seconds/p.N
	if !(sxx >= 0) || math.IsNaN(sxt) {
		return
	}
	bin := &s.Loads[min(max(int(2*math.Log2(m.Prefill/minLoad)+.5), 0), prefillBins-1)]
	s.PrefillMinutes = fade*s.PrefillMinutes + 1
	if bin.Minutes >= 3 && bin.Sxx > 0 && sxx > 0 {
		// A minute far from the earlier ones of its load is left out, but counts in PrefillMinutes and Residual. So if such
		// minutes continue, they are accepted.
		residual := math.Abs(sxt-bin.Sxt/bin.Sxx*sxx) / math.Sqrt(sxx)
		bound := maxOutlier * s.Residual
		s.Residual += scaleFade * (min(residual, max(bound, sxt/math.Sqrt(sxx)*1e-3)) - s.Residual)
		if residual > bound && bound > 0 {
			return
		}
	}
	for i := range s.Loads {
		s.Loads[i].fade()
	}
	bin.Minutes, bin.Idle = bin.Minutes+1, 0
	bin.Sxx, bin.Sxt = bin.Sxx+sxx, bin.Sxt+sxt
	bin.SxtSxt, bin.SxtSxx, bin.SxxSxx = bin.SxtSxt+sxt*sxt, bin.SxtSxx+sxt*sxx, bin.SxxSxx+sxx*sxx
	bin.LoadSxx, bin.ReplicasSxx = bin.LoadSxx+m.Prefill*sxx, bin.ReplicasSxx+max(m.Replicas, 1)*sxx
}

func (b *prefillBin) fade() {
	b.Idle++
	if b.Minutes == 0 || b.Idle > maxIdle {
		*b = prefillBin{}
		return
	}
	for _, v := range [...]*float64{&b.Minutes, &b.Sxx, &b.Sxt, &b.SxtSxt, &b.SxtSxx, &b.SxxSxx, &b.LoadSxx, &b.ReplicasSxx} {
		*v *= prefillFade
	}
}

// prefillPoint is the measurement at one load: seconds per additional token of a prompt, and their variance.
type prefillPoint struct{ load, replicas, slope, variance float64 }

func (s *Service) prefillPoints() (points []prefillPoint) {
	least := math.Inf(1) // slope, near that of a prompt alone
	for i := range s.Loads {
		b := &s.Loads[i]
		if b.Minutes < fewMinutes || !(b.Sxx > 0) {
			continue
		}
		slope := b.Sxt / b.Sxx
		if math.Abs(slope) < minSlope {
			continue
		}
		least = min(least, math.Abs(slope))
		scores := max(b.SxtSxt-2*slope*b.SxtSxx+slope*slope*b.SxxSxx, 0)
		points = append(points, prefillPoint{
			load: b.LoadSxx / b.Sxx, replicas: b.ReplicasSxx / b.Sxx, slope: slope,
			variance: correlated * scores / (b.Sxx * b.Sxx),
		})
	}
	// The error grows with the wait of prompts for each other.
	for i := range points {
		p := &points[i]
		doubt := lawError*p.slope + waitError*(p.slope-least)*p.slope/least
		p.variance += doubt * doubt
	}
	return points
}

// Prefill is the rate R at which a replica that does only prefill computes prompts, in tokens/s. Its interval has every
// R for which a model of sharing fits the slopes at all loads about as well as the best fit. ok is false before an hour
// of traffic, and if lengths and loads do not determine the rate within 10 %.
func (s *Service) Prefill() (e Estimate, ok bool) {
	if s.PrefillMinutes < minMinutes {
		return e, false
	}
	points := s.prefillPoints()
	least, most := math.Inf(1), 0.0
	for _, p := range points {
		if p.slope > 0 {
			margin := 2 * math.Sqrt(p.variance)
			least, most = min(least, .8/(p.slope+margin)), max(most, 1.25*(p.load+1/max(p.slope-margin, p.slope/4)))
		}
	}
	if !(least > 0 && most <= widestTrial*least) { // else there would be very many trials
		return e, false
	}
	type trial struct{ rate, misfit float64 }
	var trials []trial
	best := math.Inf(1)
	for rate := least; rate <= most; rate *= rateStep {
		t := trial{rate, prefillMisfit(points, rate)}
		best = min(best, t.misfit)
		trials = append(trials, t)
	}
	misfitPerDegree := best / max(float64(len(points)-2), 1)
	if misfitPerDegree > contradicts {
		return e, false
	}
	limit := best + chi90*max(1, misfitPerDegree)
	for _, t := range trials {
		if t.misfit <= limit && !math.IsInf(t.misfit, 1) {
			if e.Low == 0 {
				e.Low = t.rate / tooHigh
			}
			e.High = t.rate * tooLow
		}
	}
	e.Value = math.Sqrt(e.Low * e.High)
	return e, e.Low > 0 && e.High <= widest*e.Low
}

// prefillMisfit is the χ² of a rate for the best model of sharing.
func prefillMisfit(points []prefillPoint, rate float64) float64 {
	var sums [len(sharing)]float64
	for _, p := range points {
		if p.load > overload*rate {
			return math.Inf(1)
		}
		rho := min(p.load/rate, busiest)
		alone, together := math.Log(rho/(1-rho)), math.Log(erlangWait(max(int(p.replicas+.5), 1), rho))
		for i, x := range sharing {
			wait := 0.0
			if x.share > 0 {
				wait = x.share * math.Exp((1-x.router)*alone+x.router*together)
			}
			residual := p.slope - (1+wait)/rate
			sums[i] += residual * residual / p.variance
		}
	}
	return slices.Min(sums[:])
}

// erlangWait is the mean wait in M/M/c divided by the mean service time: C(c, cρ) / (c·(1 − ρ)), +Inf from ρ = 1. C
// follows from Erlang's B by the recursion B(k) = a·B(k−1) / (k + a·B(k−1)), which cannot overflow. O(min(c,
// maxErlangServers)).
func erlangWait(c int, rho float64) float64 {
	if rho >= 1 {
		return math.Inf(1)
	}
	c = min(c, maxErlangServers)
	a, b := float64(c)*rho, 1.0
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b / (1 - rho*(1-b)) / (float64(c) * (1 - rho))
}

// maxErlangServers is a number of servers from which the wait is negligible at any load below 90 %.
const maxErlangServers = 200
