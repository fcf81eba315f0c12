package forecaster

import "math"

// Learning constants, picked on origins in the second third of seven public traces. Half the memory of errors, or steps
// in their tails up to twice as long, lose 1 % on series with flat steps and gain nothing elsewhere but on traces of a
// day; four times as long, 2 %.
const (
	residualMemory   = 2000    // outcomes: a day and a half
	minSparsity      = 0.1     // of the standard normal's: keeps a quantile moving where residuals collapsed
	maxSparsity      = 4       // likewise: keeps a lone outlier from throwing a tail
	residualSparsity = 1       // the same for the errors of a series that learns alone
	forget           = 0.99995 // memory of the aggregation, per minute: two weeks
	fixedShare       = 0.02    // weight spread evenly, so that an expert can come back
)

// mixture turns what the experts say of one target into one distribution. For each expert it tracks the quantiles of the
// expert's own errors, and for each quantile level it weights the experts by polynomially weighted averages with a rate
// for each, ML-Poly, of their regrets (Gaillard, Stoltz and van Erven 2014, arXiv:1402.2044, §3.1), with forgetting. Losses
// are linearised pinball, one set of weights per level (Berrisch and Ziel 2023, doi:10.1016/j.jeconom.2021.11.008).
// Exponential weights with second-order rates (BOA) lost 2 % to it: bursty series have single losses a hundred times
// the usual one, which hold their rates down for days. O(experts × levels) per outcome, 2.6 KiB.
type mixture struct {
	Residual [numExperts]figures // where outcomes lie on the expert's own axis
	Seen     [numExperts]float32 // outcomes the residuals have learned from
	Worth    float32             // how many outcomes the residuals are worth that it started with

	Regret   [numExperts]figures // by which the combination lost to the expert, in units of the usual size
	Variance [numExperts]figures // sum of the squares of what Regret adds up

	Outcomes float32 // of the combination, counted up to a day of them
	Lean     leans   // towards the last value

	Shift Quantiles // calibration offset per level, in units of the spread

	Silence silences
}

// figures are a number per level, kept in little room.
type figures [NumLevels]float32

func (f *figures) wide() (q Quantiles) {
	for i, x := range f {
		q[i] = float64(x)
	}
	return q
}

func narrow(q *Quantiles) (f figures) {
	for i, x := range q {
		f[i] = float32(x)
	}
	return f
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

func newMixture() (m mixture) {
	m.Worth = ownOutcomes
	for e := range catalog {
		q := catalog[e].residuals()
		m.Residual[e] = narrow(&q)
	}
	return m
}

// points are what the experts say of one target, on the square-root scale: a point, or the median of a distribution; NaN
// where the expert sleeps. And the spreads of the series when they said so.
type points struct {
	z      [numExperts]float32
	spread spreads
	axis   [numDistributions]axis
	// mixed is what the combination made of them at the time, calibrated, and cleared in silence: what it would make of them
	// once the outcome is known has learned from minutes on the way there. The first is NaN when it made nothing.
	mixed figures
}

// expert is the distribution that expert e alone gives.
func (m *mixture) expert(e int, p *points) (q Quantiles) {
	q = m.Residual[e].wide()
	if a := models[catalog[e].model].axis; a > 0 {
		for i, x := range q {
			q[i] = unroot(p.axis[a-1].at(x, p.spread.least()))
		}
		return q
	}
	z := float64(p.z[e])
	for i, x := range q {
		if catalog[e].plain {
			q[i] = math.Max(0, z*z+p.plainUnit()*x)
		} else {
			q[i] = unroot(z + p.spread.mixed()*x)
		}
	}
	return q
}

// residual is where outcome y lies on the axis of expert e: the number of its spreads away from its point, or the
// standard normal score that its distribution gives y: a range of them where the distribution has an atom at y.
func (p *points) residual(e int, y float64) (from, to float64) {
	if a := models[catalog[e].model].axis; a > 0 {
		return p.axis[a-1].span(math.Sqrt(y), p.spread.least())
	}
	z := float64(p.z[e])
	r := (math.Sqrt(y) - z) / p.spread.mixed()
	if catalog[e].plain {
		r = (y - z*z) / p.plainUnit()
	}
	return r, r
}

// plainUnit is the day's spread about the day's mean on the plain scale: dy = 2√y·d√y.
func (p *points) plainUnit() float64 { return 2 * float64(p.spread.Day) * float64(p.spread.Root) }

// leanFrom takes q, which is what the combination says, as far towards the last value as it leans; p keeps what it was.
func (m *mixture) leanFrom(p *points, q *Quantiles) {
	p.mixed = narrow(q)
	if !isNaN(p.z[lastExpert]) {
		last := m.expert(lastExpert, p)
		*q = m.Lean.of(p.spread.Quiet).toward(q, &last)
		q.Sort()
	}
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

// weights are the experts' shares at one level; those of sleepers are 0. An expert weighs as much as the combination lost
// to it, over the squares of what it won and lost; while the combination lost to none, all weigh as at the start, and those
// weights keep a share: little, or that of the outcomes that an expert has at stake among those that came.
func (m *mixture) weights(p *points, i int) (w [numExperts]float64) {
	sum, prior, share := 0.0, 0.0, fixedShare
	for e := range catalog {
		if isNaN(p.z[e]) {
			continue
		}
		prior += catalog[e].weight()
		share = max(share, m.staked(e, i))
		w[e] = m.earned(e, i)
		sum += w[e]
	}
	if sum == 0 {
		sum, share = 1, 1
	}
	for e := range catalog {
		if !isNaN(p.z[e]) {
			w[e] = (1-share)*w[e]/sum + share*catalog[e].weight()/prior
		}
	}
	return w
}

// earned is what an expert weighs at one level by what it won and lost.
func (m *mixture) earned(e, i int) float64 {
	if r, v := m.Regret[e][i], m.Variance[e][i]; r > 0 && v > 0 {
		return float64(r) / float64(v)
	}
	return 0
}

// doubt is how many standard errors an expert with a stake must have lost by for its share to shrink. Forecasts of
// consecutive minutes have much of their errors in common, so that it takes more than the usual three.
const doubt = 8

// staked is the share of the weights at one level that stays as at the start for the sake of an expert that has outcomes at
// stake: less where it has clearly lost to the combination.
func (m *mixture) staked(e, i int) float64 {
	stake := catalog[e].stake
	if stake == 0 {
		return 0
	}
	share := stake / (stake + float64(m.Seen[e]))
	if r, v := float64(m.Regret[e][i]), doubt*doubt*float64(m.Variance[e][i]); r < 0 && r*r > v {
		share *= v / (r * r)
	}
	return share
}

// combine is the distribution by weights, before calibration; ok is false when every expert sleeps.
func (m *mixture) combine(p *points, x *[numExperts]Quantiles) (q Quantiles, ok bool) {
	var awake [numExperts]int
	n, prior := 0, 0.0
	for e := range catalog {
		if isNaN(p.z[e]) {
			continue
		}
		awake[n] = e
		n++
		prior += catalog[e].weight()
	}
	if n == 0 {
		return q, false
	}
	for i := range q {
		sum, won, given, share := 0.0, 0.0, 0.0, fixedShare
		for _, e := range awake[:n] {
			share = max(share, m.staked(e, i))
			if w := m.earned(e, i); w > 0 {
				sum += w
				won += w * x[e][i]
			}
			given += catalog[e].weight() * x[e][i]
		}
		if sum == 0 {
			q[i] = given / prior
			continue
		}
		q[i] = (1-share)*won/sum + share*given/prior
	}
	return q, true
}

// learn takes outcome y of a forecast made from p; scale is the series' usual size, which makes losses of loud and quiet
// series comparable.
func (m *mixture) learn(p *points, y, scale float64) {
	all := m.experts(p)
	agg, ok := m.combine(p, &all)
	if !ok {
		return
	}
	m.Outcomes = min(m.Outcomes+1, 1440)
	if !isNaN(p.z[lastExpert]) && !isNaN(p.mixed[0]) {
		mixed := p.mixed.wide()
		m.Lean.learn(p.spread.Quiet, y, scale, &mixed, &all[lastExpert])
	}
	for e := range catalog {
		if isNaN(p.z[e]) {
			continue
		}
		for i, tau := range Levels {
			slope := -tau
			if y < agg[i] {
				slope++
			}
			won := -slope * (all[e][i] - agg[i]) / scale
			m.Regret[e][i] = float32(forget*float64(m.Regret[e][i]) + won)
			m.Variance[e][i] = float32(forget*float64(m.Variance[e][i]) + won*won)
		}
		if !catalog[e].fixed {
			from, to := p.residual(e, y)
			m.track(e, from, to)
		}
	}
}

// track moves the residual quantiles of expert e towards a residual that lies between from and to.
func (m *mixture) track(e int, from, to float64) {
	q := m.Residual[e].wide()
	young := max(float64(m.Seen[e]+m.Worth), float64(m.Seen[e])+catalog[e].stake)
	followRange(&q, from, to, max(1.0/residualMemory, 1/young), residualSparsity)
	m.Residual[e] = narrow(&q)
	m.Seen[e]++
}

// follow moves quantiles towards r: a stochastic approximation whose step at each level is the inverse of the density
// there, read off the neighbouring quantiles, over the number of outcomes remembered (Tierney 1983,
// doi:10.1137/0904048). So all levels remember alike; a common step would leave the tails behind.
func follow(q *Quantiles, r, gain, most float64) { followRange(q, r, r, gain, most) }

// followRange moves quantiles as it would on average towards residuals drawn from the part of a standard normal between
// from and to: an outcome in an atom says nothing of where in the atom it lies (randomised PIT: Czado, Gneiting and Held
// 2009, doi:10.1111/j.1541-0420.2009.01191.x, §2).
func followRange(q *Quantiles, from, to, gain, most float64) {
	step := steps(q, gain, most)
	for i, tau := range Levels {
		switch x := q[i]; {
		case to < x:
			q[i] -= step[i] * (1 - tau)
		case from >= x:
			q[i] += step[i] * tau
		default:
			below := (phi(x) - phi(from)) / (phi(to) - phi(from))
			q[i] += step[i] * (tau - below)
		}
	}
	ascend(q)
}

// phi is the standard normal distribution function.
func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// steps are gain times the inverse density at each quantile, at most so many times that of the standard normal.
func steps(q *Quantiles, gain, most float64) (step Quantiles) {
	for i := range step {
		lo, hi := max(i-1, 0), min(i+1, NumLevels-1)
		sparsity := (q[hi] - q[lo]) / (Levels[hi] - Levels[lo])
		step[i] = gain * min(max(sparsity, minSparsity*gaussianSparsity[i]), most*gaussianSparsity[i])
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

// unroot inverts the square root on which errors are measured; what is below zero is zero.
func unroot(z float64) float64 {
	if z <= 0 {
		return 0
	}
	return z * z
}

func isNaN(x float32) bool { return x != x }
