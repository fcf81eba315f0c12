package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// watch is a pool of a fixed size that nobody scales, so that what Forewarm says of its saturation can come true. Its size
// is what the tuning part needs in nine of ten quarter hours: the largest minute of sixteen, at its 90 % quantile. It is warned
// as a pool of the daemon is: of the same probability, from a line that is learned from the trace's beginning on, by alarms that
// are raised and ended alike.
type watch struct {
	pool       capacity.Pool
	replicas   int
	from       time.Time
	calibrator *forecaster.Calibrator
	line       alerting.Line
	cfg        alerting.Config

	need        []float64 // of each minute from from on
	probability []float64 // of saturation within the warning window, as projected at the minute's beginning; NaN when it was not
	lines       []float64 // from which the pool was warned then
}

const (
	watchShare = .9
	watchMax   = 16 // minutes
	quiet      = 30 // minutes without saturation after which the next is a new one
	notice     = 60 // minutes before a saturation for which an alarm counts as its own
)

// newWatch is a pool that was enough in part of the quarter hours of the tuning part.
func newWatch(pool capacity.Pool, cfg alerting.Config, tuning []float64, part float64, from time.Time) *watch {
	var most []float64
	for i := watchMax; i <= len(tuning); i++ {
		most = append(most, slices.Max(tuning[i-watchMax:i]))
	}
	w := &watch{pool: pool, cfg: cfg, replicas: 1, from: from}
	if len(most) > 0 {
		slices.Sort(most)
		w.replicas = max(1, int(most[int(part*float64(len(most)-1))]))
	}
	return w
}

// serve takes in a minute's need.
func (w *watch) serve(at time.Time, need float64) {
	if !at.Before(w.from) {
		w.need = append(w.need, need)
	}
}

// project takes in what is forecast at t; calibrator is the pipeline's.
func (w *watch) project(t time.Time, f *forecaster.PoolForecast, calibrator *forecaster.Calibrator, demand *Demand) {
	if w.calibrator == nil {
		w.calibrator = calibrator.WithSharedRanks()
	}
	w.line.Judge(w.calibrator.Learn(t, demand.before(t)))
	if f.Stale {
		return
	}
	window := forecaster.WarningWindow(forecaster.LeadTime(&w.pool.Warmup))
	p := forecaster.Project(f, &w.pool, &w.pool.Warmup, forecaster.Supply{Ready: w.replicas}, 0, window, w.calibrator)
	w.calibrator.Issue(f, &p, &w.pool.Warmup)
	line, _ := w.line.At(w.cfg)
	w.line.Tick(t, p.Probability, w.cfg)
	if t.Before(w.from) {
		return
	}
	for at := int(t.Sub(w.from) / features.Minute); len(w.probability) <= at; {
		w.probability, w.lines = append(w.probability, math.NaN()), append(w.lines, math.NaN())
	}
	w.probability[len(w.probability)-1], w.lines[len(w.lines)-1] = p.Probability, line
}

// Alarms is what announcing the saturation of a pool of fixed size was worth.
type Alarms struct {
	Replicas int    `json:"replicas"` // of the pool
	Weeks    Number `json:"weeks"`
	// Onsets are saturations after half an hour without. Announced they are by an alarm that lasted at the last instant at
	// which a median warm-up would have averted them and was raised, or came true, in the hour before.
	Onsets int `json:"onsets"`
	// Operating is as configured: from the learned line on, its threshold the mean, or at alert_probability.
	Operating AlarmPoint `json:"operating_point"`
	Learned   bool       `json:"learned"` // Operating is
}

// AlarmPoint is what alarms at one threshold of probability are worth.
type AlarmPoint struct {
	Threshold    Number `json:"threshold"`
	Raised       int    `json:"raised"`
	Precision    Number `json:"precision"` // share of alarms that saturation followed, within an hour of their end
	Recall       Number `json:"recall"`    // share of onsets announced in time
	LeadP50      Number `json:"lead_p50_s"`
	FalsePerWeek Number `json:"false_per_week"`
	// HourlyFalsePerWeek judges an alarm that stands anew each hour, by the hour that follows: as decision.false_warnings_per_week
	// counts them.
	HourlyFalsePerWeek Number `json:"hourly_false_per_week"`
	Announced          Number `json:"announced_share"` // of all minutes, in which an alarm stood
}

func (w *watch) alarms() *Alarms {
	onsets := w.onsets()
	a := &Alarms{
		Replicas: w.replicas, Weeks: Number(float64(len(w.need)) / (7 * day)), Onsets: len(onsets), Learned: w.cfg.FalseAlarmsPerWeek > 0,
	}
	if a.Learned {
		a.Operating = w.at(func(minute int) float64 { return w.lines[minute] }, onsets)
		a.Operating.Threshold = w.meanLine()
	} else {
		a.Operating = w.always(w.cfg.AlertProbability, onsets)
	}
	return a
}

// always scores the alarms at the same threshold in each minute.
func (w *watch) always(threshold float64, onsets []int) AlarmPoint {
	p := w.at(func(int) float64 { return threshold }, onsets)
	p.Threshold = Number(threshold)
	return p
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
func (w *watch) episodes(threshold func(minute int) float64) (all []episode) {
	var alarm alerting.Alarm
	for m := range min(len(w.need), len(w.probability)) {
		stood := alarm.Stands
		switch p := w.probability[m]; {
		case math.IsNaN(p): // between decisions
		case !stood && m > 0 && w.saturated(m-1):
			alarm = alerting.Alarm{}
		case alarm.Tick(p, threshold(m), w.cfg) && !stood:
			all = append(all, episode{from: m})
		}
		if alarm.Stands {
			all[len(all)-1].to = m + 1
		}
	}
	return all
}

// at scores the alarms at a threshold.
func (w *watch) at(threshold func(minute int) float64, onsets []int) AlarmPoint {
	episodes := w.episodes(threshold)
	p := AlarmPoint{Raised: len(episodes)}
	right, wrongHours, announced := 0, 0, 0
	for _, e := range episodes {
		announced += e.to - e.from
		if w.saturates(e.from, e.to+notice) {
			right++
		}
		for m := e.from; m < e.to; m += notice {
			if !w.saturates(m, m+notice) {
				wrongHours++
			}
		}
	}
	latest := int(math.Ceil(w.pool.Warmup.Quantile(.5).Minutes()))
	var leads []float64
	for _, onset := range onsets {
		for _, e := range episodes {
			if e.from <= onset-latest && e.to > onset-latest && w.fresh(e, onset) {
				leads = append(leads, float64(min(onset-e.from, notice)*60))
				break
			}
		}
	}
	weeks := float64(len(w.need)) / (7 * day)
	p.Precision, p.Recall = Number(share(float64(right), float64(len(episodes)))), Number(share(float64(len(leads)), float64(len(onsets))))
	p.FalsePerWeek, p.HourlyFalsePerWeek = Number(share(float64(len(episodes)-right), weeks)), Number(share(float64(wrongHours), weeks))
	p.Announced = Number(share(float64(announced), float64(len(w.need))))
	p.LeadP50 = Number(math.NaN())
	if len(leads) > 0 {
		slices.Sort(leads)
		p.LeadP50 = Number(leads[(len(leads)-1)/2])
	}
	return p
}

// fresh says that an alarm was raised, or came true, within notice before a saturation: one that stands for days announces nothing.
func (w *watch) fresh(e episode, onset int) bool {
	return onset-e.from <= notice || w.saturates(onset-notice, onset)
}

// saturates says whether the pool is saturated in some minute from one up to another.
func (w *watch) saturates(from, to int) bool {
	for m := from; m < min(to, len(w.need)); m++ {
		if w.saturated(m) {
			return true
		}
	}
	return false
}

// meanLine is the mean of the lines from which the pool was warned.
func (w *watch) meanLine() Number {
	sum, n := 0., 0.
	for _, x := range w.lines {
		if !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	return Number(share(sum, n))
}
