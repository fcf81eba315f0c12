package main

import (
	"context"
	"flag"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// planFlags are the flags of forewarm plan.
type planFlags struct {
	config, pool string

	trace  string
	start  string
	stated plan.Stated
	from   string

	replicas, prefill int
	launch            plan.Change
	ramp              time.Duration

	format, out string
}

func (p *planFlags) define(f *flag.FlagSet) {
	f.StringVar(&p.config, "config", "", "configuration `file` whose pool is planned")
	f.StringVar(&p.pool, "pool", "", "`name` of the pool (default: the only one)")
	f.StringVar(&p.from, "from", "", "`URL` of a running daemon, in place of -config: it plans one of its pools with its traffic, replicas, rates and bounds")

	f.StringVar(&p.trace, "trace", "", "trace `file` with the traffic, in any format that backtest reads")
	f.StringVar(&p.start, "start", "", "`time` of t_s = 0 in the trace, RFC 3339 (default: a Monday, midnight UTC)")
	s := &p.stated
	f.Float64Var(&s.RequestsPerS, "requests-per-s", 0, "stated requests a second, at the 95th percentile of the minutes")
	f.Float64Var(&s.Prompt.P50, "prompt-p50", 1000, "stated median `tokens` of a prompt")
	f.Float64Var(&s.Prompt.P95, "prompt-p95", 0, "stated 95th percentile (default: three times the median)")
	f.Float64Var(&s.Output.P50, "output-p50", 200, "stated median `tokens` of an output")
	f.Float64Var(&s.Output.P95, "output-p95", 0, "stated 95th percentile (default: three times the median)")
	f.Float64Var(&s.CacheHit, "cache-hit", 0, "stated `share` of prompt tokens served from cache")

	f.IntVar(&p.replicas, "replicas", 0, "replicas there are (default: of the daemon, or the configuration's initial ones)")
	f.IntVar(&p.prefill, "prefill-replicas", 0, "prefill replicas there are, of a disaggregated pool")
	f.Float64Var(&p.launch.Rate, "launch", 3, "`factor` of the launch on requests")
	f.Float64Var(&p.launch.Prompt, "launch-prompt", 1, "`factor` of the launch on prompt lengths")
	f.Float64Var(&p.launch.Output, "launch-output", 1, "`factor` of the launch on output lengths")
	f.Float64Var(&p.launch.CacheHit, "launch-cache-hit", 1, "`factor` of the launch on the cache hit ratio")
	f.Float64Var(&p.launch.Retry, "launch-retry", 0, "more attempts at the launch than now, as a `share` of those")
	f.DurationVar(&p.ramp, "ramp", 20*time.Minute, "time until all of a change has come; 0s is at once")

	f.StringVar(&p.format, "format", "md", "md, json or html")
	f.StringVar(&p.out, "o", "", "write to `file` instead of standard output")
}

func runPlan(ctx context.Context, args []string, std streams) error {
	f := flag.NewFlagSet("plan", flag.ContinueOnError)
	p := planFlags{launch: plan.Same}
	p.define(f)
	if err := parseOnly(f, args, std); err != nil {
		return err
	}
	given := map[string]string{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = x.Value.String() })
	if err := p.check(given); err != nil {
		return err
	}
	if p.from != "" {
		return p.askDaemon(ctx, given, std)
	}
	in := plan.Input{Launch: p.launch, Ramp: p.ramp, Today: time.Now().UTC()}
	if err := p.readPool(&in); err != nil {
		return err
	}
	switch {
	case p.trace != "":
		if err := p.readTrace(ctx, &in, std); err != nil {
			return err
		}
	case given["requests-per-s"] != "":
		if err := p.readStated(&in); err != nil {
			return err
		}
	default:
		return p.writeMemory(in.Fit, std)
	}
	sheet, err := plan.New(in)
	if err != nil {
		return usageError{err}
	}
	write := map[string]func(io.Writer, *plan.Sheet) error{"md": plan.WriteMarkdown, "json": plan.WriteJSON, "html": plan.WriteHTML}[p.format]
	return writeTo(p.out, std.out, func(w io.Writer) error { return write(w, sheet) })
}

func (p *planFlags) check(given map[string]string) error {
	switch {
	case (p.config == "") == (given["from"] == ""):
		return usagef("say which pool to plan, by -config FILE or by -from URL of a running daemon")
	case p.trace != "" && given["requests-per-s"] != "":
		return usagef("give the traffic by -trace or by -requests-per-s, not both")
	case p.format != "md" && p.format != "json" && p.format != "html":
		return usagef("-format is %q: it must be md, json or html", p.format)
	case p.ramp < 0:
		return usagef("-ramp is %s: it must not be negative", p.ramp)
	}
	for _, x := range []struct {
		name           string
		v, least, most float64
	}{
		{"replicas", float64(p.replicas), 0, 100_000}, {"prefill-replicas", float64(p.prefill), 0, 100_000},
		{"launch", p.launch.Rate, .001, 1000}, {"launch-prompt", p.launch.Prompt, .001, 1000}, {"launch-output", p.launch.Output, .001, 1000},
		{"launch-cache-hit", p.launch.CacheHit, 0, 1000}, {"launch-retry", p.launch.Retry, 0, 1000},
	} {
		if !(x.v >= x.least && x.v <= x.most) {
			return usagef("-%s is %g: it must be %v to %v", x.name, x.v, x.least, x.most)
		}
	}
	return nil
}

// readPool sets the pool from the configuration.
func (p *planFlags) readPool(in *plan.Input) error {
	_, pc, err := loadPipeline(p.config)
	if err != nil {
		return err
	}
	pool, err := choosePool(&pc, p.config, p.pool)
	if err != nil {
		return err
	}
	in.Pool = plan.Pool{Pool: *pool, Replicas: p.replicas, Prefill: p.prefill, WaitingPerReplica: pc.Decision.WaitingPerReplica}
	in.Fit = pool.Fit
	switch {
	case pool.Disaggregated && p.prefill == 0:
		in.Pool.Prefill = pool.PrefillReplicas.Initial
	case !pool.Disaggregated && p.prefill > 0:
		return usagef("-prefill-replicas: pool %q of %s has no replicas of that role: set its disaggregated.prefill_replicas.max, or leave the flag out", pool.Name, p.config)
	}
	if p.replicas == 0 {
		in.Pool.Replicas = pool.Replicas.Initial
	}
	return nil
}

// readStated sets the traffic from flags.
func (p *planFlags) readStated(in *plan.Input) error {
	s := p.stated
	for _, lengths := range []*plan.Lengths{&s.Prompt, &s.Output} {
		if lengths.P95 == 0 {
			lengths.P95 = 3 * lengths.P50
		}
	}
	load, err := s.Load()
	if err != nil {
		return usagef("-%s", strings.ReplaceAll(err.Error(), "_", "-")) // the names of flags have dashes
	}
	if load.Requests == 0 {
		return usagef("-requests-per-s is 0: state how many there are")
	}
	in.Traffic = plan.Traffic{
		Source: "stated rates", Minutes: []plan.Load{load},
		Notes: []string{"Rates are stated: take them at the 95th percentile of the minutes, not at the mean."},
	}
	return nil
}

// readTrace sets the traffic from a trace.
func (p *planFlags) readTrace(ctx context.Context, in *plan.Input, std streams) (err error) {
	var o backtest.Options
	if o.Start, err = parseTime("-start", p.start); err != nil {
		return err
	}
	reader, err := openTrace(p.trace, o)
	if err != nil {
		return err
	}
	defer reader.Close()
	var records plan.Records
	err = eachItem(ctx, reader, std, func(it *backtest.Item) error {
		if it.Request != nil {
			return records.Add(it.Request)
		}
		return records.AddSum(it.Sum)
	})
	if err != nil {
		return err
	}
	records.Fill(in, filepath.Base(p.trace))
	return traceNotes(reader, std)
}

// writeMemory writes the model's memory per replica, if there is no traffic to plan for.
func (p *planFlags) writeMemory(fit *capacity.Fit, std streams) error {
	if fit == nil {
		return usagef("no traffic is given, and no model and GPU whose memory could be counted: add -trace or -requests-per-s, or model_config and gpu to the pool")
	}
	write := map[string]func(io.Writer, *plan.Memory) error{"md": plan.WriteMemoryMarkdown, "json": plan.WriteMemoryJSON}[p.format]
	if write == nil {
		return usagef("-format html is for launch sheets: give traffic, or -format md or json")
	}
	return writeTo(p.out, std.out, func(w io.Writer) error { return write(w, plan.MemoryOf(fit, plan.Contexts{})) })
}

// launchFlags are the flags that are sent to a daemon, which knows the rest of a plan.
var launchFlags = map[string]string{
	"pool": "pool", "launch": "launch", "launch-prompt": "prompt", "launch-output": "output", "launch-cache-hit": "cache_hit", "launch-retry": "retry",
	"ramp": "ramp", "replicas": "replicas", "prefill-replicas": "prefill_replicas", "format": "format",
}

// askDaemon prints the sheet of a running daemon: with the pool, traffic, rates, bounds and lead time of its decisions.
func (p *planFlags) askDaemon(ctx context.Context, given map[string]string, std streams) error {
	query := url.Values{"format": {p.format}}
	for name, value := range given {
		if launchFlags[name] != "" {
			query.Set(launchFlags[name], value)
		} else if name != "from" && name != "o" {
			return usagef("-%s does not go with -from, for the daemon plans with its own pool: leave it out", name)
		}
	}
	return writeTo(p.out, std.out, func(w io.Writer) error {
		return askDaemon(ctx, w, "-from", p.from, "/api/v1/plan?"+query.Encode())
	})
}
