package forecaster

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// numSerials are the sequences whose dependence over time is followed: hits at each level, then the difference of loss
// against each baseline.
const numSerials = NumLevels + NumBaselines

// serials holds sums over sequences of outcomes from which their means' variance follows although outcomes of origins
// less than a horizon apart share minutes: the long-run variance with Bartlett's weights 1 − |k|/h (Newey and West 1987,
// doi:10.2307/1913610), k in minutes between origins, so that origins need not be evenly spaced.
type serials struct {
	lag         int64       // h: origins this many minutes apart share nothing
	recent      []serialRow // of the last h − 1 minutes, by origin
	of          [numSerials]serial
	first, last int64
	n           int
}

type serialRow struct {
	origin int64
	of     [numSerials]float64 // NaN is left out
}

// serial are the sums of one sequence x: over outcomes, and over pairs with weight w.
type serial struct {
	n             float64
	sum, squares  float64
	pairs         float64 // Σw
	both, product float64 // Σw·(x+x'), Σw·x·x'
}

func (s *serials) add(x serialRow) {
	if s.n == 0 {
		s.first = x.origin
	}
	s.n++
	s.last = x.origin
	gone := 0
	for gone < len(s.recent) && s.recent[gone].origin <= x.origin-s.lag {
		gone++
	}
	s.recent = append(s.recent[:0], s.recent[gone:]...)
	for i, v := range x.of {
		if math.IsNaN(v) {
			continue
		}
		m := &s.of[i]
		m.n++
		m.sum += v
		m.squares += v * v
		for j := range s.recent {
			r := &s.recent[j]
			u := r.of[i]
			if math.IsNaN(u) {
				continue
			}
			w := 1 - float64(x.origin-r.origin)/float64(s.lag)
			m.pairs += w
			m.both += w * (u + v)
			m.product += w * u * v
		}
	}
	if s.lag > 1 {
		s.recent = append(s.recent, x)
	}
}

// mean of sequence i and the variance of that mean; NaN when there is none.
func (s *serials) mean(i int) (mean, variance float64) {
	m := &s.of[i]
	mean = ratio(m.sum, m.n)
	own := m.squares - m.n*mean*mean
	cross := m.product - mean*m.both + mean*mean*m.pairs
	return mean, math.Max(0, own+2*cross) / (m.n * m.n)
}

// overlap is the horizon in steps from origin to origin, rounded up: how many forecasts look at the same minute.
func (s *serials) overlap() int {
	if s.n < 2 || s.last == s.first {
		return 1
	}
	step := float64(s.last-s.first) / float64(s.n-1)
	return max(1, int(math.Ceil(float64(s.lag)/step)))
}

// Comparison is how forecasts did against one baseline, on the outcomes that both forecast.
type Comparison struct {
	N     int
	Skill float64 // 1 − mean pinball over that of the baseline: 0 is no better, negative worse
	// DM is the Diebold–Mariano statistic of the mean pinball, negative when the forecasts are better than the baseline,
	// and P the two-sided probability of one as far from zero when neither is better. NaN where there is too little.
	DM, P float64
}

// Against compares with baseline b: the test of Diebold and Mariano (1995, doi:10.1080/07350015.1995.10524599) on the
// difference of losses, its variance that of serials, with the small-sample correction and the Student distribution of
// Harvey, Leybourne and Newbold (1997, doi:10.1016/S0169-2070(96)00719-4).
func (a *Accumulator) Against(b Baseline) Comparison {
	mean, variance := a.serials.mean(NumLevels + int(b))
	n := a.serials.of[NumLevels+int(b)].n
	c := Comparison{N: int(n), Skill: math.NaN(), DM: math.NaN(), P: math.NaN()}
	if n == 0 {
		return c
	}
	c.Skill = a.share(-mean*n, a.rivalLoss[b])
	h := float64(a.serials.overlap())
	if correction := (n + 1 - 2*h + h*(h-1)/n) / n; variance > 0 && correction > 0 && n > 2 {
		c.DM = mean / math.Sqrt(variance) * math.Sqrt(correction)
		c.P = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.CDF(-math.Abs(c.DM))
	}
	return c
}
