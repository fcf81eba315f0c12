package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// suggest runs the period of a report again, for each of its pools, with the configuration in force and with a few others,
// and puts what would have done better beyond noise into the report, or what was tried. A week of a pool takes some 20 s of
// one core for each of its resources, and no memory to speak of. step, when set, is told how far it has come.
func suggest(ctx context.Context, h report.History, cfg forewarm.Config, r *report.Report, step func(done, all int)) error {
	pasts, err := readPasts(ctx, h, &cfg, r.From, r.To)
	if err != nil {
		return err
	}
	w := &work{step: step}
	tries := make([]*trials, len(r.Pools)) // nil where none can be tried
	for i := range r.Pools {
		if p := pasts[r.Pools[i].Pool]; p != nil && p.why == "" {
			tries[i] = p.trials(cfg.Decision, len(r.Pools))
			w.all += len(p.Demand)
		}
	}
	for i := range r.Pools {
		p := pasts[r.Pools[i].Pool]
		if p == nil {
			p = &pastPool{why: "the configuration has no such pool"}
		}
		if err := p.run(ctx, tries[i], &cfg, &r.Pools[i], w); err != nil {
			return fmt.Errorf("suggestions for pool %s: %w", r.Pools[i].Pool, err)
		}
	}
	r.Summarise() // which names the first
	return nil
}

// run puts what does better into the report, and what was tried.
func (p *pastPool) run(ctx context.Context, t *trials, cfg *forewarm.Config, to *report.Pool, w *work) error {
	if t == nil {
		to.SuggestionsTried = "No change of decisions was tried: " + p.why + "."
		to.TriedHow = to.SuggestionsTried
		return nil
	}
	days, err := backtest.Rerun(ctx, &p.Past, t.arms, suggestSeed, w.part(len(p.Demand)))
	if err != nil {
		return err
	}
	objective := p.objective(cfg.Decision)
	chosen := t.judge(objective, days)
	for _, c := range chosen {
		to.Suggestions = append(to.Suggestions, p.suggestion(c, days[c.judged[0]], days[c.judged[1]]))
	}
	to.Tried, to.TriedHow = t.each(chosen, days), p.how(objective, len(days[inForce]), len(t.list))
	to.SuggestionsTried = t.tried(len(chosen), days) + to.TriedHow
	return nil
}

// work says how far long work has come: series that were forecast again, in thousandths.
type work struct {
	done, all int
	step      func(done, all int)
}

// part is told of the minutes of a part of the work.
func (w *work) part(series int) func(done, all int) {
	before := w.done
	w.done += series
	return func(done, all int) {
		if w.step != nil {
			w.step(1000*before+1000*series*done/all, 1000*w.all)
		}
	}
}

// suggestShown shows how far suggest has come.
func suggestShown(ctx context.Context, h report.History, cfg forewarm.Config, r *report.Report, to io.Writer) error {
	var bar *progress
	err := suggest(ctx, h, cfg, r, func(done, all int) {
		if bar == nil {
			bar = newProgress(to, "running again", int64(all))
		}
		bar.set(int64(done))
	})
	bar.finish()
	return err
}

// suggestConfigured is suggest with what a daemon was configured with.
func suggestConfigured(ctx context.Context, h report.History, cfg *config.Config, r *report.Report) error {
	pipeline, err := cfg.Pipeline()
	if err != nil {
		return err
	}
	return suggest(ctx, h, pipeline, r, nil)
}

// suggestSeed draws the warm-ups: the same for all settings, and for every report.
const suggestSeed = 1

// suggestion is a change with what it does.
func (p *pastPool) suggestion(t *trial, before, after []backtest.Account) report.Suggestion {
	s := report.Suggestion{
		Key: t.key, From: t.from, To: t.to, Why: t.why, Expected: effect(before, after),
		How:  fmt.Sprintf("%s run again with both settings.", count(len(before), "day")),
		Note: t.note + "In sample: these days chose it, and the next may differ.",
	}
	if p.lags < fewestLags {
		s.Note += " How long replicas took is not known: the prior was taken for it."
	}
	return s
}

// effect is what a change does to decisions.
func effect(before, after []backtest.Account) report.Effect {
	was, is := backtest.Sum(before), backtest.Sum(after)
	return report.Effect{
		Minutes: was.Minutes, SaturatedMinutesBefore: report.Number(was.Saturated), SaturatedMinutesAfter: report.Number(is.Saturated),
		GPUHoursBefore: report.Number(was.GPUHours), GPUHoursAfter: report.Number(is.GPUHours),
		ScaleActionsBefore: report.Number(was.Actions), ScaleActionsAfter: report.Number(is.Actions),
	}
}

// how the effects were obtained, and when a change is suggested.
func (p *pastPool) how(o backtest.Objective, days, tried int) string {
	worth := strconv.FormatFloat(o.Worth, 'g', 3, 64) + " replica-minutes, as the quantile in force implies, and saturated minutes may rise in neither half"
	if o.Priced {
		worth = strconv.FormatFloat(o.Worth, 'g', 3, 64) + " replica-minutes, by the configured prices"
	}
	roles := ""
	if p.pool.Disaggregated {
		roles = " Replicas that prefill and those that decode were run side by side, both counted, with the same lags; sending KV cache from one to the other is left out."
	}
	return fmt.Sprintf("The pool's settled demand of %s was run again in a fluid simulation: for each setting replicas of its own, models that had learned from the %.3g hours before, "+
		"capacity as decisions had it, and warm-up lags of %s (median) and %s (90th percentile). "+
		"A change is suggested when it costs less in both halves, by 1 %% in all, and in 95 %% of bootstrap draws of days, corrected for %s; a minute short of a replica costs %s.%s",
		count(days, "day"), float64(p.From)/60, lasting(p.Lag.P50), lasting(p.Lag.P90), count(tried, "trial"), worth, roles)
}

// lasting is a duration as configurations have it: 5m, 1m30s.
func lasting(d time.Duration) string {
	s := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

func lagText(l capacity.Lag) string {
	return fmt.Sprintf("{p50: %s, p90: %s}", lasting(l.P50), lasting(l.P90))
}
