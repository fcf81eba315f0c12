package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/forewarm/forewarm/alerting"
)

// state summarises a pool in a word.
type state string

// The states, best first.
const (
	good   state = "good"
	watch  state = "watch"
	act    state = "act"
	noData state = "no data"
)

// byNeed orders pools by urgency.
func byNeed(r *Report) []*Pool {
	var out []*Pool
	for i := range r.Pools {
		out = append(out, &r.Pools[i])
	}
	rank := map[state]int{act: 0, watch: 1, noData: 2, good: 3}
	slices.SortStableFunc(out, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(rank[a.State()], rank[b.State()]), cmp.Compare(b.Saturation.SaturatedMinutes, a.Saturation.SaturatedMinutes))
	})
	return out
}

// State of a pool: act if it saturated without a timely warning, watch if there is other advice.
func (p *Pool) State() state {
	s := &p.Saturation
	switch {
	case p.Data.Observed == 0 || s.KnownMinutes == 0 && len(p.headline()) == 0:
		return noData
	case s.Missed+s.Late > 0:
		return act
	case len(p.suggestions()) > 0:
		return watch
	}
	return good
}

const (
	// minOutcomes is the number of independent outcomes that judging a quantile needs.
	minOutcomes = 30
	// minFalse is the number of false warnings that gives advice: every pool has a few.
	minFalse = 3
	// adviceShown bounds the advice for a pool.
	adviceShown = 3
	// maxDifference is the relative difference of a learned number from a stated one that gives no advice.
	maxDifference = .25
)

// Advice for a pool, the most urgent first.
func (p *Pool) Advice() []string {
	all := p.suggestions()
	if len(all) == 0 {
		return []string{"Nothing to do."}
	}
	return all[:min(len(all), adviceShown)]
}

func (p *Pool) suggestions() (out []string) {
	suggest := func(when bool, format string, a ...any) {
		if when {
			out = append(out, fmt.Sprintf(format, a...))
		}
	}
	s, d := &p.Saturation, &p.Data
	if d.Observed == 0 {
		return []string{"Find out why no telemetry arrives."}
	}
	surprises := s.Missed + s.Late
	suggest(surprises > 0, "Find out why %s came without a warning in time (listed below).", count(surprises, "saturation"))
	suggest(s.SaturatedMinutes > 0 && p.Decisions.Mode == string(alerting.Advisory), "Let an autoscaler follow the advice (decision.mode: active); nothing did.")
	suggest(s.InTime > 0 && p.Decisions.Mode == string(alerting.Active), "Find out why %s came although the warning was in time: replicas may start too slowly.", count(s.InTime, "saturation"))
	decided := 10*d.Decided >= 9*d.Minutes
	suggest(!decided, "Find out why Forewarm made no decision for %s of the time, unless it is new.", percent(1-Number(d.Decided)/Number(d.Minutes)))
	suggest(decided && 10*d.Observed < 9*d.Minutes, "Repair the telemetry: it is missing for %s of the time.", percent(1-Number(d.Observed)/Number(d.Minutes)))
	suggest(s.False >= minFalse && s.False > s.InTime+s.Averted, "If the %s disturb, lower decision.false_warnings_per_week.", count(s.False, "false warning"))
	if a := p.main(); a != nil && a.Q90.Effective >= minOutcomes && a.Q90.High < .9 {
		suggest(true, "Raise decision.quantile for a while: the upper bound that should hold in 90 %% of the minutes held in %s.", percent(a.Q90.Share))
	}
	for _, a := range p.Assumptions {
		suggest(math.Abs(float64(a.Stated/a.Learned-1)) > maxDifference, "Check the stated %s: it is %s, but %s was observed.", assumed(a.Name), quantity(a.Stated, a.Unit), quantity(a.Learned, a.Unit))
	}
	if v := &p.Decisions.Provision; v.KnownMinutes > 0 {
		idle := v.Over.ReplicaHours / v.Paid.ReplicaHours
		suggest(idle > .5, "Check whether fewer replicas would do: %s of their time was idle, reserves not counted.", percent(idle))
	}
	return out
}

// main is the headline row of the tightest resource, or else the first one; nil if there is none.
func (p *Pool) main() *Accuracy {
	rows := p.headline()
	for i := range rows {
		if rows[i].Dimension == p.tightest() {
			return &rows[i]
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return &rows[0]
}

// tightest is the resource that came nearest to its capacity; "" if unknown.
func (p *Pool) tightest() string {
	if p.Timeline == nil {
		return ""
	}
	return p.Timeline.Resources[0].Resource
}

// worst is the saturation with the largest lack of capacity; nil if there is none.
func (p *Pool) worst() (worst *Episode) {
	for i := range p.Saturation.Episodes {
		if e := &p.Saturation.Episodes[i]; worst == nil || e.lacked() > worst.lacked() {
			worst = e
		}
	}
	return worst
}

// lacked is an upper bound of the missing capacity, in minutes of the ready capacity.
func (e *Episode) lacked() Number { return (e.Utilisation - 1) * Number(e.Minutes) }
