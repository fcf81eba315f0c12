package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// load is a pool's load over capacity in one minute, in the resource where it is largest.
type load struct {
	utilisation float64 // NaN when it is not known
	resource    string
}

// run is a row of minutes or ticks that belong together.
type run struct {
	start, last int // minutes
	tick        *tick
	reach       int // announcements: the last minute of the claim
}

func (b *builder) saturation(pool string) Saturation {
	out := Saturation{Probability: b.options.Probability, LeadMinutes: Number(math.NaN()), Episodes: []Episode{}}
	loads := b.loads(pool)
	first, _ := b.bounds()
	for _, l := range loads[first:] {
		if !math.IsNaN(l.utilisation) {
			out.KnownMinutes++
		}
		if l.utilisation > 1 {
			out.SaturatedMinutes++
		}
	}
	for i := range b.ticks[pool] {
		if t := &b.ticks[pool][i]; b.announced(t) && b.index(t.at) >= first {
			out.AnnouncedMinutes++
		}
	}
	episodes, announcements := b.episodes(loads), b.announcements(pool)
	var leads []float64
	for _, e := range episodes {
		if e.start < first {
			continue
		}
		row := b.episode(e, loads, announcements)
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
	for _, a := range announcements {
		if a.start < first || slices.ContainsFunc(episodes, func(e run) bool { return a.announces(e) || b.during(a, e) }) {
			continue
		}
		crossed, known := b.crossing(pool, a)
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
	if n := len(leads); n > 0 {
		slices.Sort(leads)
		out.LeadMinutes = Number((leads[(n-1)/2] + leads[n/2]) / 2)
	}
	return out
}

// loads gives every minute's load. It is not known where no decision stood, where no replica was known to be ready, and
// where no resource has both demand and capacity.
func (b *builder) loads(pool string) []load {
	_, end := b.bounds()
	out := slices.Repeat([]load{{utilisation: math.NaN()}}, end)
	b.eachMinute(pool, func(t *tick, minute int) {
		out[minute] = b.load(pool, t, minute)
	})
	return out
}

// load is that of a minute over the capacity of a tick's ready replicas.
func (b *builder) load(pool string, t *tick, minute int) load {
	out := load{utilisation: math.NaN()}
	for _, c := range t.capacities {
		ready := float64(t.ready) * c.perReplica
		if u := b.loadOf(pool, c.dimension, minute) / ready; ready > 0 && !math.IsNaN(u) && !(u <= out.utilisation) {
			out = load{utilisation: u, resource: c.dimension}
		}
	}
	return out
}

func (b *builder) episodes(loads []load) (out []run) {
	for m, l := range loads {
		if l.utilisation > 1 {
			out = b.extend(out, m, nil)
		}
	}
	return out
}

// announced says that the decision of a tick announces a saturation: that its pool is warned of one.
func (b *builder) announced(t *tick) bool {
	if t.warnFrom > 0 {
		return t.ahead >= t.warnFrom && !t.stale
	}
	return t.probability >= b.options.Probability && !t.stale
}

// claims is for how long from a tick on its announcement claims a saturation.
func (b *builder) claims(t *tick) time.Duration {
	claim := t.lead + b.options.Merge
	if t.warnFrom > 0 {
		claim = max(claim, forecaster.WarningWindow(t.lead))
	}
	return claim
}

func (b *builder) announcements(pool string) (out []run) {
	ticks := b.ticks[pool]
	for i := range ticks {
		t := &ticks[i]
		if !b.announced(t) {
			continue
		}
		out = b.extend(out, b.index(t.at), t)
		out[len(out)-1].reach = b.index(t.at.Add(b.claims(t)))
	}
	return out
}

// extend adds a minute to the last run, or begins another.
func (b *builder) extend(runs []run, minute int, t *tick) []run {
	if n := len(runs); n > 0 && time.Duration(minute-runs[n-1].last-1)*features.Minute <= b.options.Merge {
		runs[n-1].last = minute
		return runs
	}
	return append(runs, run{start: minute, last: minute, tick: t})
}

// announces says whether an episode lies in an announcement's claim.
func (r run) announces(episode run) bool {
	return r.start < episode.start && episode.start <= r.reach
}

// during says whether an announcement starts when the episode is already there.
func (b *builder) during(a, episode run) bool {
	return episode.start <= a.start && a.start <= episode.last+int(b.options.Merge/features.Minute)
}

func (b *builder) episode(e run, loads []load, announcements []run) Episode {
	out := Episode{Start: b.time(e.start), Minutes: e.last - e.start + 1, Outcome: Missed, LeadMinutes: Number(math.NaN())}
	peak := loads[e.start]
	for _, l := range loads[e.start : e.last+1] {
		if l.utilisation > peak.utilisation {
			peak = l
		}
	}
	out.Resource, out.Utilisation = peak.resource, Number(peak.utilisation)
	if i := slices.IndexFunc(announcements, func(a run) bool { return a.announces(e) }); i >= 0 {
		a := announcements[i]
		lead := b.time(e.start).Sub(a.tick.at)
		out.LeadMinutes = minutes(lead)
		if out.Outcome = Late; lead >= a.tick.lead {
			out.Outcome = InTime
		}
	}
	return out
}

// crossing is the first minute of an announcement's claim in which demand exceeded the capacity that was ready at its
// start, 0 when there is none; known says that it was known for every minute of the claim.
func (b *builder) crossing(pool string, a run) (minute int, known bool) {
	_, end := b.bounds()
	known = a.reach < end
	for m := a.start + 1; m <= min(a.reach, end-1); m++ {
		u := b.load(pool, a.tick, m).utilisation
		if u > 1 {
			return m, true
		}
		known = known && !math.IsNaN(u)
	}
	return 0, known
}
