package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/forewarm/forewarm/features"
)

// headlineMinutes is the horizon of summaries; if it is not stored, the nearest one.
const headlineMinutes = 15

// headline are the rows of a pool's total at the headline horizon with outcomes.
func (p *Pool) headline() (rows []Accuracy) {
	best := ""
	for _, a := range p.Accuracy {
		if horizonDistance(a.Horizon) < horizonDistance(best) {
			best = a.Horizon
		}
	}
	for _, a := range p.Accuracy {
		if a.Class == features.TotalClass && a.Horizon == best && a.Outcomes > 0 {
			rows = append(rows, a)
		}
	}
	return rows
}

// horizonDistance is the distance of a horizon from the headline's.
func horizonDistance(horizon string) int {
	m, err := strconv.Atoi(horizon)
	if err != nil {
		return math.MaxInt
	}
	return headlineDistance(m)
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
	requests, tokens, before := Number(math.NaN()), Number(math.NaN()), Number(0)
	names := make([]string, len(r.Pools))
	for i := range r.Pools {
		p := &r.Pools[i]
		names[i] = p.Pool
		observed, total = observed+p.Data.Observed, total+p.Data.Minutes
		if t := p.total(); t != nil {
			requests.add(float64(t.Requests))
			tokens.add(t.tokens())
		}
		before += p.RequestsBefore // NaN stays
	}
	who := fmt.Sprintf("%d pools", len(names))
	if len(names) <= 3 {
		who = strings.Join(names, " and ")
	}
	text := fmt.Sprintf("From %s, no request for %s is known", period, who)
	if requests > 0 {
		text = fmt.Sprintf("From %s, %s received %s requests with %s tokens", period, who, big(requests), big(tokens))
	}
	if before > 0 && requests > 0 && 10*observed >= 9*total {
		more, change := "more", requests/before-1
		if change < 0 {
			more, change = "fewer", -change
		}
		text += fmt.Sprintf(", %s %s requests than in the %s before", percent(change), more, lasting(int(r.To.Sub(r.From).Minutes())))
	}
	if observed < total {
		text += fmt.Sprintf("; telemetry is known for %s of the time", knownShare(observed, total))
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
		if e := p.worst(); e != nil && (worst == nil || e.lacked() > worst.lacked()) {
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
		times(episodes), count(s.SaturatedMinutes, "minute"), r.Day(worst.Start), worst.Minutes, percent(worst.Utilisation), resource(worst.Resource))
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
		rows[0].Horizon, percentRange(least, most), better, len(rows), percentRange(low, high))
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

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
