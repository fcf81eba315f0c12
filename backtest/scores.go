package backtest

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Score is how well one series was forecast at one horizon, over every origin that was scored. Rates are compared as
// averages over a minute; "max15_30" is the largest of the minutes 15 to 30.
type Score struct {
	Class     string `json:"class"` // "*" is the pool
	Dimension string `json:"dimension"`
	Horizon   string `json:"horizon"` // minutes, or max15_30
	N         int    `json:"n"`
	WAPE      Number `json:"wape"`    // of the median
	MASE      Number `json:"mase"`    // against the last value
	Bias      Number `json:"bias"`    // of the median, share of the mean
	Pinball   Number `json:"pinball"` // mean over the levels .5 .8 .9 .95 .99, in the dimension's unit
	Cover90   Number `json:"coverage_90"`
	Cover95   Number `json:"coverage_95"`
}

// Number is a float64 that is null in JSON when it is not finite.
type Number float64

// MarshalJSON writes six significant digits.
func (n Number) MarshalJSON() ([]byte, error) {
	if x := float64(n); math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 6, 64), nil
}

// scoredMinutes are the minutes ahead that scores are kept of; the window maximum comes after them.
var scoredMinutes = [...]int{1, 5, 15, 30}

const (
	windowTarget  = len(scoredMinutes)
	scoredTargets = windowTarget + 1
	windowMax     = "max15_30"
	// outcomeMinutes is how long outcomes are kept: as long as the furthest target.
	outcomeMinutes = 32
)

// scorer matches forecasts with what came. Memory: per series, five quantile sets for each origin of the last half
// hour, and half an hour of outcomes.
type scorer struct {
	from   time.Time // origins before it are not scored
	series map[seriesKey]*scoredSeries
}

type seriesKey struct{ class, dimension string }

type scoredSeries struct {
	totals  [scoredTargets]forecaster.Accumulator
	pending []issued // by origin
	outcome [outcomeMinutes]outcome
}

type outcome struct {
	minute int64 // since 1970
	y      float64
}

type issued struct {
	origin    int64 // minutes since 1970
	last      float64
	quantiles [scoredTargets]forecaster.Quantiles
}

func newScorer(from time.Time) *scorer {
	return &scorer{from: from, series: map[seriesKey]*scoredSeries{}}
}

// issue notes the forecasts of an origin.
func (s *scorer) issue(fs []forecaster.Forecast) {
	for i := range fs {
		f := &fs[i]
		if f.Origin.Before(s.from) {
			continue
		}
		key := seriesKey{f.Class, f.Dimension}
		x := s.series[key]
		if x == nil {
			x = &scoredSeries{}
			s.series[key] = x
		}
		p := issued{origin: f.Origin.Unix() / 60, last: f.Last}
		for k, h := range scoredMinutes {
			p.quantiles[k] = f.Minute[h-1]
		}
		p.quantiles[windowTarget] = f.WindowMax
		x.pending = append(x.pending, p)
	}
}

// observe takes what came of the minutes that are final in a tick's windows.
func (s *scorer) observe(windows []features.Window) {
	for from := 0; from < len(windows); {
		to := from
		for to < len(windows) && windows[to].Start.Equal(windows[from].Start) {
			to++
		}
		if windows[from].Settled {
			s.settle(windows[from:to])
		}
		from = to
	}
}

// settle scores one minute, classes first and then their sum.
func (s *scorer) settle(windows []features.Window) {
	minute := windows[0].Start.Unix() / 60
	for _, d := range features.Dimensions {
		if !d.Forecast {
			continue
		}
		sum := math.NaN()
		for i := range windows {
			y, ok := d.Value(&windows[i])
			if !ok {
				continue
			}
			if math.IsNaN(sum) {
				sum = 0
			}
			sum += y
			s.score(seriesKey{windows[i].Class, d.Name}, minute, y)
		}
		if !math.IsNaN(sum) {
			s.score(seriesKey{features.TotalClass, d.Name}, minute, sum)
		}
	}
}

func (s *scorer) score(key seriesKey, minute int64, y float64) {
	x := s.series[key]
	if x == nil {
		return
	}
	x.outcome[minute%outcomeMinutes] = outcome{minute, y}
	for i := range x.pending {
		p := &x.pending[i]
		for k, h := range scoredMinutes {
			if p.origin+int64(h)-1 == minute {
				x.totals[k].Add(y, &p.quantiles[k], p.last)
			}
		}
		if p.origin+forecaster.WindowTo-1 == minute {
			if most := x.largest(p.origin); !math.IsNaN(most) {
				x.totals[windowTarget].Add(most, &p.quantiles[windowTarget], math.NaN())
			}
		}
	}
	done := 0
	for done < len(x.pending) && x.pending[done].origin+forecaster.WindowTo-1 <= minute {
		done++
	}
	x.pending = slices.Delete(x.pending, 0, done)
}

// largest is the largest outcome of the window after an origin; NaN when a minute of it is not known.
func (x *scoredSeries) largest(origin int64) float64 {
	most := math.Inf(-1)
	for m := origin + forecaster.WindowFrom - 1; m < origin+forecaster.WindowTo; m++ {
		o := x.outcome[m%outcomeMinutes]
		if o.minute != m {
			return math.NaN()
		}
		most = max(most, o.y)
	}
	return most
}

// scores are all that have outcomes, by class (the pool first), dimension as in features.Dimensions, and horizon.
func (s *scorer) scores() []Score {
	rank := map[string]int{}
	for i, d := range features.Dimensions {
		rank[d.Name] = i
	}
	keys := make([]seriesKey, 0, len(s.series))
	for k := range s.series {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(rank[a.dimension], rank[b.dimension]))
	})
	var all []Score
	for _, key := range keys {
		for k := range scoredTargets {
			a := &s.series[key].totals[k]
			if a.N == 0 {
				continue
			}
			horizon := windowMax
			if k < windowTarget {
				horizon = strconv.Itoa(scoredMinutes[k])
			}
			c90, _, _ := a.Coverage(forecaster.L90)
			c95, _, _ := a.Coverage(forecaster.L95)
			all = append(all, Score{
				Class: key.class, Dimension: key.dimension, Horizon: horizon, N: a.N, WAPE: Number(a.WAPE()), MASE: Number(a.MASE()),
				Bias: Number(a.Bias()), Pinball: Number(a.MeanPinball()), Cover90: Number(c90), Cover95: Number(c95),
			})
		}
	}
	return all
}
