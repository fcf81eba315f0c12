package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
)

// readTraffic fills in what the pool is asked for, from the one source that was given.
func (p *planFlags) readTraffic(ctx context.Context, in *plan.Input, given map[string]bool, std streams) (err error) {
	switch {
	case given["trace"]:
		return p.readTrace(ctx, in, std)
	case given["data"]:
		return p.readHistory(ctx, in)
	case given["demand"]:
		return p.readDemand(in)
	}
	return p.readStated(in)
}

// readStated takes the traffic that the flags state.
func (p *planFlags) readStated(in *plan.Input) error {
	if err := statedTraffic(in, "stated rates", []statedClass{p.stated.class}); err != nil {
		return usageError{p.flagged(err)}
	}
	return nil
}

// statedClass is a class as a demand file and the flags state it. A p95 that is left out is three times the p50.
type statedClass struct {
	Class        string  `yaml:"class"`
	RequestsPerS float64 `yaml:"requests_per_s"`
	PromptP50    float64 `yaml:"prompt_p50"`
	PromptP95    float64 `yaml:"prompt_p95"`
	OutputP50    float64 `yaml:"output_p50"`
	OutputP95    float64 `yaml:"output_p95"`
	CacheHit     float64 `yaml:"cache_hit"`
}

type statedFlags struct{ class statedClass }

func (s *statedFlags) define(f *flag.FlagSet) {
	c := &s.class
	c.Class = "all"
	f.Float64Var(&c.RequestsPerS, "requests-per-s", 0, "stated requests a second, at the 95th percentile of the minutes")
	f.Float64Var(&c.PromptP50, "prompt-p50", 1000, "stated median `tokens` of a prompt")
	f.Float64Var(&c.PromptP95, "prompt-p95", 0, "stated 95th percentile (default: three times the median)")
	f.Float64Var(&c.OutputP50, "output-p50", 200, "stated median `tokens` of an output")
	f.Float64Var(&c.OutputP95, "output-p95", 0, "stated 95th percentile (default: three times the median)")
	f.Float64Var(&c.CacheHit, "cache-hit", 0, "stated `share` of prompt tokens served from cache")
}

const p95OverP50 = 3

func statedTraffic(in *plan.Input, source string, classes []statedClass) error {
	t := plan.Traffic{Source: source}
	var total plan.Load
	var lengths []*plan.ClassLengths
	for _, c := range classes {
		if c.PromptP95 == 0 {
			c.PromptP95 = p95OverP50 * c.PromptP50
		}
		if c.OutputP95 == 0 {
			c.OutputP95 = p95OverP50 * c.OutputP50
		}
		s := plan.Stated{
			RequestsPerS: c.RequestsPerS, Prompt: plan.Lengths{P50: c.PromptP50, P95: c.PromptP95},
			Output: plan.Lengths{P50: c.OutputP50, P95: c.OutputP95}, CacheHit: c.CacheHit,
		}
		load, err := s.Load()
		if err != nil {
			return usagef("class %q: %w", c.Class, err)
		}
		if load.Requests == 0 {
			return usagef("class %q: requests_per_s is 0: state how many there are", c.Class)
		}
		total = total.Plus(load)
		t.Classes = append(t.Classes, plan.Class{Name: c.Class, Load: load})
		var each plan.ClassLengths
		each.Prompt.AddLengths(s.Prompt, c.RequestsPerS)
		each.Output.AddLengths(s.Output, c.RequestsPerS)
		lengths = append(lengths, &each)
	}
	in.Lengths = plan.ContextsOf(lengths)
	t.Minutes = []plan.Load{total}
	t.Notes = append(t.Notes, "Rates are stated: take them at the 95th percentile of the minutes, not at the mean.")
	in.Traffic = t
	return nil
}

// maxStated bounds the classes of a demand file.
const maxStated = 1000

func (p *planFlags) readDemand(in *plan.Input) error {
	data, err := readSmall(p.demand, 1<<20)
	if err != nil {
		return usagef("-demand %s cannot be read: %w", p.demand, err)
	}
	var file struct {
		Classes []statedClass `yaml:"classes"`
	}
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.DisallowUnknownField()); err != nil {
		return usagef("-demand %s: %w", p.demand, errors.New(strings.ReplaceAll(err.Error(), "\n", " ")))
	}
	if n := len(file.Classes); n == 0 || n > maxStated {
		return usagef("-demand %s has %d classes: list 1 to %d under classes, each with requests_per_s, prompt_p50 and output_p50", p.demand, n, maxStated)
	}
	return statedTraffic(in, filepath.Base(p.demand), file.Classes)
}

// otherName is what further names are counted as.
const otherName = features.OverflowClass

// namesKept bounds the classes, and the tenants, that are told apart; further ones are counted together.
const namesKept = 200

// tally is a sum over requests.
type tally struct {
	load          plan.Load
	calls, served float64
}

func (t *tally) add(o *tally) {
	t.load, t.calls, t.served = t.load.Plus(o.load), t.calls+o.calls, t.served+o.served
}

// gatherer adds up a trace by the minute.
type gatherer struct {
	start    time.Time
	minutes  []plan.Load
	all      tally
	by       [2]map[string]tally // class, tenant
	contexts sketch.Quantile
	longest  float64

	uncached, outputs float64 // records that did not say
	records           float64
	binned            bool
}

func (p *planFlags) readTrace(ctx context.Context, in *plan.Input, std streams) error {
	o := p.options
	var err error
	if o.Start, err = parseTime("-start", p.start); err != nil {
		return err
	}
	reader, err := openTrace(p.trace, o)
	if err != nil {
		return err
	}
	defer reader.Close()
	var g gatherer
	for i := range g.by {
		g.by[i] = map[string]tally{}
	}
	_, size := reader.Progress()
	bar := newProgress(std.err, "reading", size)
	defer bar.finish()
	var it backtest.Item
	for n := 0; ; n++ {
		if err := reader.Next(&it); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			read, _ := reader.Progress()
			bar.set(read)
		}
		if err := g.add(&it); err != nil {
			return usageError{err}
		}
	}
	bar.finish()
	if err := traceNotes(reader, std); err != nil {
		return err
	}
	in.Traffic = g.traffic(filepath.Base(p.trace))
	in.Lengths = plan.Contexts{P50: g.contexts.Quantile(0.5), P95: g.contexts.Quantile(0.95), Longest: g.longest}
	if g.contexts.Count() == 0 {
		in.Lengths = plan.Contexts{}
	}
	return nil
}

// maxPlanMinutes bounds a trace: a year.
const maxPlanMinutes = 366 * 1440

func (g *gatherer) add(it *backtest.Item) error {
	if r := it.Request; r != nil {
		return g.request(r)
	}
	s := it.Sum
	n := known(s.Requests)
	if n == 0 {
		return nil
	}
	g.binned = true
	load := plan.Request(known(s.PromptTokens)/n, known(s.CachedTokens)/n, known(s.OutputTokens)/n).Times(n)
	return g.book(s.Start, &tally{load, n, math.NaN()}, s.Class)
}

func (g *gatherer) request(r *ingest.Request) error {
	if r.Phase == ingest.PhaseArrived {
		return nil // its end is another record
	}
	g.records++
	if r.CachedTokens < 0 {
		g.uncached++
	}
	if r.OutputTokens < 0 {
		g.outputs++
	}
	prompt, output := float64(max(r.PromptTokens, 0)), float64(max(r.OutputTokens, 0))
	one := tally{load: plan.Request(prompt, min(float64(max(r.CachedTokens, 0)), prompt), output)}
	rejected := r.Phase == ingest.PhaseRejected || r.Status == ingest.StatusRejected
	if r.Attempt <= 1 {
		one.calls = 1
		g.contexts.Add(prompt + output)
		g.longest = max(g.longest, prompt+output)
	} else if rejected {
		one.load = plan.Load{Requests: 1} // no replica computes it again
	}
	if r.Phase == ingest.PhaseFinished && r.Status == ingest.StatusOK {
		one.served = 1
	}
	return g.book(r.EventTime(), &one, r.Class, r.Tenant)
}

// book adds a sum over requests to its minute, and to those that asked.
func (g *gatherer) book(at time.Time, t *tally, of ...string) error {
	minute := at.Truncate(features.Minute)
	if g.start.IsZero() {
		g.start = minute
	}
	i := int(minute.Sub(g.start) / features.Minute)
	if i < 0 {
		i = 0 // records come up when they end: one that arrived before the first to end
	}
	if i >= maxPlanMinutes {
		return fmt.Errorf("the trace is longer than %d days: cut it, or check its times", maxPlanMinutes/1440)
	}
	for len(g.minutes) <= i {
		g.minutes = append(g.minutes, plan.Load{})
	}
	g.minutes[i] = g.minutes[i].Plus(t.load.Times(1 / features.Minute.Seconds()))
	g.all.add(t)
	for k, name := range of {
		if name == "" && k > 0 {
			continue
		}
		sum, ok := g.by[k][name]
		if !ok && len(g.by[k]) >= namesKept {
			name = otherName
			sum = g.by[k][name]
		}
		sum.add(t)
		g.by[k][strings.Clone(name)] = sum
	}
	return nil
}

func (g *gatherer) traffic(source string) plan.Traffic {
	seconds := float64(len(g.minutes)) * features.Minute.Seconds()
	t := plan.Traffic{
		Source: fmt.Sprintf("%s (%s)", source, count(len(g.minutes), "minute")), Minutes: g.minutes,
		Calls: plan.Calls{Calls: g.all.calls / seconds, Served: g.all.served / seconds},
	}
	for i, to := range []*[]plan.Class{&t.Classes, &t.Tenants} {
		*to = means(g.by[i], seconds)
	}
	if g.binned {
		t.Notes = append(t.Notes, "The trace has sums, not requests: lengths are taken as equal within a bin, so active KV tokens are too low where they vary.")
	}
	if g.records > 0 && g.uncached/g.records > 0.5 {
		t.Notes = append(t.Notes, "The trace does not say what was cached: all prompt tokens count as prefill.")
	}
	if g.records > 0 && g.outputs/g.records > 0.5 {
		t.Notes = append(t.Notes, "The trace does not say how long outputs were: decode and KV tokens are too low.")
	}
	return t
}

// means are mean rates of sums over so many seconds, the heaviest by tokens first.
func means(sums map[string]tally, seconds float64) []plan.Class {
	var out []plan.Class
	for name, sum := range sums {
		out = append(out, plan.Class{Name: name, Load: sum.load.Times(1 / seconds), Calls: plan.Calls{Calls: sum.calls / seconds, Served: sum.served / seconds}})
	}
	slices.SortFunc(out, func(a, b plan.Class) int {
		return cmp.Or(cmp.Compare(b.Load.Prompt+b.Load.Output, a.Load.Prompt+a.Load.Output), strings.Compare(a.Name, b.Name))
	})
	return out
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func known(x float64) float64 {
	if math.IsNaN(x) || x < 0 {
		return 0
	}
	return x
}
