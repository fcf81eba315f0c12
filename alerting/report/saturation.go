package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// load is a pool's load in one minute, in the resource that needs most replicas.
type load struct {
	replicas    float64 // load over the capacity of one; NaN if unknown
	utilisation float64 // of the ready replicas; NaN if unknown
	resource    string
	cause       string // that the decision in force names
}

// needed is the number of replicas; unknownNeed if it is unknown.
func (l load) needed() int {
	if math.IsNaN(l.replicas) {
		return unknownNeed
	}
	return int(math.Ceil(l.replicas - 1e-9))
}

// run is a sequence of minutes or ticks of one episode or warning.
type run struct {
	start, last int // minutes
	tick        *tick
	claimEnd    int // of a warning: last minute of its claim
}

func (b *builder) saturation(pool string) Saturation {
	out := Saturation{Episodes: []Episode{}}
	loads := b.loads(pool)
	for _, l := range loads[b.first:] {
		if !math.IsNaN(l.utilisation) {
			out.KnownMinutes++
		}
		if l.utilisation > 1 {
			out.SaturatedMinutes++
		}
	}
	var episodes []run
	for m, l := range loads {
		if l.utilisation > 1 {
			episodes = extend(episodes, m, nil)
		}
	}
	warnings := b.warnings(pool)
	var leads []float64
	for _, e := range episodes {
		if e.start < b.first {
			continue
		}
		row := b.episode(pool, e, loads, warnings)
		out.Episodes = append(out.Episodes, row)
		switch row.Outcome {
		case InTime:
			out.InTime++
		case Late:
			out.Late++
		default:
			out.Missed++
			continue
		}
		leads = append(leads, float64(row.LeadMinutes))
	}
	for _, a := range warnings {
		if a.start < b.first || slices.ContainsFunc(episodes, func(e run) bool { return a.announces(e) || a.startsDuring(e) }) {
			continue
		}
		crossed, known := b.firstShortMinute(pool, a)
		switch {
		case crossed > 0:
			out.Averted++
			leads = append(leads, float64(crossed-a.start))
		case !known:
			out.Open++
		default:
			out.False++
		}
	}
	slices.Sort(leads)
	out.LeadMinutes = quantile(leads, .5)
	return out
}

// loads of every minute. Unknown if no decision was in force, no replica was ready, or no resource has demand and
// capacity.
func (b *builder) loads(pool string) []load {
	out := slices.Repeat([]load{{replicas: math.NaN(), utilisation: math.NaN()}}, b.end)
	b.eachMinute(pool, 0, func(t *tick, minute int) {
		out[minute] = b.load(pool, t, minute)
	})
	return out
}

// load of a minute, by the replicas of a tick.
func (b *builder) load(pool string, t *tick, minute int) load {
	out := load{replicas: math.NaN(), utilisation: math.NaN()}
	for _, c := range t.capacities {
		if n := b.loadOf(pool, c.dimension, minute) / c.perReplica; c.perReplica > 0 && !math.IsNaN(n) && !(n <= out.replicas) {
			out.replicas, out.resource, out.cause = n, c.dimension, t.cause
		}
	}
	if t.ready > 0 {
		out.utilisation = out.replicas / float64(t.ready)
	}
	return out
}

// warns reports whether the decision warns of a saturation.
func (t *tick) warns() bool {
	if t.warnFrom > 0 {
		return t.ahead >= t.warnFrom && !t.stale
	}
	return t.probability >= warnProbability && !t.stale
}

func (b *builder) warnings(pool string) (out []run) {
	ticks := b.ticks[pool]
	for i := range ticks {
		t := &ticks[i]
		if !t.warns() {
			continue
		}
		claim := t.lead + mergeWithin // how long the warning claims a saturation
		if t.warnFrom > 0 {
			claim = max(claim, forecaster.WarningWindow(t.lead))
		}
		out = extend(out, b.index(t.at), t)
		out[len(out)-1].claimEnd = b.index(t.at.Add(claim))
	}
	return out
}

// extend adds a minute to the last run, or begins another.
func extend(runs []run, minute int, t *tick) []run {
	if n := len(runs); n > 0 && time.Duration(minute-runs[n-1].last-1)*features.Minute <= mergeWithin {
		runs[n-1].last = minute
		return runs
	}
	return append(runs, run{start: minute, last: minute, tick: t})
}

// announces reports whether an episode begins within a warning's claim.
func (r run) announces(episode run) bool {
	return r.start < episode.start && episode.start <= r.claimEnd
}

// startsDuring reports whether a warning starts during an episode.
func (r run) startsDuring(episode run) bool {
	return episode.start <= r.start && r.start <= episode.last+int(mergeWithin/features.Minute)
}

func (b *builder) episode(pool string, e run, loads []load, warnings []run) Episode {
	out := Episode{Start: b.time(e.start), Minutes: e.last - e.start + 1, Outcome: Missed, LeadMinutes: value.Unknown}
	peak := e.start
	for m := e.start; m <= e.last; m++ {
		if loads[m].utilisation > loads[peak].utilisation {
			peak = m
		}
	}
	out.Resource, out.Utilisation, out.Cause = loads[peak].resource, Number(loads[peak].utilisation), loads[peak].cause
	out.Forecast = out.Utilisation * Number(b.forecasts[totalOf(pool, out.Resource)].median(peak)/b.loadOf(pool, out.Resource, peak))
	if i := slices.IndexFunc(warnings, func(a run) bool { return a.announces(e) }); i >= 0 {
		a := warnings[i]
		lead := b.time(e.start).Sub(a.tick.at)
		out.LeadMinutes = Number(lead.Minutes())
		if out.Outcome = Late; lead >= a.tick.lead {
			out.Outcome = InTime
		}
	}
	return out
}

// firstShortMinute is the first minute of a warning's claim in which load exceeded the capacity ready at its start, 0
// if there is none; known reports whether load was known in every minute of the claim.
func (b *builder) firstShortMinute(pool string, a run) (minute int, known bool) {
	known = a.claimEnd < b.end
	for m := a.start + 1; m <= min(a.claimEnd, b.end-1); m++ {
		u := b.load(pool, a.tick, m).utilisation
		if u > 1 {
			return m, true
		}
		known = known && !math.IsNaN(u)
	}
	return 0, known
}
