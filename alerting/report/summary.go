package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/value"
)

// headline is the horizon of summaries.
var headline = strconv.Itoa(headlineMinutes)

// headline are the rows of a pool's total at the headline horizon with outcomes.
func (p *Pool) headline() (rows []Accuracy) {
	for _, a := range p.Accuracy {
		if a.Class == features.TotalClass && a.Horizon == headline && a.Outcomes > 0 {
			rows = append(rows, a)
		}
	}
	return rows
}

// summarise sets r.Summary: five sentences.
func (r *Report) summarise() {
	period := r.period("2 Jan 2006")
	if len(r.Pools) == 0 {
		r.Summary = []string{"Nothing is known of the time from " + period + ": no telemetry, forecast or decision was stored."}
		return
	}
	r.Summary = []string{r.traffic(period), r.saturated(), r.warningResults(), r.forecastAccuracy(), r.costSentence()}
}

// traffic: requests and tokens, and how much of the period is known.
func (r *Report) traffic(period string) string {
	observed, total := 0, 0
	requests, tokens := value.Unknown, value.Unknown
	names := make([]string, len(r.Pools))
	for i := range r.Pools {
		p := &r.Pools[i]
		names[i] = p.Pool
		observed, total = observed+p.Data.Observed, total+p.Data.Minutes
		if len(p.Totals) > 0 && p.Totals[0].Class == features.TotalClass {
			add(&requests, p.Totals[0].Requests)
			add(&tokens, p.Totals[0].tokens())
		}
	}
	who := fmt.Sprintf("%d pools", len(names))
	if len(names) <= 3 {
		who = strings.Join(names, " and ")
	}
	text := fmt.Sprintf("From %s, no request for %s is known", period, who)
	if requests > 0 {
		text = fmt.Sprintf("From %s, %s received %s requests with %s tokens", period, who, countText(requests), countText(tokens))
	}
	if observed < total {
		text += fmt.Sprintf("; telemetry is known for %s of the time", shareText(observed, total))
	}
	return text + "."
}

// saturated says how long the load was above the planned capacity of the ready replicas.
func (r *Report) saturated() string {
	s, episodes := r.saturations(), 0
	var worst *Episode
	of := ""
	for i := range r.Pools {
		p := &r.Pools[i]
		episodes += len(p.Saturation.Episodes)
		if e := p.worst(); e != nil && (worst == nil || e.shortfall() > worst.shortfall()) {
			worst, of = e, p.Pool
		}
	}
	switch {
	case s.KnownMinutes == 0:
		return "Whether the load was above the planned capacity is not known: load and capacity were never known together."
	case worst == nil && s.SaturatedMinutes == 0:
		return "The load was within the planned capacity of the ready replicas at all times."
	case worst == nil:
		return fmt.Sprintf("The load was above the planned capacity of the ready replicas for %s, at the beginning.", count(s.SaturatedMinutes, "minute"))
	}
	text := fmt.Sprintf("The load was above the planned capacity of the ready replicas (a saturation) %s, for %s in all. The longest began on %s and lasted %d min; the load reached %s of the capacity for %s",
		timesText(episodes), count(s.SaturatedMinutes, "minute"), r.Day(worst.Start), worst.Minutes, percent(worst.Utilisation), alerting.ResourceName(worst.Resource))
	if len(r.Pools) > 1 {
		text += " of " + of
	}
	return text + "."
}

// saturations of all pools, summed up.
func (r *Report) saturations() (s Saturation) {
	for i := range r.Pools {
		o := &r.Pools[i].Saturation
		s.KnownMinutes, s.SaturatedMinutes = s.KnownMinutes+o.KnownMinutes, s.SaturatedMinutes+o.SaturatedMinutes
		s.InTime, s.Late, s.Missed = s.InTime+o.InTime, s.Late+o.Late, s.Missed+o.Missed
		s.Averted, s.False = s.Averted+o.Averted, s.False+o.False
	}
	return s
}

// warningResults counts the results of warnings.
func (r *Report) warningResults() string {
	s := r.saturations()
	if s.InTime+s.Late+s.Missed+s.Averted+s.False == 0 {
		return "There was no warning."
	}
	return fmt.Sprintf("Warnings: %d in time, %d late, %d followed by more replicas that prevented the saturation, %d false. Saturations without a warning: %d.",
		s.InTime, s.Late, s.Averted, s.False, s.Missed)
}

// forecastAccuracy: accuracy of forecasts of the pools' totals.
func (r *Report) forecastAccuracy() string {
	var rows []Accuracy
	for i := range r.Pools {
		rows = append(rows, r.Pools[i].headline()...)
	}
	if len(rows) == 0 {
		return "How good forecasts were is not known: no forecast was stored, or the load is not known."
	}
	better, least, most, low, high := 0, rows[0].WAPE, rows[0].WAPE, rows[0].Q90.Share, rows[0].Q90.Share
	for _, a := range rows {
		if a.Skill > 0 {
			better++
		}
		least, most, low, high = min(least, a.WAPE), max(most, a.WAPE), min(low, a.Q90.Share), max(high, a.Q90.Share)
	}
	return fmt.Sprintf("Forecasts %s minutes ahead were off by %s on average. For %d of %d resources they were better than the assumption that nothing changes. The load stayed below the upper bound in %s of the minutes; the target is 90 %%.",
		headline, percentRange(least, most), better, len(rows), percentRange(low, high))
}

// costSentence: the cost of replicas, of a fixed number of them, and the least possible.
func (r *Report) costSentence() string {
	var paid, static, least Amount
	known := false
	for i := range r.Pools {
		if v := &r.Pools[i].Decisions.Provision; v.KnownMinutes > 0 {
			known = true
			paid, static, least = paid.plus(v.Paid), static.plus(v.Static), least.plus(v.Hindsight)
		}
	}
	if !known {
		return "How many replicas were needed is not known."
	}
	return fmt.Sprintf("Replicas used %s. A fixed number of replicas, enough for the peak, would have used %s. The least possible, with hindsight, was %s.",
		paid.hours(), static.hours(), least.hours())
}

// plus is the sum; unknown if one is unknown.
func (a Amount) plus(o Amount) Amount {
	return Amount{a.ReplicaHours + o.ReplicaHours, a.GPUHours + o.GPUHours, a.USD + o.USD}
}

// percentRange shows two shares as a range, or as one if they look alike.
func percentRange(low, high Number) string {
	a, b := percent(low), percent(high)
	if a == b {
		return a
	}
	return strings.TrimSuffix(a, " %") + " to " + b
}

func timesText(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// state summarises a pool in a word.
type state string

// The states, best first.
const (
	good   state = "good"
	watch  state = "watch"
	act    state = "act"
	noData state = "no data"
)

// byUrgency orders pools by urgency.
func byUrgency(r *Report) []*Pool {
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
	suggest(!decided, "Find out why Forewarm made no decision for %s of the time, unless it is new.", shareText(d.Minutes-d.Decided, d.Minutes))
	suggest(decided && 10*d.Observed < 9*d.Minutes, "Repair the telemetry: it is missing for %s of the time.", percent(1-Number(d.Observed)/Number(d.Minutes)))
	suggest(s.False >= minFalse && s.False > s.InTime+s.Averted, "If the %s disturb, raise decision.warning_probability.", count(s.False, "false warning"))
	if a := p.mainAccuracy(); a != nil && a.Q90.Effective >= minOutcomes && a.Q90.High < .9 {
		suggest(true, "Raise decision.quantile for a while: the upper bound that should hold in 90 %% of the minutes held in %s.", percent(a.Q90.Share))
	}
	for _, c := range p.Contradicts {
		what, correct := c.Words()
		suggest(true, "%s %s", what, correct)
	}
	if v := &p.Decisions.Provision; v.KnownMinutes > 0 {
		idle := v.Over.ReplicaHours / v.Paid.ReplicaHours
		suggest(idle > .5, "Check whether fewer replicas would do: %s of their time was idle, reserves not counted.", percent(idle))
	}
	return out
}

// mainAccuracy is the headline row of the tightest resource, or else the first one; nil if there is none.
func (p *Pool) mainAccuracy() *Accuracy {
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
		if e := &p.Saturation.Episodes[i]; worst == nil || e.shortfall() > worst.shortfall() {
			worst = e
		}
	}
	return worst
}

// shortfall is an upper bound of the missing capacity, in minutes of the ready capacity.
func (e *Episode) shortfall() Number { return (e.Utilisation - 1) * Number(e.Minutes) }
