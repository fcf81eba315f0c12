package main

import (
	"context"
	"flag"
	"io"
	"net/url"
	"path/filepath"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/features"
)

type planFlags struct {
	config string

	trace  string
	stated plan.Stated
	from   string

	in    plan.Input
	query url.Values // the values of the launch, as a daemon reads them

	format string // md, json or html
}

func runPlan(f *flag.FlagSet) action {
	p := planFlags{in: plan.NewInput(), query: url.Values{}, format: "md"}
	f.StringVar(&p.config, "config", "", "configuration `file` whose pool is planned")
	f.StringVar(&p.from, "from", "", "`URL` of a running daemon, in place of -config: it plans one of its pools with its traffic, replicas, rates and bounds")

	f.StringVar(&p.trace, "trace", "", "trace `file` with the traffic, in any format that backtest reads")
	s := &p.stated
	f.Float64Var(&s.RequestsPerS, "requests-per-s", 0, "stated requests a second, at the 95th percentile of the minutes")
	f.Float64Var(&s.Prompt, "prompt", 1200, "stated mean `tokens` of a prompt")
	f.Float64Var(&s.Output, "output", 250, "stated mean `tokens` of an output")
	f.Float64Var(&s.CacheHit, "cache-hit", 0, "stated `share` of prompt tokens served from cache")

	for _, x := range []struct{ flag, key, usage string }{
		{"pool", "pool", "`name` of the pool (default: the only one)"},
		{"replicas", "replicas", "`number` of replicas there are (default: of the daemon, or the configuration's initial ones)"},
		{"prefill-replicas", "prefill_replicas", "`number` of prefill replicas there are, of a disaggregated pool"},
		{"launch", "launch", "`factor` of the launch on requests (default 3)"},
		{"launch-prompt", "prompt", "`factor` of the launch on prompt lengths (default 1)"},
		{"launch-output", "output", "`factor` of the launch on output lengths (default 1)"},
		{"launch-cache-hit", "cache_hit", "`factor` of the launch on the cache hit ratio (default 1)"},
		{"launch-retry", "retry", "more attempts at the launch than now, as a `share` of those"},
		{"ramp", "ramp", "`duration` until all of a change has come; 0s is at once (default 20m)"},
	} {
		f.Func(x.flag, x.usage, func(text string) error {
			p.query.Set(x.key, text)
			return p.in.Set(x.key, text)
		})
	}

	choice(f, &p.format, "format", "md (default), json or html", "md", "json", "html")
	return func(ctx context.Context, _ []string, std streams) error {
		if p.from != "" {
			p.query.Set("format", p.format)
			return askDaemon(ctx, std.out, "-from", p.from, "/api/v1/plan?"+p.query.Encode())
		}
		return p.write(ctx, std)
	}
}

// write writes the sheet of a configured pool.
func (p *planFlags) write(ctx context.Context, std streams) error {
	cfg, err := asUsage(config.Load(p.config))
	if err != nil {
		return err
	}
	pc := cfg.Pipeline()
	pool, err := choosePool(&pc, p.config, p.query.Get("pool"))
	if err != nil {
		return err
	}
	if err := p.in.UsePool(pool, pc.Decision.WaitingPerReplica, nil); err != nil {
		return usagef("-prefill-replicas: %w", err)
	}
	switch {
	case p.trace != "":
		err = p.readTrace(ctx, pc.Features, std)
	case p.stated.RequestsPerS != 0:
		err = p.readStated()
	default:
		return p.writeMemory(std.out)
	}
	if err != nil {
		return err
	}
	sheet, err := plan.New(p.in)
	if err != nil {
		return usageError{err}
	}
	document, err := plan.Render(sheet, p.format)
	if err == nil {
		_, err = std.out.Write(document)
	}
	return err
}

func (p *planFlags) readStated() error {
	load, err := p.stated.Load()
	if err != nil {
		return usagef("-%w", err)
	}
	p.in.Traffic = plan.Traffic{
		Source: "stated rates", Minutes: []plan.Load{load},
		Notes: []string{"Rates are stated: take them at the 95th percentile of the minutes, not at the mean."},
	}
	return nil
}

// readTrace counts the traffic of the trace as the daemon would.
func (p *planFlags) readTrace(ctx context.Context, counting features.Config, std streams) error {
	bar := progress{w: std.err}
	defer bar.finish()
	reader, err := asUsage(backtest.Open(p.trace, backtest.Options{Progress: bar.show}))
	if err != nil {
		return err
	}
	defer reader.Close()
	pool := &p.in.Pool
	counting.Lateness = 0 // a trace is complete
	speed := features.Service{PrefillTokensPerS: pool.Rates.PrefillTokensPerS, ITL: pool.ITL}
	counting.Service = map[string]features.Service{pool.Name: speed}
	demand, err := backtest.Scan(ctx, backtest.NewSource(reader, pool.Name), counting)
	if err != nil {
		return err
	}
	bar.finish()
	traceNotes(reader, std)
	return p.in.SetTraffic(demand.Calls, filepath.Base(p.trace))
}

// writeMemory writes the model's memory per replica, if there is no traffic to plan for.
func (p *planFlags) writeMemory(w io.Writer) error {
	if p.in.Pool.Fit == nil {
		return usagef("no traffic is given, and no model and GPU whose memory could be counted: add -trace or -requests-per-s, or model_config and gpu to the pool")
	}
	format := map[string]string{"md": "memory", "json": "json"}[p.format]
	if format == "" {
		return usagef("-format html is for launch sheets: give traffic, or -format md or json")
	}
	document, err := plan.Render(plan.MemoryOf(&p.in.Pool.Pool), format)
	if err == nil {
		_, err = w.Write(document)
	}
	return err
}
