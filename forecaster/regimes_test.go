package forecaster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/features"
)

// load is the demand of a class in a minute: the number of requests and their means.
type load struct {
	requests, prompt, cached, output float64 // per minute; tokens; share of the prompt; tokens
	retries                          float64 // attempts at requests that were counted before
}

// kvSeconds is how long a request holds its KV cache: its prefill, and 25 ms a token.
func (l *load) kvSeconds() float64 { return l.prompt*(1-l.cached)/8000 + l.output*.025 }

// window is minute i of a class, with noise of counts and lengths.
func (l *load) window(r *rand.Rand, class string, i int) features.Window {
	n := counted(r, l.requests)
	length := func(mean float64) float64 { return mean * math.Exp(.6*r.NormFloat64()/math.Sqrt(max(n, 1))) }
	prompt, output := n*length(l.prompt), n*length(l.output)
	return features.Window{
		Key: features.Key{Pool: "p", Class: class}, Start: minuteAt(i), Covered: true, Settled: true,
		Reports: 255, Known: 255,
		Records: n + l.retries, Attempts: n + l.retries, Requests: n, Retries: l.retries,
		KVKnown:      n,
		PromptTokens: prompt, CachedTokens: l.cached * prompt, PromptOfCachedKnown: prompt, OutputTokens: output,
		KVModelled: (prompt + output/2) * l.kvSeconds(),
	}
}

// plant observes a pool of two classes. Class b changes its load after `before` minutes. It returns the forecasts of
// every fifth minute from then on, by minutes since the change.
func plant(t *testing.T, seed uint64, before, after int, was, is load) (f *Forecaster, issued map[int]PoolForecast) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	a := load{requests: 40, prompt: 1500, cached: .3, output: 250}
	f, issued = New(Config{}), map[int]PoolForecast{}
	for i := range before + after {
		b := was
		if i >= before {
			b = is
		}
		ws := []features.Window{a.window(r, "a", i)}
		if b != (load{}) {
			ws = append(ws, b.window(r, "b", i))
		}
		f.Observe(ws, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true, LastEvent: minuteAt(i)}})
		if since := i + 1 - before; since >= 0 && since%5 == 0 {
			issued[since] = f.Forecast(minuteAt(i + 1))[0]
		}
	}
	return f, issued
}

func forecastOf(fs []Forecast, class, dimension string) *Forecast {
	for i := range fs {
		if fs[i].Class == class && fs[i].Dimension == dimension {
			return &fs[i]
		}
	}
	return nil
}

// Requests change while their rate stays. The forecasts of the resources that they load more follow within minutes, the
// others stay, and the cause is named.
func TestChangeOfRequests(t *testing.T) {
	t.Parallel()
	agent := load{requests: 30, prompt: 6000, cached: .8, output: 300}
	change := func(by func(*load)) load {
		l := agent
		by(&l)
		return l
	}
	for _, tc := range []struct {
		name  string
		is    load
		rises map[string]float64 // dimension and factor
		stays []string
		cause string
		in    string
	}{
		{
			"context doubles", change(func(l *load) { l.prompt *= 2 }), map[string]float64{features.DimPrefill: 2, features.DimKV: 2},
			[]string{features.DimRequests, features.DimDecode}, CausePrompt, features.DimKV,
		},
		{
			"cache collapses", change(func(l *load) { l.cached = .1 }), map[string]float64{features.DimPrefill: 4.5},
			[]string{features.DimRequests, features.DimDecode}, CauseCache, features.DimPrefill,
		},
		{
			"agent that doubles output", change(func(l *load) { l.output *= 2 }), map[string]float64{features.DimDecode: 2, features.DimKV: 2},
			[]string{features.DimRequests, features.DimPrefill}, CauseOutput, features.DimDecode,
		},
		{
			"retry storm", change(func(l *load) { l.retries = 40 }), nil,
			[]string{features.DimRequests, features.DimPrefill, features.DimDecode, features.DimKV}, CauseRetries, features.DimRequests,
		},
	} {
		f, at := plant(t, 1, 300, 45, agent, tc.is)
		then := at[0]
		for dimension, factor := range tc.rises {
			was := forecastOf(then.Classes, "b", dimension)
			soon, later := at[10], at[15]
			if got := forecastOf(soon.Classes, "b", dimension).Minute[14][L90] / was.Minute[14][L50]; got < .9*factor {
				t.Errorf("%s: after 10 minutes the 90 %% quantile of %s is %.2f times the median before, the demand %.2f times", tc.name, dimension, got, factor)
			}
			if got := forecastOf(later.Classes, "b", dimension).Minute[14][L50] / was.Minute[14][L50]; got < .8*factor || got > 1.3*factor {
				t.Errorf("%s: after a quarter of an hour the median of %s is %.2f times that before, the demand %.2f times", tc.name, dimension, got, factor)
			}
			// Most of the pool's paths are above its former 90 % quantile.
			total := at[20]
			bar, above := then.Of(dimension).Minute[19][L90], 0.0
			for _, path := range total.Of(dimension).Paths {
				above += indicator(float64(path[19]) > bar) / NumPaths
			}
			if above < .5 {
				t.Errorf("%s: %.0f %% of the pool's paths of %s are above its former 90 %% quantile", tc.name, 100*above, dimension)
			}
		}
		for _, dimension := range tc.stays {
			was, is := forecastOf(then.Classes, "b", dimension).Minute[14], forecastOf(at[20].Classes, "b", dimension).Minute[14]
			if r := is[L50] / was[L50]; r < .85 || r > 1.15 {
				t.Errorf("%s: %s does not change, its median is %.2f times that before", tc.name, dimension, r)
			}
		}
		found := false
		for _, d := range f.Drivers("p", tc.in, 3) {
			found = found || d.Class == "b" && d.Cause == tc.cause
		}
		if !found {
			t.Errorf("%s: drivers of %s are %+v, want %s of b", tc.name, tc.in, f.Drivers("p", tc.in, 3), tc.cause)
		}
	}
}

// A new class with a third of the pool's load is forecast after five minutes, and included in the pool's total.
func TestNewClass(t *testing.T) {
	t.Parallel()
	_, at := plant(t, 2, 300, 35, load{}, load{requests: 20, prompt: 1500, cached: .3, output: 250})
	then, five, total := at[0], at[5], at[15]
	f := forecastOf(five.Classes, "b", features.DimPrefill)
	if f == nil || f.Minute[14][L90] < 20*1500*.7/60 {
		t.Errorf("five minutes after the first requests the forecast of the class is %+v", f)
	}
	if got := total.Of(features.DimPrefill).Minute[14][L50] / then.Of(features.DimPrefill).Minute[14][L50]; got < 1.35 || got > 1.85 {
		t.Errorf("15 minutes after the first requests the pool's median is %.2f times that before, the demand 1.5 times", got)
	}
}

// A gap of an hour or of a day does not change the corrections that were learned. Five minutes after it forecasts are
// at the level of demand, and a restart in the gap does not change them.
func TestForecastAfterGap(t *testing.T) {
	t.Parallel()
	for _, gap := range []int{60, 1440} {
		y := noisy(rand.New(rand.NewPCG(3, uint64(gap))))
		f := New(Config{})
		feed := func(f *Forecaster, from, to int, y func(int) float64) {
			for i := from; i < to; i++ {
				f.Observe([]features.Window{window("p", "c", i, y(i))}, []features.PoolMinute{{Pool: "p", Start: minuteAt(i)}})
			}
		}
		const before = 2 * 1440
		feed(f, 0, before, y)
		was := f.pools[0].classes[0].series[0]
		learned := was.corrections
		nothing := func(int) float64 { return math.NaN() }
		feed(f, before, before+gap/2, nothing)
		g := restoredOf(t, f)
		for _, x := range []*Forecaster{f, g} {
			feed(x, before+gap/2, before+gap, nothing)
		}
		s := f.pools[0].classes[0].series[0]
		if learned != s.corrections {
			t.Errorf("gap of %d minutes: unknown minutes changed the corrections", gap)
		}
		values := draw(before+gap+40, noisy(rand.New(rand.NewPCG(4, uint64(gap)))))
		resumed := func(i int) float64 { return values[i] }
		for _, x := range []*Forecaster{f, g} {
			feed(x, before+gap, before+gap+5, resumed)
		}
		a, b := f.Forecast(minuteAt(before + gap + 5))[0], g.Forecast(minuteAt(before + gap + 5))[0]
		if diff := cmp.Diff(a, b, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("gap of %d minutes: a restart in it changes the forecast:\n%.600s", gap, diff)
		}
		c := a.Classes[0]
		last := resumed(before + gap + 4)
		if q := c.Minute[14]; c.Known != before+5 || c.Confidence != Seasonal || !(q[L50] > .5*last && q[L50] < 2*last && q[L95] < 4*last) {
			t.Errorf("gap of %d minutes: five minutes after it the demand is %.0f, the forecast %v from %d known minutes", gap, last, c.Minute[14], c.Known)
		}
	}
}

// On series that cannot be forecast, the loss is at most 1.06 times that of the last value with the quantiles of its own
// errors. Without the score of the last value the random walk fails, which TestKindsFareNoWorseThanTheLastValue does not
// notice.
func TestNeverWorseThanTheLastValue(t *testing.T) {
	for _, k := range []kind{
		{"random walk", func(r *rand.Rand) func(int) float64 {
			z := 60.0
			return func(int) float64 {
				z = math.Max(5, z+.5*r.NormFloat64())
				return z * z
			}
		}},
		kindOf("intermittent"),
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			var own, last lossAt
			for seed := range uint64(2) {
				y := draw(1800, k.make(rand.New(rand.NewPCG(seed, 5))))
				var origins []int
				for o := 720; o < len(y)-WindowTo; o++ {
					origins = append(origins, o)
				}
				for _, x := range simples[0].losses(y, origins) {
					last.add(x)
				}
				for _, x := range ownLosses(newSeries(testKey, 0), y, startMinute, 0, origins) {
					own.add(x)
				}
			}
			if ratio := (own.minutes + own.peak) / (last.minutes + last.peak); ratio > 1.06 {
				t.Errorf("pinball is %.3f times that of the last value", ratio)
			}
		})
	}
}

// A ramp that came at the same time yesterday is forecast, at most ten minutes early.
func TestDailyRamp(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 7))
	rate := func(i int) float64 {
		if minute := i % 1440; minute >= 8*60 && minute < 18*60 {
			return 80
		}
		return 8
	}
	s := newSeries(testKey, 0)
	run(s, 0, 2*1440+8*60-20, func(i int) float64 { return counted(r, rate(i)) })
	var f Forecast
	s.forecast(&f)
	if soon, later := f.Minute[9], f.Minute[29]; later[L90] < 40 || soon[L90] > 60 {
		t.Errorf("20 minutes before the ramp from 8 to 80 the 90 %% quantile is %.0f in 10 minutes and %.0f in half an hour", soon[L90], later[L90])
	}
}

// On Monday morning the ramp of last Monday is expected, although Sunday had none.
func TestRampAfterWeekend(t *testing.T) {
	t.Parallel()
	const first = startMinute/10080*10080 + 4*1440 // 1 January 1970 was a Thursday
	r := rand.New(rand.NewPCG(6, 7))
	s := newSeries(testKey, 0)
	for i := range int64(7*1440 + 8*60 - 20) {
		rate, day, minute := 8.0, i/1440%7, i%1440
		if day < 5 && minute >= 8*60 && minute < 18*60 {
			rate = 80
		}
		s.push(first+i, exact(counted(r, rate)))
	}
	var f Forecast
	s.forecast(&f)
	if got := f.Minute[29][L95]; got < 30 {
		t.Errorf("20 minutes before Monday's ramp to 80 the 95 %% quantile of half an hour ahead is %.0f", got)
	}
}

// Quantiles have their nominal coverage before the load triples or falls to a third, and again from two hours after the
// change. The standard error of the window maximum's coverage is one percent.
func TestCoverageAfterAShift(t *testing.T) {
	const before, settled, end, seeds = 960, 120, 960 + 480, 12
	for _, tc := range []struct {
		kind   string
		factor float64
	}{{"counts", 3}, {"counts", 1.0 / 3}, {"heavy tokens", 3}, {"heavy tokens", 1.0 / 3}} {
		t.Run(fmt.Sprintf("%s times %.2f", tc.kind, tc.factor), func(t *testing.T) {
			t.Parallel()
			var was, soon, is coverage
			for seed := range uint64(seeds) {
				at := kindOf(tc.kind).make(rand.New(rand.NewPCG(seed, 9)))
				y := draw(end+WindowTo, func(i int) float64 {
					if i < before {
						return at(i)
					}
					return tc.factor * at(i)
				})
				s := newSeries(testKey, 0)
				for i := range end {
					s.push(startMinute+int64(i), exact(y[i]))
					var f Forecast
					switch {
					case i%4 != 0 || i < before/2 || !s.forecast(&f):
					case i < before-WindowTo:
						was.add(&f, y[i+1:])
					case i >= before && i < before+settled:
						soon.add(&f, y[i+1:])
					case i >= before+settled:
						is.add(&f, y[i+1:])
					}
				}
			}
			for name, c := range map[string]coverage{"before": was, "from two hours after": is} {
				for _, x := range []struct {
					what          string
					share, lo, hi float64
				}{
					{"90 % quantile of minutes", c.minute90 / c.n, .86, .94}, {"95 % quantile of minutes", c.minute95 / c.n, .92, .98},
					{"90 % quantile of the window maximum", c.most90 / c.n, .86, .965}, {"95 % quantile of the window maximum", c.most95 / c.n, .92, .99},
				} {
					if x.share < x.lo || x.share > x.hi {
						t.Errorf("%s: the %s covers %.1f %%", name, x.what, 100*x.share)
					}
				}
			}
			t.Logf("after: minutes %.3f %.3f, window maximum %.3f %.3f", is.minute90/is.n, is.minute95/is.n, is.most90/is.n, is.most95/is.n)
			t.Logf("first two hours: minutes %.3f %.3f, window maximum %.3f %.3f", soon.minute90/soon.n, soon.minute95/soon.n, soon.most90/soon.n, soon.most95/soon.n)
		})
	}
}
