package forecaster

import "math"

// Learning constants. They were first picked by scores on the last third of three public traces; on the first two thirds
// pinball at minutes 15 to 30 changes by at most 1 % with residualGain from 1/2000 to 1/300, calibrationStep from 0.001 to
// 0.004 and priorWidth up to 1.5, so that part neither confirms nor contradicts the choice.
const (
	residualGain = 1.0 / 700 // memory of the residual quantiles: half a day of outcomes
	minSparsity  = 0.1       // of the standard normal's: keeps a quantile moving where residuals collapsed
	maxSparsity  = 4         // likewise: keeps a lone outlier from throwing a tail
	forget       = 0.9997    // memory of the aggregation, per minute: 2.3 days
	fixedShare   = 0.02      // weight spread evenly, so that an expert can come back
	lossMemory   = 1.0 / 1440
)

// mixture turns the experts' point forecasts of one target into one distribution. For each expert it tracks the
// quantiles of the expert's own errors, and for each quantile level it weights the experts by Bernstein online
// aggregation (Wintenberger 2017, doi:10.1007/s10994-016-5592-6) of their pinball losses, one set of weights per level
// (Berrisch and Ziel 2023, doi:10.1016/j.jeconom.2021.11.008). O(experts × levels) per outcome.
type mixture struct {
	Residual [numExperts]Quantiles // where outcomes lie on the expert's own axis
	Seen     [numExperts]float64   // outcomes the residuals have learned from

	Weight   [numExperts]Quantiles // per level; over all experts, asleep or not
	Regret   [numExperts]Quantiles
	Variance [numExperts]Quantiles
	Range    [numExperts]Quantiles

	Loss  [numExperts]float64 // mean pinball of the expert with its residuals, over about a day
	Own   float64             // the same of the calibrated combination
	LossN float64

	Shift Quantiles // calibration offset per level, in units of the spread

	Silence hurdle
}

// gaussian are the standard normal quantiles at Levels, the prior shape of residuals.
var gaussian = Quantiles{-1.6449, -1.2816, -.6745, 0, .6745, .8416, 1.2816, 1.6449, 2.3263}

// gaussianSparsity is the inverse density of the standard normal at gaussian.
var gaussianSparsity = func() (s Quantiles) {
	for i, z := range gaussian {
		s[i] = math.Sqrt(2*math.Pi) * math.Exp(z*z/2)
	}
	return s
}()

const priorWidth = 1.2

func newMixture() mixture {
	var m mixture
	sum := 0.0
	for _, x := range catalog {
		sum += x.weight()
	}
	for e, x := range catalog {
		m.Residual[e] = x.residuals()
		for i := range Levels {
			m.Weight[e][i] = x.weight() / sum
			m.Variance[e][i], m.Range[e][i] = 1e-8, 1e-8
		}
	}
	return m
}

// points are what the experts say of one target, on the square-root scale: a point, or the median of a distribution; NaN
// where the expert sleeps. And the spreads of the series when they said so.
type points struct {
	z      [numExperts]float32
	spread spreads
	axis   [numDistributions]axis
}

// expert is the distribution that expert e alone gives.
func (m *mixture) expert(e int, p *points) (q Quantiles) {
	if a := catalog[e].axis; a > 0 {
		for i := range q {
			q[i] = unroot(p.axis[a-1].at(m.Residual[e][i], p.spread.least()))
		}
		return q
	}
	z := float64(p.z[e])
	spread := p.spread.of(catalog[e].unit, z)
	for i := range q {
		q[i] = unroot(z + spread*m.Residual[e][i])
	}
	return q
}

// residual is where outcome y lies on the axis of expert e: the number of its spreads away from its point, or the
// standard normal score that its distribution gives y.
func (p *points) residual(e int, y float64) float64 {
	if a := catalog[e].axis; a > 0 {
		return p.axis[a-1].score(math.Sqrt(y), p.spread.least())
	}
	z := float64(p.z[e])
	return (math.Sqrt(y) - z) / p.spread.of(catalog[e].unit, z)
}

// experts are the distributions that the experts give, each alone; those of sleepers are not set.
func (m *mixture) experts(p *points) (x [numExperts]Quantiles) {
	for e := range catalog {
		if !isNaN(p.z[e]) {
			x[e] = m.expert(e, p)
		}
	}
	return x
}

// combine is the weighted distribution before calibration; ok is false when every expert sleeps.
func (m *mixture) combine(p *points, x *[numExperts]Quantiles) (q Quantiles, ok bool) {
	var sum Quantiles
	for e := range catalog {
		if isNaN(p.z[e]) {
			continue
		}
		ok = true
		for i := range q {
			q[i] += m.Weight[e][i] * x[e][i]
			sum[i] += m.Weight[e][i]
		}
	}
	for i := range q {
		if sum[i] > 0 {
			q[i] /= sum[i]
		}
	}
	return q, ok
}

// learn takes outcome y of a forecast made from p; scale is the series' usual size, which makes losses of loud and quiet
// series comparable.
func (m *mixture) learn(p *points, y, scale float64) {
	all := m.experts(p)
	agg, ok := m.combine(p, &all)
	if !ok {
		return
	}
	final := m.calibrate(agg, p.spread.mixed())
	var gain [numExperts]Quantiles
	m.LossN = math.Min(m.LossN+1, 1/lossMemory)
	own := 0.0
	for _, i := range ScoredLevels {
		own += Pinball(Levels[i], y, final[i]) / scale
	}
	m.Own += (own - m.Own) / m.LossN
	for e := range catalog {
		if isNaN(p.z[e]) {
			continue
		}
		x := &all[e]
		loss := 0.0
		for _, i := range ScoredLevels {
			loss += Pinball(Levels[i], y, x[i]) / scale
		}
		m.Loss[e] += (loss - m.Loss[e]) / math.Min(m.Seen[e]+1, 1/lossMemory)
		for i, tau := range Levels {
			g := -tau
			if y < agg[i] {
				g++
			}
			gain[e][i] = -g * (x[i] - agg[i]) / scale
		}
		m.track(e, p.residual(e, y))
	}
	for i := range Levels {
		m.reweight(i, p, &gain)
	}
}

// track moves the residual quantiles of expert e towards residual r.
func (m *mixture) track(e int, r float64) {
	gain := max(residualGain, 1/(m.Seen[e]+10))
	follow(&m.Residual[e], r, gain)
	m.Seen[e]++
}

// follow moves quantiles towards r: a stochastic approximation whose step at each level is the inverse of the density
// there, read off the neighbouring quantiles, over the number of outcomes remembered (Tierney 1983,
// doi:10.1137/0904048). So all levels remember alike; a common step would leave the tails behind.
func follow(q *Quantiles, r, gain float64) {
	step := steps(q, gain)
	for i, tau := range Levels {
		if r < q[i] {
			q[i] -= step[i] * (1 - tau)
		} else {
			q[i] += step[i] * tau
		}
	}
	ascend(q)
}

// steps are gain times the inverse density at each quantile.
func steps(q *Quantiles, gain float64) (step Quantiles) {
	for i := range step {
		lo, hi := max(i-1, 0), min(i+1, NumLevels-1)
		sparsity := (q[hi] - q[lo]) / (Levels[hi] - Levels[lo])
		step[i] = gain * min(max(sparsity, minSparsity*gaussianSparsity[i]), maxSparsity*gaussianSparsity[i])
	}
	return step
}

// ascend sorts quantiles that crossed.
func ascend(q *Quantiles) {
	for i := 1; i < NumLevels; i++ {
		for j := i; j > 0 && q[j] < q[j-1]; j-- {
			q[j], q[j-1] = q[j-1], q[j]
		}
	}
}

// reweight is one step of the aggregation at level i: weight ∝ η·exp(η·regret) with a rate η that adapts to the expert's
// own losses. Sleeping experts keep their regret.
func (m *mixture) reweight(i int, p *points, gain *[numExperts]Quantiles) {
	var eta, score [numExperts]float64
	top := math.Inf(-1)
	for e := range catalog {
		v, b := &m.Variance[e][i], &m.Range[e][i]
		if awake := !isNaN(p.z[e]); awake {
			l := -gain[e][i]
			*b = max(*b*forget, math.Abs(l))
			*v = *v*forget + l*l
			eta[e] = min(1/(2**b), math.Sqrt(logExperts / *v))
			m.Regret[e][i] = m.Regret[e][i]*forget - l*(1+eta[e]*l)
		} else {
			eta[e] = min(1/(2**b), math.Sqrt(logExperts / *v))
		}
		score[e] = eta[e] * m.Regret[e][i]
		top = max(top, score[e])
	}
	sum := 0.0
	for e := range score {
		score[e] = eta[e] * math.Exp(score[e]-top)
		sum += score[e]
	}
	for e := range score {
		m.Weight[e][i] = (1-fixedShare)*score[e]/sum + fixedShare/float64(numExperts)
	}
}

var logExperts = math.Log(float64(numExperts))

// unroot inverts the square root on which errors are measured; what is below zero is zero.
func unroot(z float64) float64 {
	if z <= 0 {
		return 0
	}
	return z * z
}

func isNaN(x float32) bool { return x != x }
