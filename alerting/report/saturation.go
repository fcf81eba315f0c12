package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// run is a sequence of minutes or ticks of one episode or warning.
type run struct {
	start, last int   // minutes
	tick        *tick // of a warning: its first
	claimEnd    int   // of a warning: last minute of its claim
}

// extend adds a minute to the last run, or begins another.
func extend(runs []run, minute int, t *tick) []run {
	if n := len(runs); n > 0 && minute-runs[n-1].last-1 <= mergeWithin {
		runs[n-1].last = minute
		return runs
	}
	return append(runs, run{start: minute, last: minute, tick: t})
}

// announces reports whether an episode begins within a warning's claim.
func (r run) announces(episode run) bool {
	return r.start < episode.start && episode.start <= r.claimEnd
}

func (p *pool) saturation() Saturation {
	out := Saturation{Episodes: []Episode{}}
	var episodes, warnings []run
	for m, x := range p.minutes {
		if m >= p.first && !math.IsNaN(x.utilisation) {
			out.KnownMinutes++
		}
		if x.utilisation > 1 {
			episodes = extend(episodes, m, nil)
			if m >= p.first {
				out.SaturatedMinutes++
			}
		}
	}
	for i := range p.ticks {
		if t := &p.ticks[i]; t.warns {
			warnings = extend(warnings, p.index(t.at), t)
			warnings[len(warnings)-1].claimEnd = p.index(t.at.Add(forecaster.WarningWindow(t.lead)))
		}
	}
	counts := map[Outcome]*int{InTime: &out.InTime, Late: &out.Late, Missed: &out.Missed}
	var leads []float64
	for _, e := range episodes {
		if e.start < p.first {
			continue
		}
		row := p.episode(e, warnings)
		out.Episodes = append(out.Episodes, row)
		*counts[row.Outcome]++
		if row.LeadMinutes.Known() {
			leads = append(leads, float64(row.LeadMinutes))
		}
	}
	for _, w := range warnings {
		if w.start < p.first || slices.ContainsFunc(episodes, func(e run) bool {
			return w.announces(e) || e.start <= w.start && w.start <= e.last+mergeWithin
		}) {
			continue
		}
		crossed, known := p.firstShortMinute(w)
		switch {
		case crossed > 0:
			out.Averted++
			leads = append(leads, float64(crossed-w.start))
		case !known:
			out.Open++
		default:
			out.False++
		}
	}
	slices.Sort(leads)
	out.LeadMinutes = Number(features.QuantileOf(leads, .5))
	return out
}

func (p *pool) episode(e run, warnings []run) Episode {
	start := p.base.Add(time.Duration(e.start) * features.Minute)
	out := Episode{Start: start, Minutes: e.last - e.start + 1, Outcome: Missed, LeadMinutes: value.Unknown}
	peak := e.start
	for m := e.start; m <= e.last; m++ {
		if p.minutes[m].utilisation > p.minutes[peak].utilisation {
			peak = m
		}
	}
	x := &p.minutes[peak]
	out.Resource, out.Utilisation, out.Cause = x.resource, Number(x.utilisation), x.tick.cause
	out.Forecast = out.Utilisation * Number(p.forecastLoad(x.resource, forecaster.L50, peak)/p.loadOf(x.resource, peak))
	if i := slices.IndexFunc(warnings, func(w run) bool { return w.announces(e) }); i >= 0 {
		first := warnings[i].tick
		lead := out.Start.Sub(first.at)
		out.LeadMinutes = Number(lead.Minutes())
		out.Outcome = Late
		if lead >= first.lead {
			out.Outcome = InTime
		}
	}
	return out
}

// firstShortMinute is the first minute of a warning's claim in which load exceeded the capacity ready at its start, 0
// if there is none; known reports whether load was known in every minute of the claim.
func (p *pool) firstShortMinute(w run) (minute int, known bool) {
	known = w.claimEnd < p.end
	for m := w.start + 1; m <= min(w.claimEnd, p.end-1); m++ {
		u := p.load(w.tick, m).utilisation
		if u > 1 {
			return m, true
		}
		known = known && !math.IsNaN(u)
	}
	return 0, known
}
