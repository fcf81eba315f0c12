package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
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

// saying makes the forecast of an origin that says q of every minute, and top of the window maximum.
func saying(origin int64, q, top Quantiles) *Forecast {
	f := &Forecast{Origin: time.Unix(60*origin, 0), WindowMax: top}
	for h := range f.Minute {
		f.Minute[h] = q
	}
	return f
}

// flat is the distribution that is one point.
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

// TestScorerByHand scores three outcomes one minute ahead whose figures are worked out on paper.
func TestScorerByHand(t *testing.T) {
	s := Scorer{Minutes: []int{1}}
	q := Quantiles{1, 2, 3, 4, 5, 6, 7, 8, 9}
	s.Observe(100, 4)
	for i, y := range []float64{4, 8, 2, math.NaN()} {
		s.Issue(saying(101+int64(i), q, q))
		s.Observe(101+int64(i), y)
	}
	a := s.Scores()[0]
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
	close(t, "pinball at 90 %", a.Pinball(L90), (.3+.9+.5)/3)
	c := a.Coverage(L90) // 4 and 2 lie below 7, 8 does not
	close(t, "coverage", c.Share, 2.0/3)
	close(t, "effective", c.Effective, 3)
	if !(c.Low > 0.2 && c.Low < c.Share && c.High > c.Share && c.High < 0.95) {
		t.Errorf("Wilson's interval of 2 in 3: %+v", c)
	}
	if w := s.Scores()[1]; w.Horizon != HorizonWindowMax || w.N != 0 || w.Missing != 0 {
		t.Errorf("%+v", w)
	}
}

// TestScorerMatches: each horizon meets its own minute, the window its maximum, and what is not wanted is left out.
func TestScorerMatches(t *testing.T) {
	y := func(m int64) float64 { return float64(m * m % 101) }
	s := Scorer{From: 150}
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
			s.Issue(f) // again: is known
		}
		s.Observe(m, y(m))
		s.Observe(m-1, 1e6) // has been
	}
	for i, want := range []struct {
		horizon string
		n       int
	}{{"5", 150}, {"60", 141}, {HorizonWindowMax, 150}} {
		a := s.Scores()[i]
		if a.Horizon != want.horizon || a.N != want.n || a.Missing != 0 || a.WAPE() != 0 || a.MeanPinball() != 0 {
			t.Errorf("%s: %d outcomes, %d missing, WAPE %v, pinball %v, want %+v", a.Horizon, a.N, a.Missing, a.WAPE(), a.MeanPinball(), want)
		}
	}
	s.Observe(310, 1) // a gap
	if a := s.Scores()[0]; a.N != 150 || a.Missing != 4 {
		t.Errorf("%d outcomes, %d missing after a gap", a.N, a.Missing)
	}
}

// TestBaselinesByHand: what baselines say is what their names say, with the quantiles of their past errors.
func TestBaselinesByHand(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var past track
	const n = 3 * minutesPerWeek
	for m := range int64(n) {
		past.push(m, 100+10*r.NormFloat64()+50*math.Sin(2*math.Pi*float64(m)/minutesPerDay))
	}
	mean := func(from, to int64) float64 {
		sum := 0.0
		for m := from; m <= to; m++ {
			sum += past.value(m)
		}
		return sum / float64(to-from+1)
	}
	for b, want := range map[Baseline]float64{
		LastValue: past.value(n - 1), Recent15m: mean(n-15, n-1),
		SeasonalDay: mean(n+19-1440-7, n+19-1440+7), SeasonalWeek: mean(n+19-10080-7, n+19-10080+7),
	} {
		close(t, b.String(), past.point(b, target{20, 20}, n), want)
	}
	close(t, "yesterday's maximum", past.point(SeasonalDay, target{15, 30}, n), past.largest(n+14-1440, n+29-1440))
	close(t, "forgotten", past.value(n-1-trackMinutes), math.NaN())

	// A target that is new takes its errors from two days of the past: yesterday's are normal ones of a known width.
	s := Scorer{Minutes: []int{20}}
	for m := range int64(n) {
		s.Observe(m, past.at[slot(m)])
	}
	x := s.target(target{20, 20})
	sd := 10 * math.Sqrt(1+1.0/15)
	for i, z := range gaussian {
		if got := x.residuals[SeasonalDay].at[i]; math.Abs(got-sd*z) > 0.25*sd {
			t.Errorf("level %v of errors: %v, want about %v", Levels[i], got, sd*z)
		}
	}
}

// TestBaselineSeesNothingLater: what is compared with does not change when what follows the origin does.
func TestBaselineSeesNothingLater(t *testing.T) {
	baselines := func(later float64) (out [][NumBaselines]Quantiles) {
		r := rand.New(rand.NewPCG(3, 4))
		s := Scorer{Minutes: []int{1, 30}}
		for m := range int64(2000) {
			if m == 1990 {
				s.Issue(saying(m+5, flat(1), flat(1))) // before its newest minutes are settled
			}
			y := 100 + r.NormFloat64()
			if m >= 1995 {
				y = later
			}
			s.Observe(m, y)
		}
		for _, x := range s.pending[0].of {
			out = append(out, x.baselines)
		}
		return out
	}
	a, b := baselines(1), baselines(1e6)
	for i := range a {
		for _, base := range []Baseline{LastValue, SeasonalDay, Recent15m} {
			if a[i][base] != b[i][base] || !(a[i][base][L50] > 90) {
				t.Errorf("target %d, %s: %v or %v", i, base, a[i][base], b[i][base])
			}
		}
	}
}

func TestNothingScoredKnowsNothing(t *testing.T) {
	s := Scorer{Minutes: []int{1}}
	s.Issue(saying(10, flat(10), flat(10)))
	a := s.Scores()[0]
	against := a.Against(LastValue)
	for _, x := range []float64{a.Mean(), a.WAPE(), a.Bias(), a.RelativeMAE(), a.MeanPinball(), a.Coverage(L90).Share, against.Skill, against.DM, against.P} {
		if !math.IsNaN(x) {
			t.Errorf("a figure without outcomes is %v, want NaN", x)
		}
	}
}

// TestLongRunVariance: of a moving average over h terms, the mean's variance is known: that of the innovations' sum.
func TestLongRunVariance(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const h, n = 15, 200_000
	s := serials{lag: h}
	var recent [h]float64
	for i := range int64(n) {
		recent[i%h] = r.NormFloat64()
		x := serialRow{origin: i}
		for _, e := range recent {
			x.of[0] += e
		}
		s.add(x)
	}
	_, variance := s.mean(0)
	// Autocovariances are h − k; with Bartlett's weights 1 − k/h their sum is h + 2·Σ(h−k)²/h instead of h².
	want := float64(h)
	for k := 1.0; k < h; k++ {
		want += 2 * (h - k) * (h - k) / h
	}
	if got := variance * n; math.Abs(got/want-1) > 0.1 {
		t.Errorf("long-run variance %v, want about %v", got, want)
	}
	if s.overlap() != h || len(s.recent) != h {
		t.Errorf("overlap %d, %d kept", s.overlap(), len(s.recent))
	}
}

// TestDieboldMariano works the statistic out on paper: differences 1, 3, 2, 2 of independent outcomes.
func TestDieboldMariano(t *testing.T) {
	a := Accumulator{serials: serials{lag: 1}}
	for i, d := range []float64{1, 3, 2, 2} {
		x := serialRow{origin: int64(i)}
		x.of[NumLevels] = d
		a.serials.add(x)
	}
	a.baselineLoss[LastValue] = 16
	c := a.Against(LastValue)
	close(t, "skill", c.Skill, -2.0/4)
	dm := 2 / math.Sqrt(.5/4) * math.Sqrt((4+1-2+0.)/4)
	close(t, "DM", c.DM, dm)
	// Student with three degrees of freedom: P(|T| > t) = 1 − 2/π·(atan(t/√3) + √3·t/(t²+3))
	close(t, "P", c.P, 1-2/math.Pi*(math.Atan(dm/math.Sqrt(3))+math.Sqrt(3)*dm/(dm*dm+3)))

	// Origins half an hour apart share nothing at 15 minutes ahead; each minute, fifteen do.
	a.serials = serials{lag: 15}
	for i := range int64(10) {
		a.serials.add(serialRow{origin: 30 * i})
	}
	if a.serials.overlap() != 1 {
		t.Errorf("overlap %d", a.serials.overlap())
	}
}

// TestEffectiveOutcomes: hits that come in runs count for less.
func TestEffectiveOutcomes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	alone, runs := Accumulator{serials: serials{lag: 30}}, Accumulator{serials: serials{lag: 30}}
	hit := 0.0
	for i := range int64(20_000) {
		var x, y serialRow
		x.origin, y.origin = i, i
		x.of[L80] = float64(int(r.Float64() + .8))
		if i%15 == 0 {
			hit = float64(int(r.Float64() + .8))
		}
		y.of[L80] = hit
		alone.serials.add(x)
		runs.serials.add(y)
		alone.N++
		runs.N++
	}
	if e := alone.Coverage(L80).Effective; e < 15_000 {
		t.Errorf("of 20000 independent outcomes, %v are effective", e)
	}
	if e := runs.Coverage(L80).Effective; e < 20_000.0/20 || e > 20_000.0/8 { // 15 alike
		t.Errorf("of 20000 outcomes in runs of 15, %v are effective", e)
	}
}
