package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/markdown"
)

// state is how a pool fared, in a word.
type state string

// The states, best first.
const (
	held   state = "held"
	watch  state = "watch"
	act    state = "act"
	noData state = "no data"
)

// byNeed orders pools by how much they need a reader.
func byNeed(r *Report) []*Pool {
	var out []*Pool
	for i := range r.Pools {
		out = append(out, &r.Pools[i])
	}
	rank := map[state]int{act: 0, watch: 1, noData: 2, held: 3}
	slices.SortStableFunc(out, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(rank[a.state()], rank[b.state()]), cmp.Compare(b.Saturation.SaturatedMinutes, a.Saturation.SaturatedMinutes))
	})
	return out
}

// state says in a word how a pool fared: act when it saturated without having been announced in time; watch when it saturated, when there were more false alarms than true ones, when a tenth of the
// minutes is not known or had no decision, when more than half of what was used was beyond need, or when the 90 % quantile did not hold.
func (p *Pool) state() state {
	s := &p.Saturation
	switch {
	case p.Data.Observed == 0 || s.KnownMinutes == 0 && len(p.headline()) == 0:
		return noData
	case s.Missed+s.Late > 0:
		return act
	case s.SaturatedMinutes > 0, s.False > s.InTime+s.Averted, float64(p.Data.Observed) < .9*float64(p.Data.Minutes), p.beyondNeed() > .5:
		return watch
	}
	if 10*p.Data.Decided < 9*p.Data.Minutes || p.tooNarrow() {
		return watch
	}
	return held
}

// leastOutcomes are the independent outcomes from which a quantile is judged.
const leastOutcomes = 30

// tooNarrow says whether the 90 % quantile of the main row held in fewer minutes than chance explains.
func (p *Pool) tooNarrow() bool {
	a := p.main()
	return a != nil && a.Q90.Effective >= leastOutcomes && float64(a.Q90.High) < .9
}

// main is the headline row of the pool's binding resource, or else the first one; nil without any.
func (p *Pool) main() *Accuracy {
	rows := p.headline()
	for i := range rows {
		if p.Timeline != nil && rows[i].Dimension == p.Timeline.Resource {
			return &rows[i]
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return &rows[0]
}

// firstTable is what a busy reader needs of each pool.
func firstTable(pools []*Pool) markdown.Table {
	g := markdown.Table{Head: []string{"pool", "state", ">minutes saturated", ">announced in time", ">false alarms", ">error 15 min ahead", ">90 % quantile held", ">used", ">beyond need", ">with hindsight", "what to do"}}
	for _, p := range pools {
		s, v := &p.Saturation, &p.Decisions.Provision
		row := []string{p.Pool, string(p.state()), unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, p.advice()}
		if s.KnownMinutes > 0 {
			row[2], row[4] = fmt.Sprint(s.SaturatedMinutes), fmt.Sprint(s.False)
			if all := s.InTime + s.Late + s.Missed; all > 0 {
				row[3] = fmt.Sprintf("%d of %d", s.InTime, all)
			}
		}
		if a := p.main(); a != nil {
			of := resource(a.Dimension)
			if a.Horizon != strconv.Itoa(headlineMinutes) {
				of += ", " + a.Horizon + " min"
			}
			row[5], row[6] = fmt.Sprintf("%s (%s)", percent(a.WAPE), of), percent(a.Q90.Share)
		}
		if v.KnownMinutes > 0 {
			row[7], row[8], row[9] = v.Paid.cell(), v.Over.cell(), v.Clairvoyant.cell()
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// advice is what a reader should do about a pool.
func (p *Pool) advice() string {
	s := &p.Saturation
	switch {
	case p.Data.Observed == 0:
		return "Find out why no telemetry comes."
	case s.Missed+s.Late > 0:
		return p.lookAt()
	case 10*p.Data.Observed < 9*p.Data.Minutes:
		return fmt.Sprintf("Mend telemetry: %s of the minutes are not known.", percent(1-Number(p.Data.Observed)/Number(p.Data.Minutes)))
	case s.False > s.InTime+s.Averted:
		return "Lower decision.false_alarms_per_week if the false alarms disturb."
	case s.SaturatedMinutes > 0 && p.Decisions.Mode == string(alerting.Advisory):
		return "Let an autoscaler act on the advice (decision.mode: active): it saturated though that was announced."
	case s.SaturatedMinutes > 0:
		return "See what kept replicas from coming: it saturated though that was announced."
	case 10*p.Data.Decided < 9*p.Data.Minutes:
		return fmt.Sprintf("Find out why no decision stood in %s of the minutes: was the daemon new, or down?", percent(1-Number(p.Data.Decided)/Number(p.Data.Minutes)))
	case p.tooNarrow():
		return fmt.Sprintf("Watch the 90 %% quantile, which held in %s: a higher decision.quantile would be safer until it holds.", percent(p.main().Q90.Share))
	case p.beyondNeed() > .5:
		return fmt.Sprintf("See whether fewer replicas would do: %s of what was used was beyond need.", percent(p.beyondNeed()))
	}
	return "Nothing."
}

// beyondNeed is the share of what was used; NaN where it is not known.
func (p *Pool) beyondNeed() Number {
	v := &p.Decisions.Provision
	if v.KnownMinutes == 0 {
		return Number(math.NaN())
	}
	return v.Over.ReplicaHours / v.Paid.ReplicaHours
}

// surprise is the saturation that was missed or late by most, of those whose error is explained where there is one, and that
// error.
func (p *Pool) surprise() (worst *Episode, why *ErrorEpisode) {
	for i := range p.Saturation.Episodes {
		x := &p.Saturation.Episodes[i]
		if x.Outcome != Missed && x.Outcome != Late {
			continue
		}
		e := p.errorAt(x)
		if worst == nil || why == nil && e != nil || (why != nil) == (e != nil) && x.lacked() > worst.lacked() {
			worst, why = x, e
		}
	}
	return worst, why
}

// lookAt tells of it.
func (p *Pool) lookAt() string {
	worst, why := p.surprise()
	if worst == nil {
		return "Look at the saturations that were late or missed."
	}
	text := fmt.Sprintf("Look at %s: %s rose to %s of capacity, and that was %s", day(worst.Start), resource(worst.Resource), percent(worst.Utilisation),
		map[Outcome]string{Missed: "not announced", Late: "announced late"}[worst.Outcome])
	if why == nil {
		return text + "."
	}
	return fmt.Sprintf("%s: over %s %s came where %s was forecast, for %s.", text, count(why.Minutes, "minute"), percent(why.Actual), percent(why.Forecast), why.because(1))
}

// lacked is the capacity that a saturation lacked at most, in minutes of what was ready.
func (e *Episode) lacked() Number { return (e.Utilisation - 1) * Number(e.Minutes) }

// errorAt is the error of a saturation's resource that came as more than was forecast when it began; nil without one.
func (p *Pool) errorAt(x *Episode) (found *ErrorEpisode) {
	for i := range p.Errors {
		e := &p.Errors[i]
		lasted := time.Duration(e.Minutes) * time.Minute
		if e.Resource == x.Resource && e.Error > 0 && len(e.Parts) > 0 && !x.Start.Before(e.Start) && x.Start.Before(e.Start.Add(lasted)) &&
			(found == nil || larger(e, found) < 0) {
			found = e
		}
	}
	return found
}
