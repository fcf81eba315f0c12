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

var headline = strconv.Itoa(headlineMinutes)

// headline are the forecasts of a pool's total at the headline horizon.
func (p *Pool) headline() []Accuracy {
	return slices.DeleteFunc(p.Forecasts(), func(a Accuracy) bool { return a.Horizon != headline })
}

// poolsText names up to three pools, or counts them.
func poolsText(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, " and ")
	}
	return value.Count(len(names), "pool")
}

// sums are over all pools.
type sums struct {
	observed, minutes   int
	requests, tokens    Number
	partly              bool // the prompt or output tokens of a pool are unknown
	saturation          Saturation
	worst               *Episode
	worstOf             string     // its pool
	forecasts           []Accuracy // of pools' totals at the headline horizon
	known               bool       // of the amounts
	paid, static, least Amount
	decodeOnly          []string // pools whose prefill replicas are left out
}

// summarise sets r.Summary, one sentence each: traffic, saturation, warnings, forecasts, cost; and another one that names
// pools whose prefill replicas are left out.
func (r *Report) summarise() {
	period := alerting.Period(r.From.In(r.Zone), r.To, "2 Jan 2006")
	if len(r.Pools) == 0 {
		r.Summary = []string{"Nothing is known of the time from " + period + ": no telemetry, forecast or decision was stored."}
		return
	}
	s := sums{requests: value.Unknown, tokens: value.Unknown}
	names := make([]string, len(r.Pools))
	for i := range r.Pools {
		names[i] = r.Pools[i].Pool
		s.add(&r.Pools[i])
	}
	r.Summary = []string{s.traffic(period, poolsText(names)), s.saturated(r), s.warningResults(), s.forecastAccuracy(), s.cost()}
	if len(s.decodeOnly) > 0 {
		r.Summary = append(r.Summary, "Prefill replicas of "+poolsText(s.decodeOnly)+
			" are not counted: replicas, costs, saturations and warnings are those of the decode replicas.")
	}
}

func (s *sums) add(p *Pool) {
	s.observed += p.Data.Observed
	s.minutes += p.Data.Minutes
	if len(p.Totals) > 0 && p.Totals[0].Class == features.TotalClass {
		t := &p.Totals[0]
		add(&s.requests, t.Requests)
		add(&s.tokens, t.tokens())
		s.partly = s.partly || !(t.PromptTokens + t.OutputTokens).Known()
	}
	to, of := &s.saturation, &p.Saturation
	to.KnownMinutes += of.KnownMinutes
	to.SaturatedMinutes += of.SaturatedMinutes
	to.InTime += of.InTime
	to.Late += of.Late
	to.Missed += of.Missed
	to.Averted += of.Averted
	to.False += of.False
	to.Open += of.Open
	for i := range of.Episodes {
		if e := &of.Episodes[i]; s.worst == nil || e.compareShortfall(s.worst) > 0 {
			s.worst, s.worstOf = e, p.Pool
		}
	}
	if p.Decisions.DecodeOnly {
		s.decodeOnly = append(s.decodeOnly, p.Pool)
	}
	to.Episodes = append(to.Episodes, of.Episodes...)
	s.forecasts = append(s.forecasts, p.headline()...)
	if v := &p.Decisions.Provision; v.KnownMinutes > 0 {
		s.known = true
		s.paid = s.paid.plus(v.Paid)
		s.static = s.static.plus(v.Static)
		s.least = s.least.plus(v.Hindsight)
	}
}

// traffic: requests and tokens, and how much of the period is known.
func (s *sums) traffic(period, who string) string {
	text := fmt.Sprintf("From %s, no request for %s is known", period, who)
	if s.requests > 0 {
		tokens := value.Large(s.tokens) + " tokens"
		if !s.tokens.Known() {
			tokens = "an unknown number of tokens"
		} else if s.partly {
			tokens = "at least " + tokens
		}
		text = fmt.Sprintf("From %s, %s received %s requests with %s", period, who, value.Large(s.requests), tokens)
	}
	if s.observed < s.minutes {
		text += fmt.Sprintf("; telemetry is known for %s of the time", value.Percent(Number(s.observed)/Number(s.minutes)))
	}
	return text + "."
}

// saturated says how long the load was above the planned capacity of the ready replicas.
func (s *sums) saturated(r *Report) string {
	worst, minutes, known := s.worst, value.Count(s.saturation.SaturatedMinutes, "minute"), s.saturation.KnownMinutes
	switch {
	case known == 0:
		return "Whether the load was above the planned capacity is not known: load and capacity were never known together."
	case s.saturation.SaturatedMinutes == 0 && known < s.minutes:
		return fmt.Sprintf("The load was within the planned capacity of the ready replicas in all minutes in which both are known, %s of the time.",
			value.Percent(Number(known)/Number(s.minutes)))
	case s.saturation.SaturatedMinutes == 0:
		return "The load was within the planned capacity of the ready replicas at all times."
	case worst == nil:
		return "The load was above the planned capacity of the ready replicas for " + minutes + ", at the beginning."
	}
	pool := ""
	if len(r.Pools) > 1 {
		pool = " of " + s.worstOf
	}
	return fmt.Sprintf("The load was above the planned capacity of the ready replicas (a saturation) %s, for %s in all. "+
		"The worst began on %s and lasted %d min; %s.",
		value.Count(len(s.saturation.Episodes), "time"), minutes, r.Day(worst.Start), worst.Minutes, worst.reached(pool))
}

func (s *sums) warningResults() string {
	x := &s.saturation
	if x.InTime+x.Late+x.Missed+x.Averted+x.False+x.Open == 0 {
		return "There was no warning."
	}
	open := ""
	if x.Open > 0 {
		open = fmt.Sprintf(", %d not known yet", x.Open)
	}
	return fmt.Sprintf("Warnings: %d in time, %d late, %d followed by more replicas that prevented the saturation, %d false%s. "+
		"Saturations without a warning: %d.", x.InTime, x.Late, x.Averted, x.False, open, x.Missed)
}

func (s *sums) forecastAccuracy() string {
	if len(s.forecasts) == 0 {
		return "How good forecasts were is not known: no forecast was stored, or the load is not known."
	}
	better := 0
	var errors, held []Number
	for _, a := range s.forecasts {
		if a.Skill > 0 {
			better++
		}
		errors, held = append(errors, a.WAPE), append(held, a.Q90.Share)
	}
	return fmt.Sprintf("Forecasts %s minutes ahead were off by %s on average. For %d of %d resources they were better than the "+
		"assumption that nothing changes. The load stayed below the upper bound in %s of the minutes; the target is 90 %%.",
		headline, percentRange(errors...), better, len(s.forecasts), percentRange(held...))
}

// cost of replicas, of a fixed number of them, and the least possible.
func (s *sums) cost() string {
	if !s.known {
		return "How many replicas were needed is not known."
	}
	return fmt.Sprintf("Replicas used %s. A fixed number of replicas, enough for the peak, would have used %s. The least possible, with hindsight, was %s.",
		s.paid.hours(), s.static.hours(), s.least.hours())
}

// plus is the sum; unknown if one is unknown.
func (a Amount) plus(o Amount) Amount {
	return Amount{a.ReplicaHours + o.ReplicaHours, a.GPUHours + o.GPUHours, a.USD + o.USD}
}

// percentRange shows the least and the largest of the known shares, or one of them if they look alike.
func percentRange(shares ...Number) string {
	known := slices.DeleteFunc(shares, func(v Number) bool { return !v.Known() })
	if len(known) == 0 {
		return value.Percent(value.Unknown)
	}
	a, b := value.Percent(slices.Min(known)), value.Percent(slices.Max(known))
	if a == b {
		return a
	}
	return strings.TrimSuffix(a, " %") + " to " + b
}

// compareUrgency orders pools by the saturations without a timely warning, then by their length, and then by the advice.
func compareUrgency(a, b poolView) int {
	x, y := &a.Saturation, &b.Saturation
	return cmp.Or(
		cmp.Compare(y.Missed+y.Late, x.Missed+x.Late),
		cmp.Compare(y.SaturatedMinutes, x.SaturatedMinutes),
		cmp.Compare(len(b.suggestions()), len(a.suggestions())),
	)
}

const (
	minOutcomes = 30 // independent outcomes that judging a quantile needs
	minFalse    = 3  // false warnings that give advice: every pool has a few
	adviceShown = 3  // of a pool
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
	suggest(surprises > 0, "Find out why %s came without a warning in time (listed below).", value.Count(surprises, "saturation"))
	mode := alerting.Mode(p.Decisions.Mode)
	suggest(s.SaturatedMinutes > 0 && mode == alerting.Advisory,
		"Let an autoscaler follow the advice (decision.mode: active); nothing did.")
	suggest(s.InTime > 0 && mode == alerting.Active,
		"Find out why %s came although the warning was in time: replicas may start too slowly.", value.Count(s.InTime, "saturation"))
	undecided, unobserved := 1-Number(d.Decided)/Number(d.Minutes), 1-Number(d.Observed)/Number(d.Minutes)
	suggest(undecided > .1,
		"Find out why Forewarm made no decision for %s of the time, unless it is new.", value.Percent(undecided))
	suggest(undecided <= .1 && unobserved > .1,
		"Repair the telemetry: it is missing for %s of the time.", value.Percent(unobserved))
	suggest(s.False >= minFalse && s.False > s.InTime+s.Averted,
		"If the %s disturb, raise decision.warning_probability.", value.Count(s.False, "false warning"))
	if a := p.MainAccuracy(); a != nil && a.Q90.Effective >= minOutcomes && a.Q90.High < .9 {
		suggest(true, "Raise decision.quantile for a while: the upper bound that should hold in 90 %% of the minutes held in %s.",
			value.Percent(a.Q90.Share))
	}
	for _, c := range p.Contradicts {
		what, correct := c.Words()
		suggest(true, "%s %s", what, correct)
	}
	if v := &p.Decisions.Provision; v.KnownMinutes > 0 {
		idle := v.Over.ReplicaHours / v.Paid.ReplicaHours
		suggest(idle > .5, "Check whether fewer replicas would do: %s of their time was idle, reserves not counted.", value.Percent(idle))
	}
	return out
}

// MainAccuracy is the headline row of the tightest resource, or else the first one; nil if there is none.
func (p *Pool) MainAccuracy() *Accuracy {
	rows := p.headline()
	if len(rows) == 0 {
		return nil
	}
	tightest := 0
	if p.Timeline != nil {
		tightest = slices.IndexFunc(rows, func(a Accuracy) bool { return a.Dimension == p.Timeline.Resources[0].Resource })
	}
	return &rows[max(tightest, 0)]
}

// reached says how high the load was at the peak of an episode. pool is "" or like " of chat".
func (e *Episode) reached(pool string) string {
	if !e.Utilisation.Known() {
		return "no replica" + pool + " was ready"
	}
	return fmt.Sprintf("the load reached %s of the capacity for %s%s", value.Percent(e.Utilisation), alerting.ResourceName(e.Resource), pool)
}

// compareShortfall compares upper bounds of the missing capacity, in minutes of the ready capacity. Those of episodes
// without a ready replica are infinite: the longer episode is the worse one then.
func (e *Episode) compareShortfall(o *Episode) int {
	bound := func(e *Episode) Number { return (e.Utilisation - 1) * Number(e.Minutes) }
	return cmp.Or(cmp.Compare(bound(e), bound(o)), cmp.Compare(e.Minutes, o.Minutes))
}
