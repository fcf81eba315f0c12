package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
)

// headlineMinutes is the horizon that summaries speak of, or the kept one nearest to it.
const headlineMinutes = 15

// headline gives the rows of a pool's totals at the headline horizon that have outcomes.
func (p *Pool) headline() (rows []Accuracy) {
	best := ""
	for _, a := range p.Accuracy {
		if far(a.Horizon) < far(best) {
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

// far is how far a horizon is from the headline's.
func far(horizon string) int {
	m, err := strconv.Atoi(horizon)
	if err != nil {
		return math.MaxInt
	}
	return max(m-headlineMinutes, headlineMinutes-m)
}

// summarise writes r.Summary: in at most five sentences, what a reader in a hurry needs.
func (r *Report) summarise() {
	x := r.shown()
	const layout = "Mon 2 Jan 2006 15:04"
	period := fmt.Sprintf("from %s to %s %s", alerting.Clock(x.From, layout), alerting.Clock(x.To, layout), r.Zone.location())
	if len(r.Pools) == 0 {
		r.Summary = []string{"No data: nothing was observed, forecast or decided " + period + ", so nothing can be said of it."}
		return
	}
	r.Summary = []string{x.heard(period), x.foresaw(), x.saturated(), x.spent(), x.learned()}
}

// heard says of how much the report knows.
func (r *Report) heard(period string) string {
	observed, minutes := 0, 0
	since := r.To // the first minute known of any
	for i := range r.Pools {
		if first := r.Pools[i].Data.first(r.From); first.Before(since) {
			since = first
		}
		observed, minutes = observed+r.Pools[i].Data.Observed, minutes+r.Pools[i].Data.Minutes
	}
	pools := count(len(r.Pools), "pool")
	if len(r.Pools) <= 3 {
		names := make([]string, len(r.Pools))
		for i := range r.Pools {
			names[i] = r.Pools[i].Pool
		}
		pools = strings.Join(names, ", ")
	}
	known := percent(Number(observed) / Number(minutes))
	if observed < minutes && known == percent(1) {
		known = "more than 99 %"
	}
	text := fmt.Sprintf("This is about %s %s; telemetry is known for %s of the minutes", pools, period, known)
	if observed > 0 && since.Sub(r.From) >= time.Hour {
		text += fmt.Sprintf(", the first of which is %s", day(since))
	}
	return text + "."
}

// first is the first minute in which demand is known, where the gap before it is among the longest.
func (d *Data) first(from time.Time) time.Time {
	for _, g := range d.Gaps {
		if g.Start.Equal(from) {
			return from.Add(time.Duration(g.Minutes) * time.Minute)
		}
	}
	return from
}

// foresaw says how good forecasts of the pools' totals were.
func (r *Report) foresaw() string {
	type named struct {
		pool string
		Accuracy
	}
	var rows []named
	for i := range r.Pools {
		for _, a := range r.Pools[i].headline() {
			rows = append(rows, named{r.Pools[i].Pool, a})
		}
	}
	if len(rows) == 0 {
		return "No forecast can be scored: none was stored, or what came is not known."
	}
	slices.SortStableFunc(rows, func(a, b named) int { return cmp.Compare(a.WAPE, b.WAPE) })
	best, worst := rows[0], rows[len(rows)-1]
	skilled, low, high := 0, Number(1), Number(0)
	for _, a := range rows {
		if a.Skill > 0 {
			skilled++
		}
		low, high = min(low, a.Q90.Share), max(high, a.Q90.Share)
	}
	off := fmt.Sprintf("%s of demand (%s of %s)", percent(best.WAPE), resource(best.Dimension), best.pool)
	if len(rows) > 1 {
		off = fmt.Sprintf("%s (%s of %s) to %s (%s of %s) of demand", percent(best.WAPE), resource(best.Dimension), best.pool, percent(worst.WAPE), resource(worst.Dimension), worst.pool)
	}
	held := percent(low)
	if percent(high) != held {
		held += " to " + percent(high)
	}
	return fmt.Sprintf("Forecasts %s minutes ahead were off by %s, were better than repeating the last value in %d of %d, and their 90 %% quantiles held in %s of minutes.",
		best.Horizon, off, skilled, len(rows), held)
}

// saturated says how saturations and announcements met.
func (r *Report) saturated() string {
	var s Saturation
	for i := range r.Pools {
		s.add(&r.Pools[i].Saturation)
	}
	if s.KnownMinutes == 0 {
		return "Whether anything saturated is not known: demand and capacity were never known together."
	}
	came := s.InTime + s.Late + s.Missed
	switch {
	case came == 0 && s.Averted == 0 && s.False == 0:
		return "Nothing saturated, and nothing was announced."
	case came == 0:
		return fmt.Sprintf("Nothing saturated; that was averted %s after an announcement, and there was %s.", count(s.Averted, "time"), count(s.False, "false alarm"))
	}
	averted := ""
	if s.Averted > 0 {
		averted = fmt.Sprintf("%d more averted after an announcement, and ", s.Averted)
	}
	return fmt.Sprintf("%s came, of %s in all: %d announced in time, %d late, %d missed; %s%s; announcements stood for %s.",
		count(came, "saturation"), count(s.SaturatedMinutes, "minute"), s.InTime, s.Late, s.Missed, averted, count(s.False, "false alarm"), count(s.AnnouncedMinutes, "minute"))
}

// add sums what the sentence needs.
func (s *Saturation) add(o *Saturation) {
	s.KnownMinutes, s.SaturatedMinutes = s.KnownMinutes+o.KnownMinutes, s.SaturatedMinutes+o.SaturatedMinutes
	s.AnnouncedMinutes += o.AnnouncedMinutes
	s.InTime, s.Late, s.Missed = s.InTime+o.InTime, s.Late+o.Late, s.Missed+o.Missed
	s.Averted, s.False, s.Open = s.Averted+o.Averted, s.False+o.False, s.Open+o.Open
}

// spent says what replicas were paid for, and what would have done.
func (r *Report) spent() string {
	unit, gpus := "GPU-hours", true
	for i := range r.Pools {
		v := &r.Pools[i].Decisions.Provision
		gpus = gpus && (v.KnownMinutes == 0 || v.GPUsPerReplica > 0)
	}
	if !gpus {
		unit = "replica-hours"
	}
	var paid, least, over, under, usd Number
	known, priced := 0, false
	for i := range r.Pools {
		v := &r.Pools[i].Decisions.Provision
		if v.KnownMinutes == 0 {
			continue
		}
		known++
		hours := func(a Amount) Number {
			if gpus {
				return a.GPUHours
			}
			return a.ReplicaHours
		}
		paid, least, over, under = paid+hours(v.Paid), least+hours(v.Clairvoyant), over+hours(v.Over), under+hours(v.Under)
		if !math.IsNaN(float64(v.Paid.USD)) {
			usd, priced = usd+v.Paid.USD, true
		}
	}
	if known == 0 {
		return "What replicas were needed is not known."
	}
	cost := ""
	if priced {
		cost = fmt.Sprintf(" (%s)", money(usd))
	}
	return fmt.Sprintf("%s %s were used%s, %s of them beyond what demand and reserves took, and %s were missing; with hindsight %s would have done.",
		quantity(paid, ""), unit, cost, quantity(over, ""), quantity(under, ""), quantity(least, ""))
}

// learned says why the worst saturation that was missed or late came as a surprise, where that is explained, or else which error
// was the largest.
func (r *Report) learned() string {
	var worst, why *ErrorEpisode
	var missed *Episode
	pool, of := "", ""
	for i := range r.Pools {
		p := &r.Pools[i]
		for _, incident := range p.incidents() {
			if e := &incident[0]; worst == nil || larger(e, worst) < 0 {
				worst, pool = e, p.Pool
			}
		}
		if x, e := p.surprise(); e != nil && (missed == nil || x.lacked() > missed.lacked()) {
			missed, why, of = x, e, p.Pool
		}
	}
	text := "No forecast was far off"
	switch {
	case missed != nil:
		text = fmt.Sprintf("The worst saturation that was %s came on %s in %s of %s, up to %s of capacity: over %s %s came where %s was forecast %s minutes ahead, because of %s",
			map[Outcome]string{Missed: "missed", Late: "announced late"}[missed.Outcome], day(missed.Start), resource(missed.Resource), of, percent(missed.Utilisation),
			count(why.Minutes, "minute"), percent(why.Actual), percent(why.Forecast), why.Horizon, why.because(1))
	case worst != nil:
		text = fmt.Sprintf("The largest error was on %s in %s of %s: %s of capacity against %s forecast %s minutes ahead, for %s, because of %s",
			day(worst.Start), resource(worst.Resource), pool, percent(worst.Actual), percent(worst.Forecast), worst.Horizon,
			count(worst.Minutes, "minute"), worst.because(2))
	}
	return text + "."
}
