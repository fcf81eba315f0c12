package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster/network"
)

func TestPinball(t *testing.T) {
	for _, c := range []struct{ tau, y, q, want float64 }{
		{.9, 10, 8, 1.8}, {.9, 8, 10, .2}, {.5, 3, 3, 0}, {.99, 0, 100, 1},
	} {
		if got := Pinball(c.tau, c.y, c.q); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Pinball(%v, %v, %v) = %v, want %v", c.tau, c.y, c.q, got, c.want)
		}
	}
}

// forecastFrom makes a forecast with q for every minute and top for the window maximum.
func forecastFrom(origin int64, q, top Quantiles) *Forecast {
	f := &Forecast{Origin: time.Unix(60*origin, 0), WindowMax: top}
	for h := range f.Minute {
		f.Minute[h] = q
	}
	return f
}

// flat has all quantiles at x.
func flat(x float64) (q Quantiles) {
	for i := range q {
		q[i] = x
	}
	return q
}

func close(t *testing.T, name string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) < 1e-9) && !(math.IsNaN(got) && math.IsNaN(want)) {
		t.Errorf("%s = %v, want %v", name, got, want)
	}
}

// TestScorerByHand scores three outcomes one minute ahead. The expected values are computed by hand.
func TestScorerByHand(t *testing.T) {
	s := NewScorer(0, 1)
	q := Quantiles{1, 2, 3, 4, 5, 6, 7, 8, 9}
	s.Observe(100, 4)
	for i, y := range []float64{4, 8, 2, math.NaN()} {
		s.Issue(forecastFrom(101+int64(i), q, q))
		s.Observe(101+int64(i), y)
	}
	a := s.Scores[0]
	close(t, "outcomes", float64(a.N), 3)
	close(t, "missing", float64(a.Missing), 1)
	close(t, "mean", a.Mean(), 14.0/3)
	close(t, "WAPE", a.WAPE(), 6.0/14)
	close(t, "bias", a.Bias(), -2.0/14)
	close(t, "relative MAE", a.RelativeMAE(), 6.0/10) // the last value: 4, 4, 8
	// levels .5 .8 .9 .95 .99 at quantiles 4 6 7 8 9
	y4 := 0 + .2*2 + .1*3 + .05*4 + .01*5
	y8 := .5*4 + .8*2 + .9*1 + 0 + .01*1
	y2 := .5*2 + .2*4 + .1*5 + .05*6 + .01*7
	close(t, "pinball", a.MeanPinball(), (y4+y8+y2)/15)
	close(t, "pinball at 90 %", a.loss[L90], .3+.9+.5)
	c := a.Coverage(L90) // 4 and 2 are below 7, 8 is not
	close(t, "coverage", float64(c.Share), 2.0/3)
	close(t, "effective", float64(c.Effective), 3)
	if !(c.Low > 0.2 && c.Low < c.Share && c.High > c.Share && c.High < 0.95) {
		t.Errorf("Wilson's interval of 2 in 3: %+v", c)
	}
	if w := s.Scores[1]; w.Horizon != HorizonWindowMax || w.N != 0 || w.Missing != 0 {
		t.Errorf("%+v", w)
	}
}

// TestCoverageOfConstantLoad: forecasts have rounding errors. A load that is what its quantile says is covered.
func TestCoverageOfConstantLoad(t *testing.T) {
	s := NewScorer(0, 1)
	q := flat(1999.99997)
	for m := range int64(5) {
		s.Issue(forecastFrom(101+m, q, q))
		s.Observe(101+m, 2000)
	}
	close(t, "coverage", float64(s.Scores[0].Coverage(L90).Share), 1)
}

// TestScorerHorizons: each horizon is scored with its own minute, and the window with its maximum. Origins before the
// first one, repeated forecasts and repeated outcomes are ignored.
func TestScorerHorizons(t *testing.T) {
	y := func(m int64) float64 { return float64(m * m % 101) }
	s := NewScorer(150, 5, 60)
	for m := range int64(300) {
		if m >= 100 {
			f := &Forecast{Origin: time.Unix(60*m, 0), WindowMax: flat(0)}
			for h := range f.Minute {
				f.Minute[h] = flat(math.NaN())
			}
			f.Minute[4], f.Minute[59] = flat(y(m+4)), flat(y(m+59))
			for k := m + WindowFrom - 1; k < m+WindowTo; k++ {
				f.WindowMax = flat(max(f.WindowMax[0], y(k)))
			}
			s.Issue(f)
			s.Issue(f)
		}
		s.Observe(m, y(m))
		s.Observe(m-1, 1e6)
	}
	for i, want := range []struct {
		horizon string
		n       int
	}{{"5", 150}, {"60", 141}, {HorizonWindowMax, 150}} {
		a := s.Scores[i]
		if a.Horizon != want.horizon || a.N != want.n || a.Missing != 0 || a.WAPE() != 0 || a.MeanPinball() != 0 {
			t.Errorf("%s: %d outcomes, %d missing, WAPE %v, pinball %v, want %+v", a.Horizon, a.N, a.Missing, a.WAPE(), a.MeanPinball(), want)
		}
	}
	s.Observe(310, 1) // a gap
	if a := s.Scores[0]; a.N != 150 || a.Missing != 4 {
		t.Errorf("%d outcomes, %d missing after a gap", a.N, a.Missing)
	}
}

// TestBaselineBeforeOrigin: the last value, with which forecasts are compared, does not depend on minutes after the
// origin.
func TestBaselineBeforeOrigin(t *testing.T) {
	baselines := func(later float64) (out []float64) {
		r := rand.New(rand.NewPCG(3, 4))
		s := NewScorer(0, 1, 30)
		for m := range int64(2100) {
			if m == 1990 {
				s.Issue(forecastFrom(m+5, flat(1), flat(1))) // before the minutes before its origin are observed
			}
			y := 100 + r.NormFloat64()
			if m >= 1995 {
				y = later
			}
			s.Observe(m, y)
		}
		for _, x := range s.Scores {
			out = append(out, math.Abs(later-x.lastErr))
		}
		return out
	}
	a, b := baselines(0), baselines(1e6)
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-6 || !(a[i] > 90) {
			t.Errorf("target %d: %v or %v", i, a[i], b[i])
		}
	}
}

// Without outcomes all scores are unknown.
func TestScoresWithoutOutcomes(t *testing.T) {
	s := NewScorer(0, 1)
	s.Issue(forecastFrom(10, flat(10), flat(10)))
	a := s.Scores[0]
	for _, x := range []float64{a.Mean(), a.WAPE(), a.Bias(), a.RelativeMAE(), a.MeanPinball(), float64(a.Coverage(L90).Share)} {
		if !math.IsNaN(x) {
			t.Errorf("a score without outcomes is %v, want NaN", x)
		}
	}
}

// TestEffectiveOutcomes: outcomes whose windows overlap count for less.
func TestEffectiveOutcomes(t *testing.T) {
	for _, c := range []struct {
		span  int
		every int64
		want  float64
	}{{1, 1, 100}, {15, 1, 100. / 15}, {15, 4, 25}, {15, 30, 100}} {
		a := Accumulator{target: network.Span{To: c.span}}
		for i := range int64(100) {
			a.add(c.every*i, 1, 1, &Quantiles{})
		}
		if e := a.Coverage(L80).Effective; math.Abs(float64(e)-c.want) > 1e-9 {
			t.Errorf("%+v: %v are effective", c, e)
		}
	}
}
