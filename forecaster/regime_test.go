package forecaster

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// regimes runs a history through the search for changes of level, and returns those found, with the minutes, counted from the
// first, at which they were.
func regimes(n int, y func(i int) float64) (found []model.Change, at []int) {
	o := observed{history: model.NewHistory()}
	for i := range n {
		m := startMinute + int64(i)
		o.history.Push(m, y(i))
		o.learned = m
		if c, ok := o.changed(); ok && o.rebase(c) {
			c.Minute -= startMinute
			found, at = append(found, c), append(at, i)
		}
	}
	return found, at
}

// A level that changes for good is found when it has stayed for an hour, with the minute and the ratio, by day or by night.
func TestChangesAreFound(t *testing.T) {
	t.Parallel()
	for _, season := range []float64{0, .6} {
		for _, ratio := range []float64{.2, .4, 1.7, 3} {
			if ratio == 1.7 && season > 0 {
				continue // hardly more than the season itself
			}
			for seed := range uint64(6) {
				r := rand.New(rand.NewPCG(seed, 21))
				before := int(1+seed%3) * 1440
				found, at := regimes(before+300, func(i int) float64 {
					level := 60 * seasonal(i, season, float64(seed)/6)
					if i >= before {
						level *= ratio
					}
					return counted(r, level)
				})
				if len(found) == 0 || math.Abs(float64(found[0].Minute)-float64(before)) > 5 || at[0] > before+regimeStays+2*regimeEvery ||
					math.Abs(math.Log(found[0].Ratio/ratio)) > .1+.6*season {
					t.Errorf("season %.1f, times %.1f after %d minutes: found %+v at %v", season, ratio, before, found, at)
				}
			}
		}
	}
}

// What goes up and down like that every day, for a quarter of an hour, or without an end, is no change; nor is the first
// morning.
func TestWhatIsNoChange(t *testing.T) {
	t.Parallel()
	walk := 0.0
	for name, level := range map[string]func(r *rand.Rand, i int) float64{
		"steady": func(*rand.Rand, int) float64 { return 60 },
		"season": func(_ *rand.Rand, i int) float64 { return 60 * seasonal(i, .8, 0) },
		"office hours": func(_ *rand.Rand, i int) float64 {
			return 20 + 60*count(i%1440 > 480 && i%1440 < 1080)
		},
		"bursts":  func(_ *rand.Rand, i int) float64 { return 20 + 60*count(i/17%5 == 0) },
		"climb":   func(_ *rand.Rand, i int) float64 { return 20 * math.Exp(float64(i)/2000) },
		"outage":  func(_ *rand.Rand, i int) float64 { return 60 - 50*count(i > 5000 && i < 5030) },
		"silence": func(_ *rand.Rand, i int) float64 { return 60 * count(i < 5000 || i > 5300) },
		"wander": func(r *rand.Rand, _ int) float64 {
			walk = .99*walk + .03*r.NormFloat64()
			return 60 * math.Exp(walk)
		},
	} {
		r := rand.New(rand.NewPCG(5, 21))
		if found, at := regimes(6*1440, func(i int) float64 { return counted(r, level(r, i)) }); len(found) > 0 {
			t.Errorf("%s: %+v at %v", name, found, at)
		}
	}
}

// A level that comes back is what it was: the change is taken back.
func TestChangesAreTakenBack(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 21))
	o := observed{history: model.NewHistory()}
	most := 0
	for i := range 4000 {
		m := startMinute + int64(i)
		o.history.Push(m, counted(r, 60-40*count(i >= 3000 && i < 3400)))
		o.learned = m
		if c, ok := o.changed(); ok {
			o.rebase(c)
		}
		most = max(most, len(o.history.Changes()))
	}
	if n := len(o.history.Changes()); most != 1 || n != 0 {
		t.Errorf("of %d changes %d are left", most, n)
	}
}

// A restart amid a change changes no byte of what is forecast after it.
func TestChangesOutlastARestart(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 21))
	y := draw(1440+400, func(i int) float64 { return counted(r, 60-40*count(i >= 1440)) })
	a := newSeries(testKey, 0)
	run(a, 0, 1440+200, func(i int) float64 { return y[i] })
	if len(a.history.Changes()) != 1 {
		t.Fatalf("changes are %+v", a.history.Changes())
	}
	b := a.fork(t)
	for _, s := range []*series{a, b} {
		run(s, 1440+200, 200, func(i int) float64 { return y[i] })
	}
	var f, g Forecast
	if !a.forecast(&f) || !b.forecast(&g) || f.WindowMax != g.WindowMax || f.Minute != g.Minute {
		t.Errorf("forecasts are %v and %v", f.WindowMax, g.WindowMax)
	}
}

// What outcomes far above taught is taken back nearly as it was taught.
func TestUnlearn(t *testing.T) {
	t.Parallel()
	m, e := newMixture(), expertAt("level_10m")
	r := rand.New(rand.NewPCG(8, 21))
	for range 4000 {
		x := r.NormFloat64()
		m.track(e, x, x)
	}
	was := m.Residual[e].wide()
	for range 40 {
		x := 8 + r.NormFloat64()
		m.track(e, x, x)
	}
	taught := m.Residual[e].wide()
	m.unlearn(8, 40)
	is := m.Residual[e].wide()
	for i := range is {
		if off, moved := math.Abs(is[i]-was[i]), taught[i]-was[i]; !(moved > 0) || off > .3*moved {
			t.Errorf("level %.2f: %.3f became %.3f and is %.3f again", Levels[i], was[i], taught[i], is[i])
		}
	}
}

// A total is read at a new level when all of its classes are, and not when one of several is: the day of the others stays.
func TestTotalsChangeWithTheirClasses(t *testing.T) {
	t.Parallel()
	const before = 1500
	for _, c := range []struct {
		name      string
		chat, job float64 // times what they were
		total     int     // changes of it
	}{{"one", 3, 1, 0}, {"both", 3, 3, 1}} {
		r := rand.New(rand.NewPCG(9, 21))
		level := func(usual, factor float64) func(int) float64 {
			return func(i int) float64 {
				if i >= before {
					return counted(r, usual*factor)
				}
				return counted(r, usual)
			}
		}
		f := New(Config{Settle: features.Minute})
		observePool(f, before+120, map[string]func(int) float64{"chat": level(60, c.chat), "job": level(60, c.job)}, "chat", "job")
		p := f.pools[0]
		d := slices.IndexFunc(p.total, func(s *series) bool { return s != nil && s.history.Known > 0 })
		if n := len(p.find("chat").follower(d).past().Changes()); n != 1 {
			t.Errorf("%s: chat has %d changes", c.name, n)
		}
		if n := len(p.total[d].history.Changes()); n != c.total {
			t.Errorf("%s: the total has %d changes, want %d", c.name, n, c.total)
		}
	}
}
