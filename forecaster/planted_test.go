package forecaster

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// plantedHours is the number of hours after a change of level that are scored.
const plantedHours = 8

// noise makes a generator of minute i at a level, in multiples of the usual one.
type noise struct {
	name string
	make func(r *rand.Rand) func(i int, level float64) float64
}

var noises = []noise{
	{"poisson", func(r *rand.Rand) func(int, float64) float64 {
		mean := math.Exp(2 + 3*r.Float64())
		return func(_ int, level float64) float64 { return counted(r, mean*level) }
	}},
	{"over-dispersed", func(r *rand.Rand) func(int, float64) float64 {
		mean := math.Exp(2 + 3*r.Float64())
		return func(_ int, level float64) float64 { // negative binomial, of shape 2
			return counted(r, mean*level*-math.Log(r.Float64()*r.Float64())/2)
		}
	}},
	{"heavy", func(r *rand.Rand) func(int, float64) float64 {
		rate, sigma := math.Exp(1+2*r.Float64()), .5+r.Float64()
		return func(_ int, level float64) float64 { return level * summed(r, rate, 1000, sigma) }
	}},
	{"bursty", func(r *rand.Rand) func(int, float64) float64 {
		at := kindOf("bursts").make(r)
		return func(i int, level float64) float64 { return level * at(i) }
	}},
	{"wandering", func(r *rand.Rand) func(int, float64) float64 {
		ar := 0.0
		return func(_ int, level float64) float64 {
			ar = .98*ar + .06*r.NormFloat64()
			return counted(r, 60*level*math.Exp(ar))
		}
	}},
}

// factors are the changes of level.
var factors = [...]float64{.2, .4, .6, 1, 1.7, 3}

// hourScore has the coverage and the pinball loss of the forecasts from one hour of origins, for minutes and for the
// largest minute, in units of the mean.
type hourScore struct {
	coverage
	minute, most float64
}

func (h *hourScore) score(f *Forecast, next []float64, unit float64) {
	h.add(f, next)
	largest, each := 0.0, 1/unit/float64(len(ScoredLevels))
	for lead := WindowFrom; lead <= WindowTo; lead++ {
		largest = max(largest, next[lead-1])
		for _, i := range ScoredLevels {
			h.minute += each / (WindowTo - WindowFrom + 1) * Pinball(Levels[i], next[lead-1], f.Minute[lead-1][i])
		}
	}
	for _, i := range ScoredLevels {
		h.most += each * Pinball(Levels[i], largest, f.WindowMax[i])
	}
}

func (h *hourScore) plus(o *hourScore) {
	h.n += o.n
	h.minute90, h.minute95, h.most90, h.most95 = h.minute90+o.minute90, h.minute95+o.minute95, h.most90+o.most90, h.most95+o.most95
	h.minute, h.most = h.minute+o.minute, h.most+o.most
}

// fork is a copy of a series.
func (s *series) fork(t testing.TB) *series {
	t.Helper()
	out := newSeries(testKey, s.settle)
	if !out.unpack(s.pack()) {
		t.Fatal("a series cannot be restored")
	}
	return out
}

// seasonal is the level of minute i with a daily season. The phase is a fraction of a day.
func seasonal(i int, strength, phase float64) float64 {
	return 1 + strength*math.Sin(2*math.Pi*(float64(i)/1440+phase))
}

// plantedCase is one draw of the minutes before a change, and the factor of the change.
type plantedCase struct {
	noise, days int
	season      bool
	draw        int
	factor      float64
	back        bool // the level went back after plantedHours: the hours after that are scored
}

// scores applies each change to a draw of the past, and scores the hours after it.
func (c plantedCase) scores(t testing.TB) map[plantedCase]*[plantedHours]hourScore {
	source := func() (*rand.Rand, func(int, float64) float64, float64) {
		r := rand.New(rand.NewPCG(uint64(c.draw), uint64(100*c.noise+10*c.days)+uint64(indicator(c.season))))
		phase := r.Float64()
		return r, noises[c.noise].make(r), phase
	}
	_, at, phase := source()
	before, strength := 1440*c.days, .6*indicator(c.season)
	s := newSeries(testKey, 0)
	sum := 0.0
	for i := range before {
		y := at(i, seasonal(i, strength, phase))
		sum += y
		s.push(startMinute+int64(i), exact(y))
	}
	out := map[plantedCase]*[plantedHours]hourScore{}
	for _, c.factor = range factors {
		_, at, _ := source()
		y := draw(plantedHours*60+WindowTo, func(i int) float64 {
			return at(before+i, c.factor*seasonal(before+i, strength, phase))
		})
		f := s.fork(t)
		out[c] = f.hours(y, c.factor*sum/float64(before))
		y = draw(plantedHours*60+WindowTo, func(i int) float64 {
			i += plantedHours * 60
			return at(before+i, seasonal(before+i, strength, phase))
		})
		c.back = true
		out[c] = f.hours(y, sum/float64(before))
		c.back = false
	}
	return out
}

// hours feeds the series with the next minutes and scores every fourth origin. Losses are divided by unit.
func (s *series) hours(y []float64, unit float64) *[plantedHours]hourScore {
	out := new([plantedHours]hourScore)
	from := s.history.Newest + 1
	for i := range plantedHours * 60 {
		s.push(from+int64(i), exact(y[i]))
		var f Forecast
		if i%4 == 3 && s.forecast(&f) {
			out[i/60].score(&f, y[i+1:], unit)
		}
	}
	return out
}

// plantedShare is a mean over draws and its standard error.
type plantedShare struct{ mean, se float64 }

// meansOver returns means over draws, from one hour to another: coverage at 90 and 95 % of minutes and of the largest,
// and the two losses. The standard error is over draws, because the hours of one draw are not independent.
func meansOver(got map[plantedCase]*[plantedHours]hourScore, from, to int, match func(c *plantedCase) bool) (out [6]plantedShare) {
	keys := make([]plantedCase, 0, len(got))
	for c := range got {
		if match(&c) {
			keys = append(keys, c)
		}
	}
	slices.SortFunc(keys, func(a, b plantedCase) int {
		return cmp.Or(cmp.Compare(a.noise, b.noise), cmp.Compare(a.days, b.days), cmp.Compare(indicator(a.season), indicator(b.season)), cmp.Compare(a.draw, b.draw))
	})
	n := float64(len(keys))
	var square [6]float64
	for _, c := range keys {
		var all hourScore
		for h := from; h < to; h++ {
			all.plus(&got[c][h])
		}
		for i, x := range [6]float64{all.minute90, all.minute95, all.most90, all.most95, all.minute, all.most} {
			out[i].mean += x / all.n / n
			square[i] += x / all.n * x / all.n / n
		}
	}
	for i := range out {
		out[i].se = math.Sqrt(max(0, square[i]-out[i].mean*out[i].mean) / (n - 1))
	}
	return out
}

// plantAll scores all changes for a number of draws of each noise, with and without a daily season.
func plantAll(t *testing.T, draws int, days []int) map[plantedCase]*[plantedHours]hourScore {
	var cases []plantedCase
	for n := range noises {
		for _, past := range days {
			for d := range 2 * draws {
				cases = append(cases, plantedCase{noise: n, days: past, season: d >= draws, draw: d % draws})
			}
		}
	}
	var lock sync.Mutex
	got := map[plantedCase]*[plantedHours]hourScore{}
	inParallel(len(cases), func(i int) {
		all := cases[i].scores(t)
		lock.Lock()
		defer lock.Unlock()
		maps.Copy(got, all)
	})
	return got
}

// TestPlantedTable prints coverage and losses by hour after a change of level. Skipped unless FOREWARM_PLANTED is the
// number of draws of each noise. FOREWARM_PLANTED_DAYS are the days before the change, such as 1,3,7.
func TestPlantedTable(t *testing.T) {
	draws, _ := strconv.Atoi(os.Getenv("FOREWARM_PLANTED"))
	if draws == 0 {
		t.Skip("set FOREWARM_PLANTED to the draws of each noise to print coverage after planted changes")
	}
	days := []int{1, 3}
	if s := os.Getenv("FOREWARM_PLANTED_DAYS"); s != "" {
		days = nil
		for _, d := range strings.Split(s, ",") {
			n, err := strconv.Atoi(d)
			if err != nil {
				t.Fatal(err)
			}
			days = append(days, n)
		}
	}
	got := plantAll(t, draws, days)
	var b strings.Builder
	line := func(name string, from, to int, match func(c *plantedCase) bool) {
		x := meansOver(got, from, to, match)
		fmt.Fprintf(&b, "%-30s minutes %5.1f %5.1f (±%.1f)  largest %5.1f %5.1f (±%.1f)  loss %.4f %.4f\n",
			name, 100*x[0].mean, 100*x[1].mean, 100*x[0].se, 100*x[2].mean, 100*x[3].mean, 100*x[2].se, x[4].mean, x[5].mean)
	}
	for _, factor := range factors {
		for h := range plantedHours {
			line(fmt.Sprintf("times %.1f, hour %d", factor, h), h, h+1, func(c *plantedCase) bool { return !c.back && c.factor == factor })
		}
	}
	for _, factor := range factors {
		for h := range 4 {
			line(fmt.Sprintf("times %.1f and back, hour %d", factor, h), h, h+1, func(c *plantedCase) bool { return c.back && c.factor == factor })
		}
		line(fmt.Sprintf("times %.1f and back, from hour 2", factor), 2, plantedHours, func(c *plantedCase) bool { return c.back && c.factor == factor })
	}
	for _, factor := range factors {
		line(fmt.Sprintf("times %.1f, from hour 2", factor), 2, plantedHours, func(c *plantedCase) bool { return !c.back && c.factor == factor })
		for n := range noises {
			line("  "+noises[n].name, 2, plantedHours, func(c *plantedCase) bool { return !c.back && c.factor == factor && c.noise == n })
		}
		for _, d := range days {
			line(fmt.Sprintf("  after %d days", d), 2, plantedHours, func(c *plantedCase) bool { return !c.back && c.factor == factor && c.days == d })
		}
		for _, season := range []bool{false, true} {
			line(fmt.Sprintf("  season %v", season), 2, plantedHours, func(c *plantedCase) bool { return !c.back && c.factor == factor && c.season == season })
		}
	}
	t.Log("\n" + b.String())
}
