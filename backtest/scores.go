package backtest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// Score is the forecast quality of one series at one horizon, over all scored origins. Rates are averages over a
// minute; "max15_30" is the largest of the minutes 15 to 30.
type Score struct {
	Class     string `json:"class"` // "*" is the pool
	Dimension string `json:"dimension"`
	Horizon   string `json:"horizon"` // minutes, or max15_30
	N         int    `json:"n"`
	WAPE      Number `json:"wape"`    // of the median
	MASE      Number `json:"mase"`    // absolute error over that of the last value at the same horizon
	Bias      Number `json:"bias"`    // of the median, share of the mean
	Pinball   Number `json:"pinball"` // mean over the levels .5 .8 .9 .95 .99, in the dimension's unit
	Cover90   Number `json:"coverage_90"`
	Cover95   Number `json:"coverage_95"`
}

// Number may be unknown.
type Number = value.Number

// scoredMinutes are the scored horizons, beside the window maximum.
var scoredMinutes = []int{1, 5, 15, 30}

type scores struct {
	from   time.Time // earlier origins are not scored
	series map[seriesKey]*forecaster.Scorer
}

type seriesKey struct{ class, dimension string }

func (s *scores) of(key seriesKey) *forecaster.Scorer {
	x := s.series[key]
	if x == nil {
		x = forecaster.NewScorer(0, scoredMinutes...)
		s.series[key] = x
	}
	return x
}

func (s *scores) issue(fs []forecaster.Forecast) {
	for i := range fs {
		if f := &fs[i]; !f.Origin.Before(s.from) {
			s.of(seriesKey{f.Class, f.Dimension}).Issue(f)
		}
	}
}

// observe scores the minute that settles, whose windows come first: the classes, and then their sum.
func (s *scores) observe(windows []features.Window) {
	n := 0
	for n < len(windows) && windows[n].Settled {
		n++
	}
	if n == 0 {
		return
	}
	minute := windows[0].Start.Unix() / 60
	for _, d := range features.Forecast {
		sum, known := 0.0, false
		for i := range windows[:n] {
			if y, ok := d.Value(&windows[i]); ok {
				sum, known = sum+y, true
				s.of(seriesKey{windows[i].Class, d.Name}).Observe(minute, y)
			}
		}
		if known {
			s.of(seriesKey{features.TotalClass, d.Name}).Observe(minute, sum)
		}
	}
}

// all returns the scores with outcomes, by class (the pool first), dimension as in features.Dimensions, and horizon.
func (s *scores) all() []Score {
	keys := slices.SortedFunc(maps.Keys(s.series), func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(features.ForecastIndex(a.dimension), features.ForecastIndex(b.dimension)))
	})
	var all []Score
	for _, key := range keys {
		for _, a := range s.series[key].Scores {
			if a.N == 0 {
				continue
			}
			all = append(all, Score{
				Class: key.class, Dimension: key.dimension, Horizon: a.Horizon, N: a.N, WAPE: Number(a.WAPE()),
				MASE: Number(a.RelativeMAE()), Bias: Number(a.Bias()),
				Pinball: Number(a.MeanPinball()),
				Cover90: a.Coverage(forecaster.L90).Share, Cover95: a.Coverage(forecaster.L95).Share,
			})
		}
	}
	return all
}
