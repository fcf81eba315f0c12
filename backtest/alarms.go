package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// fixedPool is a pool of fixed size without scaling, so that forecast saturation can happen. Its size is the need of
// the tuning part in 90 % of quarter hours: the largest minute of sixteen, at its 90 % quantile. Its alarms work as in
// the daemon: same probability, same rules for start and end.
type fixedPool struct {
	pool     capacity.Pool
	replicas int
	from     time.Time
	cfg      alerting.Config

	need        []float64 // of each minute since from, replicas; 0 if unknown
	probability []float64 // of saturation within the warning window, at the start of the minute; NaN if none was made
}

const (
	fixedPoolShare   = .9
	peakMinutes      = 16 // of a quarter hour, with both ends
	minQuietMinutes  = 30 // minutes without saturation before a new one
	maxNoticeMinutes = 60 // minutes before a saturation in which its alarm may begin
)

// newFixedPool creates a pool that is large enough for a share of the quarter hours of need before its minute first.
// Its alarms count from this minute, which begins at from.
func newFixedPool(
	pool capacity.Pool, cfg alerting.Config, need []float64, first int, share float64, from time.Time,
) *fixedPool {
	var peaks []float64
	for i := peakMinutes; i <= first; i++ {
		peaks = append(peaks, slices.Max(need[i-peakMinutes:i]))
	}
	w := &fixedPool{pool: pool, cfg: cfg, replicas: 1, from: from, need: need[first:]}
	if len(peaks) > 0 {
		slices.Sort(peaks)
		w.replicas = max(1, int(peaks[int(share*float64(len(peaks)-1))]))
	}
	return w
}

// addForecast adds the forecast at t. The calibrator is the pipeline's.
func (w *fixedPool) addForecast(t time.Time, f *forecaster.PoolForecast, calibrator *forecaster.Calibrator) {
	if f.Stale || t.Before(w.from) {
		return
	}
	window := forecaster.WarningWindow(forecaster.LeadTime(&w.pool.Warmup))
	own, supply := alerting.Serving{Pool: &w.pool, Role: capacity.DecodeRole}, forecaster.Supply{Ready: w.replicas}
	p := forecaster.Project(f, own, &w.pool.Warmup, supply, 0, window, calibrator)
	for len(w.probability) < int(t.Sub(w.from)/features.Minute) {
		w.probability = append(w.probability, math.NaN())
	}
	w.probability = append(w.probability, p.Probability)
}

// Alarms is the quality of saturation alarms for a pool of fixed size.
type Alarms struct {
	Replicas int    `json:"replicas"` // of the pool
	Weeks    Number `json:"weeks"`
	// Onsets are saturations after half an hour without one. An onset is announced if an alarm was active at the last
	// time at which a median warm-up would have prevented it, and was raised or came true in the hour before.
	Onsets    int        `json:"onsets"`
	Operating AlarmPoint `json:"operating_point"` // at decision.warning_probability
}

// AlarmPoint is the quality of alarms at one probability threshold.
type AlarmPoint struct {
	Threshold    Number `json:"threshold"`
	Raised       int    `json:"raised"`
	Precision    Number `json:"precision"` // share of alarms with a saturation until an hour after their end
	Recall       Number `json:"recall"`    // share of onsets announced in time
	LeadP50      Number `json:"lead_p50_s"`
	FalsePerWeek Number `json:"false_per_week"`
	// HourlyFalsePerWeek counts each hour of an alarm by the hour that follows.
	HourlyFalsePerWeek Number `json:"hourly_false_per_week"`
	Announced          Number `json:"announced_share"` // share of all minutes with an active alarm
}

func (w *fixedPool) alarms() *Alarms {
	onsets := w.onsets()
	return &Alarms{
		Replicas: w.replicas, Weeks: Number(w.weeks()), Onsets: len(onsets), Operating: w.score(w.cfg.WarningProbability, onsets),
	}
}

func (w *fixedPool) weeks() float64 { return float64(len(w.need)) / (7 * day) }

func (w *fixedPool) saturated(minute int) bool { return w.need[minute] > float64(w.replicas) }

func (w *fixedPool) onsets() (minutes []int) {
	last := -minQuietMinutes - 1
	for m := range w.need {
		if w.saturated(m) {
			if m-last > minQuietMinutes && m >= minQuietMinutes {
				minutes = append(minutes, m)
			}
			last = m
		}
	}
	return minutes
}

// episode is an alarm, from its first minute to the first minute after it.
type episode struct{ from, to int }

// episodes returns the alarms at a threshold. None is raised while the pool is saturated.
func (w *fixedPool) episodes(threshold float64) (all []episode) {
	alarm, active := alerting.AlertTracker{}, false
	for m := range min(len(w.need), len(w.probability)) {
		was := active
		switch p := w.probability[m]; {
		case math.IsNaN(p): // no forecast
		case !active && m > 0 && w.saturated(m-1):
			alarm = alerting.AlertTracker{}
		default:
			var held []alerting.Condition
			if p >= alerting.FadeShare*threshold {
				held = []alerting.Condition{{Name: alerting.SaturationAhead, Severity: alerting.Warning, Fading: p < threshold}}
			}
			alerts := alarm.Update(w.from.Add(time.Duration(m)*features.Minute), held)
			active = len(alerts) > 0 && !alerts[0].Resolved
		}
		if active && !was {
			all = append(all, episode{from: m})
		}
		if active {
			all[len(all)-1].to = m + 1
		}
	}
	return all
}

func (w *fixedPool) score(threshold float64, onsets []int) AlarmPoint {
	episodes := w.episodes(threshold)
	p := AlarmPoint{Threshold: Number(threshold), Raised: len(episodes)}
	right, wrongHours, announced := 0, 0, 0
	for _, e := range episodes {
		announced += e.to - e.from
		if w.saturates(e.from, e.to+maxNoticeMinutes) {
			right++
		}
		for m := e.from; m < e.to; m += maxNoticeMinutes {
			if !w.saturates(m, m+maxNoticeMinutes) {
				wrongHours++
			}
		}
	}
	latest := int(math.Ceil(w.pool.Warmup.Quantile(.5).Minutes()))
	var leads []float64
	for _, onset := range onsets {
		for _, e := range episodes {
			// An alarm that lasts for days announces nothing.
			recent := onset-e.from <= maxNoticeMinutes || w.saturates(onset-maxNoticeMinutes, onset)
			if e.from <= onset-latest && e.to > onset-latest && recent {
				leads = append(leads, float64(min(onset-e.from, maxNoticeMinutes)*60))
				break
			}
		}
	}
	share := func(part int, whole float64) Number { return Number(value.Share(float64(part), whole)) }
	p.Precision, p.Recall = share(right, float64(len(episodes))), share(len(leads), float64(len(onsets)))
	p.FalsePerWeek, p.HourlyFalsePerWeek = share(len(episodes)-right, w.weeks()), share(wrongHours, w.weeks())
	p.Announced = share(announced, float64(len(w.need)))
	p.LeadP50 = Number(math.NaN())
	if len(leads) > 0 {
		slices.Sort(leads)
		p.LeadP50 = Number(leads[(len(leads)-1)/2])
	}
	return p
}

// saturates reports whether the pool is saturated in a minute of [from, to).
func (w *fixedPool) saturates(from, to int) bool {
	to = min(to, len(w.need))
	return from < to && slices.Max(w.need[from:to]) > float64(w.replicas)
}
