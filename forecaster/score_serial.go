package forecaster

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// numSerials is the number of sequences: hits at each level, and the difference of loss to each baseline.
const numSerials = NumLevels + NumBaselines

// serials has sums over sequences of outcomes for the variance of their means. Outcomes of origins less than a horizon
// apart share minutes, so it is the long-run variance with Bartlett's weights 1 − |k|/h (Newey and West 1987,
// doi:10.2307/1913610). k is in minutes between origins, which need not be evenly spaced.
type serials struct {
	lag         int64       // h in minutes
	recent      []serialRow // of the last h − 1 minutes, by origin
	of          [numSerials]serial
	first, last int64
	n           int
}

type serialRow struct {
	origin int64
	of     [numSerials]float64 // NaN is skipped
}

// serial has the sums of one sequence x: over outcomes, and over pairs with weight w.
type serial struct {
	n                    float64
	sum, squares         float64
	pairs                float64 // Σw
	weightedSum, product float64 // Σw·(x+x'), Σw·x·x'
}

func (s *serials) add(x serialRow) {
	if s.n == 0 {
		s.first = x.origin
	}
	s.n++
	s.last = x.origin
	expired := 0
	for expired < len(s.recent) && s.recent[expired].origin <= x.origin-s.lag {
		expired++
	}
	s.recent = append(s.recent[:0], s.recent[expired:]...)
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
			m.weightedSum += w * (u + v)
			m.product += w * u * v
		}
	}
	if s.lag > 1 {
		s.recent = append(s.recent, x)
	}
}

// mean of sequence i and its variance; NaN if there is none.
func (s *serials) mean(i int) (mean, variance float64) {
	m := &s.of[i]
	mean = ratio(m.sum, m.n)
	own := m.squares - m.n*mean*mean
	cross := m.product - mean*m.weightedSum + mean*mean*m.pairs
	return mean, math.Max(0, own+2*cross) / (m.n * m.n)
}

// overlap is the horizon in steps between origins, rounded up: the number of forecasts of a minute.
func (s *serials) overlap() int {
	if s.n < 2 || s.last == s.first {
		return 1
	}
	step := float64(s.last-s.first) / float64(s.n-1)
	return max(1, int(math.Ceil(float64(s.lag)/step)))
}

// Comparison of forecasts with one baseline, on outcomes that both forecast.
type Comparison struct {
	N     int
	Skill float64 // 1 − mean pinball over that of the baseline: 0 is no better, negative worse
	// DM is the Diebold–Mariano statistic of the mean pinball, negative if the forecasts are better than the baseline.
	// P is the two-sided probability of a value as far from zero if both are equal. NaN with too few outcomes.
	DM, P float64
}

// Against compares with baseline b: the test of Diebold and Mariano (1995, doi:10.1080/07350015.1995.10524599) on the
// difference of losses, with the variance of serials, and the small-sample correction and Student distribution of
// Harvey, Leybourne and Newbold (1997, doi:10.1016/S0169-2070(96)00719-4).
func (a *Accumulator) Against(b Baseline) Comparison {
	mean, variance := a.serials.mean(NumLevels + int(b))
	n := a.serials.of[NumLevels+int(b)].n
	c := Comparison{N: int(n), Skill: math.NaN(), DM: math.NaN(), P: math.NaN()}
	if n == 0 {
		return c
	}
	c.Skill = a.share(-mean*n, a.baselineLoss[b])
	h := float64(a.serials.overlap())
	if correction := (n + 1 - 2*h + h*(h-1)/n) / n; variance > 0 && correction > 0 && n > 2 {
		c.DM = mean / math.Sqrt(variance) * math.Sqrt(correction)
		c.P = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.CDF(-math.Abs(c.DM))
	}
	return c
}
