package main

import (
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
	case given["from"]:
		return p.askLive(ctx, in)
	case given["data"]:
		return p.readHistory(ctx, in)
	case given["demand"]:
		return p.readDemand(in)
	}
	return statedTraffic(in, "stated rates", []statedClass{p.stated.class})
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
			return usagef("class %q has no requests_per_s: state how many there are", c.Class)
		}
		total = total.Plus(load)
		t.Classes = append(t.Classes, plan.Class{Name: c.Class, Load: load})
		in.Lengths.P50 = max(in.Lengths.P50, c.PromptP50+c.OutputP50)
		in.Lengths.P95 = max(in.Lengths.P95, c.PromptP95+c.OutputP95)
	}
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

// gatherer adds up a trace by the minute.
type gatherer struct {
	start    time.Time
	minutes  []plan.Load
	classes  map[string]plan.Load // sums over the trace
	tenants  map[string]plan.Load
	contexts sketch.Quantile
	longest  float64

	calls, attempts, failed float64
	uncached, outputs       float64 // records that did not say
	records                 float64
	binned                  bool
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
	g := gatherer{classes: map[string]plan.Load{}, tenants: map[string]plan.Load{}}
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
	g.calls += n
	g.attempts += n
	load := plan.Request(known(s.PromptTokens)/n, known(s.CachedTokens)/n, known(s.OutputTokens)/n).Times(n)
	return g.book(s.Start, s.Class, "", load)
}

func (g *gatherer) request(r *ingest.Request) error {
	if r.Phase == ingest.PhaseArrived {
		return nil // its end is another record
	}
	g.attempts++
	if r.Attempt > 1 {
		return nil // retries are told by their share
	}
	g.calls++
	g.records++
	if r.Status != ingest.StatusOK {
		g.failed++
	}
	if r.CachedTokens < 0 {
		g.uncached++
	}
	if r.OutputTokens < 0 {
		g.outputs++
	}
	prompt, output := float64(max(r.PromptTokens, 0)), float64(max(r.OutputTokens, 0))
	g.contexts.Add(prompt + output)
	g.longest = max(g.longest, prompt+output)
	return g.book(r.EventTime(), r.Class, r.Tenant, plan.Request(prompt, min(float64(max(r.CachedTokens, 0)), prompt), output))
}

// book adds a load, a sum over requests, to its minute, class and tenant.
func (g *gatherer) book(at time.Time, class, tenant string, load plan.Load) error {
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
	g.minutes[i] = g.minutes[i].Plus(load.Times(1 / features.Minute.Seconds()))
	addTo(g.classes, class, load)
	if tenant != "" {
		addTo(g.tenants, tenant, load)
	}
	return nil
}

func addTo(sums map[string]plan.Load, name string, load plan.Load) {
	if _, ok := sums[name]; !ok && len(sums) >= namesKept {
		name = otherName
	}
	sums[strings.Clone(name)] = sums[name].Plus(load)
}

func (g *gatherer) traffic(source string) plan.Traffic {
	t := plan.Traffic{
		Source: fmt.Sprintf("%s (%s)", source, count(len(g.minutes), "minute")), Start: g.start, Minutes: g.minutes,
		Classes: means(g.classes, len(g.minutes)), Tenants: means(g.tenants, len(g.minutes)),
	}
	if g.calls > 0 {
		t.Failed, t.Retried = g.failed/g.calls, (g.attempts-g.calls)/g.calls
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

// means are mean loads a second of sums over so many minutes, the heaviest by tokens first.
func means(sums map[string]plan.Load, minutes int) []plan.Class {
	var out []plan.Class
	for name, sum := range sums {
		out = append(out, plan.Class{Name: name, Load: sum.Times(1 / (float64(minutes) * features.Minute.Seconds()))})
	}
	slices.SortFunc(out, func(a, b plan.Class) int {
		if x, y := a.Load.Prompt+a.Load.Output, b.Load.Prompt+b.Load.Output; x != y {
			if x > y {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
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
