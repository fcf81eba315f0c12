package capacity

import (
	"math"
	"slices"
)

// PrefillSums are sums over the requests of one minute: how many, their prompt tokens x to prefill, their seconds t from leaving
// the queue to the first token, and Σx², Σx·t.
type PrefillSums struct {
	N, Tokens, Seconds, TokensSq, TokenSeconds float64
}

// prefillBin is what minutes of about the same load showed. Sxx and Sxt are the sums of squares and products of a minute about
// its means; all sums fade.
type prefillBin struct {
	_ struct{} `cbor:",toarray"`

	Minutes                   float64
	Sxx, Sxt                  float64
	SxtSxt, SxtSxx, SxxSxx    float64 // of their squares and products, for the standard error of the slope
	LoadSxx, ReplicasSxx      float64 // load and replicas, weighted by Sxx
	Requests, Tokens, Seconds float64
	Idle                      int // minutes since the newest of these
}

// Constants of the prefill fit. Those without a source were chosen on planted pools, see planted_test.go.
const (
	prefillFade = 0.999  // of what earlier minutes weigh: half in 12 hours, so that a day's quiet and busy hours are compared
	forgotten   = 1500   // minutes of other loads after which what a load showed is dropped: a day
	prefillBins = 32     // of load, a factor of √2 apart, the first around leastLoad
	leastLoad   = 16     // tokens/s
	fewMinutes  = 8      // a bin with fewer is left out
	farOff      = 8      // mean absolute deviations by which a minute's slope may differ before it is left out
	correlated  = 2      // neighbouring minutes err alike: the variance of a mean is so many times as large
	lawError    = 0.02   // relative standard error of the law itself
	waitError   = 0.05   // and of what prompts wait for each other
	busiest     = 0.97   // share of the rate: at more the wait within a minute is no longer that of a steady state
	overload    = 1.1    // share of the rate that minutes may exceed it by
	chi90       = 2.7055 // 90 % quantile of χ² with one degree of freedom
	rateStep    = 1.01   // between the rates that are tried
	tooHigh     = 1.07   // a fit may be so much too high: an iteration costs something beside its tokens
	tooLow      = 1.03   // and so much too low
	contradicts = 4      // χ² by degree of freedom from which loads contradict each other, as for hours after a change of the rate
	widest      = 1.26   // the largest high/low of an interval that counts as known
)

// sharing are the ways in which prompts that are computed at the same time may slow each other down. A prompt takes
// x/R · (1 + share·W) beyond the overhead, with W = W₁^(1−router) · W_c^router: between what processor sharing on each replica
// by itself gives (router 0, prompts spread blindly, W₁ = ρ/(1 − ρ) whatever the distribution; Kleinrock 1976, Queueing Systems
// II, §4.4) and Erlang's wait for c replicas that share all work, which a router to the least busy comes near to (router 1;
// Gupta et al. 2007, doi:10.1016/j.peva.2007.06.012). With share 0 prompts are computed one after the other: then what a
// prompt waits for does not depend on its own length.
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
	st := &s.state
	bin := &st.Loads[min(max(int(2*math.Log2(m.Prefill/leastLoad)+.5), 0), prefillBins-1)]
	st.Prompts = fade*st.Prompts + 1
	if bin.Minutes >= 3 && bin.Sxx > 0 && sxx > 0 {
		// A minute far from what its load showed so far is left out. If such minutes go on, they become usual.
		residual := math.Abs(sxt-bin.Sxt/bin.Sxx*sxx) / math.Sqrt(sxx)
		bound := farOff * st.Residual
		st.Residual += scaleFade * (min(residual, max(bound, sxt/math.Sqrt(sxx)*1e-3)) - st.Residual)
		if residual > bound && bound > 0 {
			return
		}
	}
	for i := range st.Loads {
		st.Loads[i].fade()
	}
	bin.Minutes, bin.Idle = bin.Minutes+1, 0
	bin.Sxx, bin.Sxt = bin.Sxx+sxx, bin.Sxt+sxt
	bin.SxtSxt, bin.SxtSxx, bin.SxxSxx = bin.SxtSxt+sxt*sxt, bin.SxtSxx+sxt*sxx, bin.SxxSxx+sxx*sxx
	bin.LoadSxx, bin.ReplicasSxx = bin.LoadSxx+m.Prefill*sxx, bin.ReplicasSxx+max(m.Replicas, 1)*sxx
	bin.Requests, bin.Tokens, bin.Seconds = bin.Requests+p.N, bin.Tokens+p.Tokens, bin.Seconds+p.Seconds
}

func (b *prefillBin) fade() {
	if b.Idle++; b.Minutes == 0 || b.Idle > forgotten {
		*b = prefillBin{}
		return
	}
	for _, v := range [...]*float64{
		&b.Minutes, &b.Sxx, &b.Sxt, &b.SxtSxt, &b.SxtSxx, &b.SxxSxx, &b.LoadSxx, &b.ReplicasSxx, &b.Requests, &b.Tokens, &b.Seconds,
	} {
		*v *= prefillFade
	}
}

// prefillPoint is what one load showed: seconds that a prompt takes longer for each token, and their variance.
type prefillPoint struct{ load, replicas, slope, variance float64 }

func (s *Service) prefillPoints() (points []prefillPoint) {
	for i := range s.state.Loads {
		b := &s.state.Loads[i]
		if b.Minutes < fewMinutes || !(b.Sxx > 0) {
			continue
		}
		slope := b.Sxt / b.Sxx
		scores := max(b.SxtSxt-2*slope*b.SxtSxx+slope*slope*b.SxxSxx, 0)
		points = append(points, prefillPoint{
			load: b.LoadSxx / b.Sxx, replicas: b.ReplicasSxx / b.Sxx, slope: slope,
			variance: correlated * scores / (b.Sxx * b.Sxx),
		})
	}
	// What prompts wait for each other is less sure the longer it is.
	least := math.Inf(1)
	for _, p := range points {
		least = min(least, math.Abs(p.slope))
	}
	for i := range points {
		p := &points[i]
		doubt := lawError*p.slope + waitError*(p.slope-least)*p.slope/least
		p.variance += doubt * doubt
	}
	return points
}

// leastSlope is in seconds a token: 100 M tokens/s are beyond any replica, so less is an error of rounding, of prompts that all took
// as long as each other.
const leastSlope = 1e-8

// prefillRate is the rate R at which a replica computes prompts. Its interval has every R for which some way of sharing explains
// the slopes at all loads about as well as the best does. ok is false where that leaves too much open.
func (s *Service) prefillRate() (e Estimate, ok bool) {
	points := s.prefillPoints()
	least, most := math.Inf(1), 0.0
	for _, p := range points {
		if p.slope > leastSlope {
			margin := 2 * math.Sqrt(p.variance)
			least, most = min(least, .8/(p.slope+margin)), max(most, 1.25*(p.load+1/max(p.slope-margin, p.slope/4)))
		}
	}
	type trial struct{ rate, misfit float64 }
	var trials []trial
	best := math.Inf(1)
	for rate := least; rate <= most; rate *= rateStep {
		t := trial{rate, prefillMisfit(points, rate)}
		best = min(best, t.misfit)
		trials = append(trials, t)
	}
	each := best / max(float64(len(points)-2), 1)
	if each > contradicts {
		return e, false
	}
	limit := best + chi90*max(1, each)
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

// prefillMisfit is the χ² of a rate under the way of sharing that suits it best.
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
			off := p.slope - (1+wait)/rate
			sums[i] += off * off / p.variance
		}
	}
	return slices.Min(sums[:])
}
