package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

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

// summarise says in at most five sentences what a reader in a hurry needs.
func summarise(r *Report) []string {
	period := fmt.Sprintf("from %s to %s UTC", r.From.Format("Mon 2 Jan 2006 15:04"), r.To.Format("Mon 2 Jan 2006 15:04"))
	if len(r.Pools) == 0 {
		return []string{"No data: nothing was observed, forecast or decided " + period + ", so nothing can be said of it."}
	}
	type named struct {
		pool string
		Accuracy
	}
	var rows []named
	var saturation Saturation
	observed, minutes := 0, 0
	for i := range r.Pools {
		p := &r.Pools[i]
		for _, a := range p.headline() {
			rows = append(rows, named{p.Pool, a})
		}
		observed, minutes = observed+p.Data.Observed, minutes+p.Data.Minutes
		saturation.add(&p.Saturation)
	}
	out := []string{fmt.Sprintf("%s had telemetry for %s of the minutes %s.",
		count(len(r.Pools), "pool"), percent(Number(observed)/Number(minutes)), period)}
	if late := lateSentence(r.Pools); late != "" {
		out = append(out, late)
	}
	if len(rows) == 0 {
		return append(out, "No forecast can be scored: none was stored, or what came is not known.", saturation.sentence())
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
	return append(out,
		fmt.Sprintf("Forecasts of pool totals %s minutes ahead were off by %s of demand at best (%s of %s) and %s at worst (%s of %s).",
			best.Horizon, percent(best.WAPE), best.Dimension, best.pool, percent(worst.WAPE), worst.Dimension, worst.pool),
		fmt.Sprintf("They beat repeating the last value in %d of %d.", skilled, len(rows)),
		fmt.Sprintf("Their 90 %% quantiles held in %s to %s of minutes.", percent(low), percent(high)),
		saturation.sentence())
}

// add sums what the sentence needs.
func (s *Saturation) add(o *Saturation) {
	s.KnownMinutes += o.KnownMinutes
	s.InTime, s.Late, s.Missed = s.InTime+o.InTime, s.Late+o.Late, s.Missed+o.Missed
	s.Averted, s.False, s.Open = s.Averted+o.Averted, s.False+o.False, s.Open+o.Open
}

func (s *Saturation) sentence() string {
	if s.KnownMinutes == 0 {
		return "Whether anything saturated is not known: demand and capacity were never known together."
	}
	return fmt.Sprintf("%s came: %d announced in time, %d late, %d missed; %d averted after an announcement, and %s.",
		count(s.InTime+s.Late+s.Missed, "saturation"), s.InTime, s.Late, s.Missed, s.Averted, count(s.False, "false alarm"))
}
