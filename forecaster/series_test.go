package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/network"
)

const startMinute = int64(28_396_800) // a midnight

var testKey = features.Key{Pool: "p", Class: "c"}

// noisy is a rate with a daily shape whose noise grows with its level, as token rates do.
func noisy(r *rand.Rand) func(i int) float64 {
	ar := 0.0
	return func(i int) float64 {
		ar = .9*ar + .3*r.NormFloat64()
		z := 30 + 10*math.Sin(2*math.Pi*float64(i)/1440) + 2*ar + r.NormFloat64()
		return z * z
	}
}

func run(s *series, from, n int, y func(i int) float64) {
	for i := from; i < from+n; i++ {
		s.push(startMinute+int64(i), exact(y(i)))
	}
}

// TestFirstForecast: the first forecast comes after three minutes and is wide.
func TestFirstForecast(t *testing.T) {
	s := newSeries(testKey, 0)
	var f Forecast
	for i, y := range []float64{100, 120, 110} {
		if s.forecast(&f) {
			t.Fatalf("a forecast from %d minutes", i)
		}
		s.push(startMinute+int64(i), exact(y))
	}
	if !s.forecast(&f) {
		t.Fatal("no forecast from three minutes")
	}
	q := f.Minute[29]
	if f.Confidence != Cold || f.Last != 110 || q[L50] < 80 || q[L50] > 150 || q[L95] < 1.3*q[L50] {
		t.Errorf("first forecast %+v, confidence %v", q, f.Confidence)
	}
}

// Quantiles are finite, not negative and in order, also for extreme series.
func TestExtremeSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func(i int) float64{
		"zero":         func(int) float64 { return 0 },
		"intermittent": func(int) float64 { return math.Max(0, 500*(r.Float64()-.95)) },
		"spikes":       func(i int) float64 { return 1 + 1e9*float64(i%97/96) },
		"unknown":      func(i int) float64 { return []float64{4, math.NaN()}[i/100%2] },
		"step":         func(i int) float64 { return []float64{10, 1e6, 0}[i/400%3] },
	}
	for name, shape := range shapes {
		s := newSeries(testKey, 0)
		run(s, 0, 1500, shape)
		var f Forecast
		if !s.forecast(&f) {
			t.Fatalf("%s: no forecast", name)
		}
		for h, q := range append(f.Minute[:], f.WindowMax) {
			for i := range q {
				if math.IsNaN(q[i]) || math.IsInf(q[i], 0) || q[i] < 0 || i > 0 && q[i] < q[i-1] {
					t.Fatalf("%s, minute %d: %v", name, h+1, q)
				}
			}
		}
	}
}

// TestFlatSeries: the forecast of a flat series is its level.
func TestFlatSeries(t *testing.T) {
	for _, level := range []float64{0, 7, 1e6} {
		s := newSeries(testKey, 0)
		run(s, 0, 3000, func(int) float64 { return level })
		var f Forecast
		s.forecast(&f)
		for _, q := range append(f.Minute[:30:30], f.WindowMax) {
			for i := range q {
				if math.Abs(q[i]-level) > 1e-4*level+1e-9 {
					t.Fatalf("the forecast of a flat series at %v is %v", level, q)
				}
			}
		}
	}
}

// TestCoverage: on a stationary series quantiles have their nominal coverage, for single minutes and the window
// maximum.
func TestCoverage(t *testing.T) {
	y := noisy(rand.New(rand.NewPCG(3, 4)))
	s := newSeries(testKey, 0)
	const warm, n = 8 * 1440, 5 * 1440
	scorer := NewScorer(0, 20)
	for i := range warm + n {
		if i >= warm {
			f := Forecast{Origin: time.Unix(60*(startMinute+int64(i)), 0)}
			s.forecast(&f)
			scorer.Issue(&f)
		}
		v := y(i)
		scorer.Observe(startMinute+int64(i), v)
		s.push(startMinute+int64(i), exact(v))
	}
	for _, a := range scorer.Scores {
		for level, tolerance := range map[int]float64{L50: .06, L80: .04, L90: .03, L95: .025} {
			if c := a.Coverage(level); math.Abs(float64(c.Share)-Levels[level]) > tolerance {
				t.Errorf("%s: the %.0f %% quantile covers %.1f %%", a.Horizon, 100*Levels[level], 100*c.Share)
			}
		}
		if a.N < n-Horizon || a.RelativeMAE() > .95 {
			t.Errorf("%s: %.3f of the error of the last value, in %d outcomes", a.Horizon, a.RelativeMAE(), a.N)
		}
	}
}

// TestRestore: a restored forecaster forecasts the same as the original. A snapshot of another version is refused.
func TestRestore(t *testing.T) {
	f := New(Config{})
	feed := func(f *Forecaster, from, to int, y func(i int) float64) []PoolForecast {
		for i := from; i < to; i++ {
			w := window("p", "c", i, y(i))
			f.Observe([]features.Window{w}, nil)
		}
		return f.Forecast(minuteAt(to))
	}
	y := noisy(rand.New(rand.NewPCG(5, 6)))
	feed(f, 0, 777, y)
	g := restoredOf(t, f)
	values := noisy(rand.New(rand.NewPCG(7, 8)))
	again := noisy(rand.New(rand.NewPCG(7, 8)))
	want, got := feed(f, 777, 1000, values), feed(g, 777, 1000, again)
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	if _, err := Restore(Config{}, func(part any) error {
		part.(*state).Version = snapshotVersion + 1
		return nil
	}); err == nil {
		t.Error("a snapshot of another version was restored")
	}
}

// TestFallback: if the network is much worse than the last value, the last value is used, and the forecast says so.
// When the network is better again, it is used again.
func TestFallback(t *testing.T) {
	right, wrong := network.Fitted(), *network.Fitted()
	for k := range network.Targets {
		wrong.Bias3[k*network.NumLevels+network.Middle] += 3
	}
	defer func() { network.Fitted = func() *network.Net { return right } }()
	r := rand.New(rand.NewPCG(9, 10))
	s, next, level := newSeries(testKey, 0), 0, 1000.0
	feed := func(n int, net *network.Net) (f Forecast) {
		network.Fitted = func() *network.Net { return net }
		for range n {
			level = max(500, level+5*r.NormFloat64())
			s.push(startMinute+int64(next), exact(level*math.Exp(.03*r.NormFloat64())))
			next++
		}
		s.forecast(&f)
		return f
	}
	f := feed(900, &wrong)
	if got := f.Minute[14][L50]; !f.Fallback || math.Abs(got-level) > 150 {
		t.Errorf("fallback %v, the median is %.0f at a level of %.0f", f.Fallback, got, level)
	}
	if f := feed(3*1440, right); f.Fallback {
		t.Error("still the last value after the network was better for three days")
	}
}

// TestLevelShift: an hour after the load tripled, the forecast is at the new level.
func TestLevelShift(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	s := newSeries(testKey, 0)
	level := 1000.0
	y := func(int) float64 { return level * math.Exp(.1*r.NormFloat64()) }
	run(s, 0, 3*1440, y)
	level = 3000
	run(s, 3*1440, 60, y)
	var f Forecast
	s.forecast(&f)
	if q := f.Minute[19]; q[L50] < 2500 || q[L50] > 3500 {
		t.Errorf("an hour after the shift to 3000 the median is %.0f", q[L50])
	}
}

// TestLateCounts: nearly all requests are reported three minutes late, and no nowcast corrects the first counts.
// Quantiles cover the final counts.
func TestLateCounts(t *testing.T) {
	const settle, n = 10, 4 * 1440
	r := rand.New(rand.NewPCG(13, 14))
	s := newSeries(testKey, settle)
	truth := make([]float64, n)
	var issued [n]Forecast
	below, of := 0, 0
	for i := range n {
		truth[i] = 100 * math.Exp(.2*r.NormFloat64())
		if i >= 3 { // as a pool observes them: earlier minutes first
			s.amend(startMinute+int64(i-3), exact(truth[i-3]))
		}
		s.push(startMinute+int64(i), exact(.02*truth[i]))
		s.forecast(&issued[i])
		if j := i - 20; j >= n/2 {
			of++
			if truth[i] <= issued[j].Minute[19][L90] {
				below++
			}
		}
	}
	if share := float64(below) / float64(of); math.Abs(share-.9) > .05 {
		t.Errorf("the 90 %% quantile covers %.1f %%", 100*share)
	}
}

// TestDemandNow: if nothing comes late, demand now has no bias, however noisy it is. If the newest minute is unknown,
// it is the median of the forecast for the next.
func TestDemandNow(t *testing.T) {
	for _, sigma := range []float64{.1, .3, .8} {
		r := rand.New(rand.NewPCG(31, 32))
		s := newSeries(testKey, 10)
		now, came := 0.0, 0.0
		for i := range 1440 {
			y := 100 * math.Exp(sigma*r.NormFloat64())
			s.push(startMinute+int64(i), exact(y))
			var f Forecast
			if s.forecast(&f) {
				now += f.Now.Mean
				came += f.Last
			}
		}
		if bias := now/came - 1; math.Abs(bias) > .001 {
			t.Errorf("sigma %v: the bias of demand now is %+.1f %%", sigma, 100*bias)
		}
		s.push(startMinute+1440, unknown)
		var f Forecast
		if s.forecast(&f); f.Now.Mean != f.Minute[0][L50] {
			t.Errorf("sigma %v: demand in an unknown minute is %v, the median of the next %v", sigma, f.Now.Mean, f.Minute[0][L50])
		}
	}
}

// exact is the estimate of an exact value; NaN if unknown.
func exact(y float64) features.Estimate { return features.Complete(y) }

// TestShapeOfState: a state of another shape has another version, so that it is refused for its version.
func TestShapeOfState(t *testing.T) {
	const version, size = 34, 6241
	if n := len(newSeries(features.Key{}, 10).pack()); n != size || snapshotVersion != version {
		t.Errorf("a series of version %d has %d bytes, version %d had %d: change snapshotVersion with the shape, and this test", snapshotVersion, n, version, size)
	}
}
