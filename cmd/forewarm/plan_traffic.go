package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/backtest"
)

// readTraffic reads the pool's traffic from the one source in the flags.
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

// readStated reads the traffic in the flags.
func (p *planFlags) readStated(in *plan.Input) error {
	if err := statedTraffic(in, "stated rates", []statedClass{p.stated.class}); err != nil {
		return usageError{p.flagged(err)}
	}
	return nil
}

// statedClass is a class in a demand file or the flags. The default p95 is three times the p50.
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
			return usagef("class %q: requests_per_s is 0: state how many there are", c.Class)
		}
		total = total.Plus(load)
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
	var records plan.Records
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
		if it.Request != nil {
			err = records.Add(it.Request)
		} else {
			err = records.AddSum(it.Sum)
		}
		if err != nil {
			return usageError{err}
		}
	}
	bar.finish()
	if err := traceNotes(reader, std); err != nil {
		return err
	}
	records.Fill(in, filepath.Base(p.trace))
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
