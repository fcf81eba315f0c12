package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// watch is a pool of a fixed size that nobody scales, so that what Forewarm says of its saturation can come true. Its size
// is what the tuning part needs in nine of ten quarter hours: the largest minute of sixteen, at its 90 % quantile.
type watch struct {
	pool     capacity.Pool
	replicas int
	from     time.Time
	outlook  *forecaster.Outlook

	need        []float64 // of each minute from from on
	probability []float64 // of saturation within watchWindow, as projected at the minute's beginning; NaN when it was not
}

const (
	watchWindow = 30 * time.Minute // for which saturation is projected
	watchShare  = .9
	watchMax    = 16 // minutes
	quiet       = 30 // minutes without saturation after which the next is a new one
	notice      = 60 // minutes before a saturation for which an alarm counts as its own
	alarmEnds   = 15 // minutes below the threshold after which an alarm is over
)

func newWatch(pool capacity.Pool, tuning []float64, from time.Time) *watch {
	var most []float64
	for i := watchMax; i <= len(tuning); i++ {
		most = append(most, slices.Max(tuning[i-watchMax:i]))
	}
	w := &watch{pool: pool, replicas: 1, from: from}
	if len(most) > 0 {
		slices.Sort(most)
		w.replicas = max(1, int(most[int(watchShare*float64(len(most)-1))]))
	}
	return w
}

// serve takes in a minute's need.
func (w *watch) serve(at time.Time, need float64) {
	if !at.Before(w.from) {
		w.need = append(w.need, need)
	}
}

// project takes in what is forecast at t; outlook is the pipeline's.
func (w *watch) project(t time.Time, f *forecaster.PoolForecast, outlook *forecaster.Outlook, demand *Demand) {
	if w.outlook == nil {
		w.outlook = outlook.Beside()
	}
	w.outlook.Learn(t, demand.before(t))
	if f.Stale {
		return
	}
	p := forecaster.Project(f, &w.pool, &w.pool.Warmup, forecaster.Supply{Ready: w.replicas}, 0, watchWindow, w.outlook)
	w.outlook.Issue(f, &p, &w.pool.Warmup, 0)
	if t.Before(w.from) {
		return
	}
	for at := int(t.Sub(w.from) / features.Minute); len(w.probability) <= at; {
		w.probability = append(w.probability, math.NaN())
	}
	w.probability[len(w.probability)-1] = p.Probability
}

// Alarms is what announcing the saturation of a pool of fixed size was worth.
type Alarms struct {
	Replicas int    `json:"replicas"` // of the pool
	Weeks    Number `json:"weeks"`
	// Onsets are saturations after half an hour without. Announced they are by an alarm that lasted at the last instant at
	// which a median warm-up would have averted them and was raised in the hour before.
	Onsets    int          `json:"onsets"`
	Operating AlarmPoint   `json:"operating_point"` // at the configured alert_probability
	Curve     []AlarmPoint `json:"curve"`           // by rising threshold
}

// AlarmPoint is what alarms at one threshold of probability are worth.
type AlarmPoint struct {
	Threshold    float64 `json:"threshold"`
	Raised       int     `json:"raised"`
	Precision    Number  `json:"precision"` // share of alarms that saturation followed, within an hour of their end
	Recall       Number  `json:"recall"`    // share of onsets announced in time
	LeadP50      Number  `json:"lead_p50_s"`
	FalsePerWeek Number  `json:"false_per_week"`
	// FalseShare is in how many of the minutes that no saturation follows within the hour, nor is there, an alarm stood.
	FalseShare Number `json:"false_share"`
}

var alarmThresholds = []float64{.02, .05, .1, .15, .2, .3, .4, .5, .6, .7, .8, .9, .95}

func (w *watch) alarms(threshold float64) *Alarms {
	onsets := w.onsets()
	a := &Alarms{
		Replicas: w.replicas, Weeks: Number(float64(len(w.need)) / (7 * day)), Onsets: len(onsets), Operating: w.at(threshold, onsets),
	}
	for _, t := range alarmThresholds {
		a.Curve = append(a.Curve, w.at(t, onsets))
	}
	return a
}

func (w *watch) saturated(minute int) bool { return w.need[minute] > float64(w.replicas) }

// onsets are the minutes in which a saturation began.
func (w *watch) onsets() (minutes []int) {
	last := -quiet - 1
	for m := range w.need {
		if w.saturated(m) {
			if m-last > quiet && m >= quiet {
				minutes = append(minutes, m)
			}
			last = m
		}
	}
	return minutes
}

// episode is an alarm, from the minute that raised it to the first that is over.
type episode struct{ from, to int }

// episodes are the alarms at a threshold. None is raised while the pool is saturated: that is no news.
func (w *watch) episodes(threshold float64) (all []episode) {
	below := 0
	open := false
	for m := range min(len(w.need), len(w.probability)) {
		p := w.probability[m]
		switch {
		case math.IsNaN(p): // between decisions
		case p >= threshold && open:
			below = 0
		case p >= threshold:
			if m == 0 || !w.saturated(m-1) {
				all, open, below = append(all, episode{from: m}), true, 0
			}
		default:
			below++
		}
		if open && below >= alarmEnds {
			open = false
		}
		if open {
			all[len(all)-1].to = m + 1
		}
	}
	return all
}

// at scores the alarms at one threshold.
func (w *watch) at(threshold float64, onsets []int) AlarmPoint {
	p := AlarmPoint{Threshold: threshold}
	episodes := w.episodes(threshold)
	p.Raised = len(episodes)
	right := 0
	for _, e := range episodes {
		for m := e.from; m < min(e.to+notice, len(w.need)); m++ {
			if w.saturated(m) {
				right++
				break
			}
		}
	}
	p.FalseShare = Number(w.standing(episodes))
	latest := int(math.Ceil(w.pool.Warmup.Quantile(.5).Minutes()))
	var leads []float64
	for _, onset := range onsets {
		for _, e := range episodes {
			if e.from <= onset-latest && e.to > onset-latest {
				leads = append(leads, float64(min(onset-e.from, notice)*60))
				break
			}
		}
	}
	p.Precision, p.Recall = Number(share(float64(right), float64(len(episodes)))), Number(share(float64(len(leads)), float64(len(onsets))))
	p.FalsePerWeek = Number(share(float64(len(episodes)-right), float64(len(w.need))/(7*day)))
	p.LeadP50 = Number(math.NaN())
	if len(leads) > 0 {
		slices.Sort(leads)
		p.LeadP50 = Number(leads[(len(leads)-1)/2])
	}
	return p
}

// standing is the share of minutes in which an alarm stood, of those that no saturation follows within notice. O(minutes).
func (w *watch) standing(episodes []episode) float64 {
	quiet, stood, next := 0, 0, len(w.need)+notice // next is the first saturated minute from m on
	for m := len(w.need) - 1; m >= 0; m-- {
		if w.saturated(m) {
			next = m
		}
		for len(episodes) > 0 && episodes[len(episodes)-1].from > m {
			episodes = episodes[:len(episodes)-1]
		}
		if next-m >= notice {
			quiet++
			if len(episodes) > 0 && m < episodes[len(episodes)-1].to {
				stood++
			}
		}
	}
	return share(float64(stood), float64(quiet))
}
