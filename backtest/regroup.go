package backtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Parts are demands of one pool that can be classes of their own, or one class together.
type Parts struct {
	Pool   string
	Zone   *time.Location
	Start  time.Time   // of the first minute, from which models learn
	From   int         // the first minute that counts; days are counted from it
	Demand [][]float64 // tokens/s a minute, by part; NaN where it is not known
}

// Loss is the mean pinball loss of forecasts of what parts add up to, over [forecaster.ScoredLevels], in tokens/s.
type Loss struct {
	Minutes float64 // of each of the minutes forecaster.WindowFrom..WindowTo ahead
	Window  float64 // of the largest of them
	Origins int     // that were scored
}

// Division is how well a demand is forecast by day: as the sum of parts that are forecast apart, and as one.
type Division struct {
	Apart, AsOne []Loss
}

// scoreEvery is how many minutes there are between two origins that are scored; each costs as much as five minutes of
// learning.
const scoreEvery = 5

// Regroup forecasts parts one by one and their sum as one class, on the same demand, and scores both on what the parts came
// to together. The sum of the parts are sample paths that keep their dependence; see [forecaster.Config.Apart]. A minute
// counts in which some part is known: the others were silent. It costs what forecasting the parts and their sum costs.
func Regroup(ctx context.Context, parts *Parts, step func(done, all int)) (*Division, error) {
	days := parts.Days()
	f := forecaster.New(forecaster.Config{
		MaxClasses: len(parts.Demand), Zones: map[string]*time.Location{parts.Pool: parts.Zone}, StaleAfter: time.Hour, Apart: true,
	})
	sum := parts.sum()
	d := &Division{Apart: make([]Loss, days), AsOne: make([]Loss, days)}
	end := parts.From + days*minutesPerDay
	for m := range end {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		parts.observe(f, m)
		// A forecast belongs to the day of the last minute that it is scored in.
		if origin := m + 1; origin%scoreEvery == 0 && origin+forecaster.WindowTo > parts.From && origin+forecaster.WindowTo <= end {
			day := (origin + forecaster.WindowTo - 1 - parts.From) / minutesPerDay
			d.score(day, f.Forecast(parts.at(origin)), sum[origin+forecaster.WindowFrom-1:origin+forecaster.WindowTo])
		}
		if step != nil {
			step(m+1, end)
		}
	}
	for i := range days {
		d.Apart[i].settle()
		d.AsOne[i].settle()
	}
	return d, nil
}

// Days is how many whole days count.
func (p *Parts) Days() int { return max(len(p.Demand[0])-p.From, 0) / minutesPerDay }

func (p *Parts) at(minute int) time.Time { return p.Start.Add(time.Duration(minute) * features.Minute) }

func (p *Parts) sum() []float64 {
	sum := slices.Repeat([]float64{math.NaN()}, len(p.Demand[0]))
	for _, values := range p.Demand {
		for i, v := range values {
			switch {
			case math.IsNaN(v):
			case math.IsNaN(sum[i]):
				sum[i] = v
			default:
				sum[i] += v
			}
		}
	}
	return sum
}

// observe tells the forecaster of a minute.
func (p *Parts) observe(f *forecaster.Forecaster, m int) {
	known := slices.ContainsFunc(p.Demand, func(values []float64) bool { return !math.IsNaN(values[m]) })
	minute := features.PoolMinute{Pool: p.Pool, Start: p.at(m), Covered: known, LastEvent: p.at(m + 1)}
	var windows []features.Window
	for i, values := range p.Demand {
		w := features.Window{Key: features.Key{Pool: p.Pool, Class: fmt.Sprintf("part%02d", i)}, Start: p.at(m), Covered: known, Settled: true}
		if known {
			w.Records, w.PromptKnown = 1, 1
			if v := values[m]; !math.IsNaN(v) {
				w.PromptTokens = v * features.Minute.Seconds()
			}
		}
		windows = append(windows, w)
	}
	f.Observe(windows, []features.PoolMinute{minute})
}

// score adds what a forecast was worth; outcomes are of the minutes WindowFrom..WindowTo ahead.
func (d *Division) score(day int, forecasts []forecaster.PoolForecast, outcomes []float64) {
	if len(forecasts) != 1 || slices.ContainsFunc(outcomes, math.IsNaN) {
		return
	}
	pf := &forecasts[0]
	asOne := pf.Of(features.DimPrefill)
	if asOne == nil || len(pf.Paths.At) != 1 {
		return
	}
	paths, values := pf.Paths.At[0], make([]float64, len(pf.Paths.At[0]))
	largest := slices.Repeat([]float64{0}, len(paths))
	for i, y := range outcomes {
		h := forecaster.WindowFrom - 1 + i
		for j := range paths {
			values[j] = float64(paths[j][h])
			largest[j] = max(largest[j], values[j])
		}
		apart := quantilesOf(values)
		d.Apart[day].Minutes += forecaster.MeanPinball(y, &apart) / float64(len(outcomes))
		d.AsOne[day].Minutes += forecaster.MeanPinball(y, &asOne.Minute[h]) / float64(len(outcomes))
	}
	apart, y := quantilesOf(largest), slices.Max(outcomes)
	d.Apart[day].Window += forecaster.MeanPinball(y, &apart)
	d.AsOne[day].Window += forecaster.MeanPinball(y, &asOne.WindowMax)
	d.Apart[day].Origins++
	d.AsOne[day].Origins++
}

// quantilesOf draws, which it sorts.
func quantilesOf(draws []float64) (q forecaster.Quantiles) {
	slices.Sort(draws)
	for i, level := range forecaster.Levels {
		at := min(max(level*float64(len(draws))-.5, 0), float64(len(draws)-1))
		low := int(at)
		high := min(low+1, len(draws)-1)
		q[i] = draws[low] + (at-float64(low))*(draws[high]-draws[low])
	}
	return q
}

// settle makes means of sums.
func (l *Loss) settle() {
	l.Minutes /= float64(l.Origins)
	l.Window /= float64(l.Origins)
}

// total is what divisions are compared by.
func (l *Loss) total() float64 { return l.Minutes + l.Window }

// ApartIsBetter says whether the sum of the parts is forecast better than what is forecast as one, beyond noise, when so
// many divisions were tried: as [Objective.Better] has it, in each half of the days, by two hundredths in all, and in all
// but chance/tried of the draws of days.
func (d *Division) ApartIsBetter(tried int) bool {
	gains, before := d.gains()
	n := len(gains)
	if n < fewestDays || addUp(gains) < leastDivision*before {
		return false
	}
	return addUp(gains[:n/2]) > 0 && addUp(gains[n/2:]) > 0 && beyondChance(gains, tried)
}

// AsOneIsNoWorse says whether nothing is lost by one forecast of all parts: in neither half of the days is it worse.
func (d *Division) AsOneIsNoWorse() bool {
	gains, _ := d.gains()
	n := len(gains)
	return n >= fewestDays && addUp(gains[:n/2]) <= 0 && addUp(gains[n/2:]) <= 0
}

// leastDivision is the share of the loss that a division must save.
const leastDivision = 0.02

// gains are what the parts save by day, of those that were scored, and what all lose as one.
func (d *Division) gains() (gains []float64, before float64) {
	for i := range d.AsOne {
		if d.AsOne[i].Origins > 0 {
			gains = append(gains, d.AsOne[i].total()-d.Apart[i].total())
			before += d.AsOne[i].total()
		}
	}
	return gains, before
}

func addUp(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}

// Mean of losses by day; days without an origin are left out.
func Mean(days []Loss) (m Loss) {
	for _, d := range days {
		if d.Origins > 0 {
			m.Minutes += d.Minutes * float64(d.Origins)
			m.Window += d.Window * float64(d.Origins)
			m.Origins += d.Origins
		}
	}
	m.settle()
	return m
}
