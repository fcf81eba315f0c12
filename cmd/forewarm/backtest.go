package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/pipeline"
)

func runBacktest(f *flag.FlagSet) action {
	var c backtest.RunConfig
	traceFlags(f, &c.Options)
	f.StringVar(&c.Forecasts, "forecasts", "", "write every forecast to this CSV `file`")
	f.StringVar(&c.Decisions, "decisions", "", "write every decision to this CSV `file`")
	f.StringVar(&c.Summary, "summary", "", "write scores and policies to this JSON `file`")
	f.StringVar(&c.Report, "report", "", "write a page with the policies' curves, plots and scores to this HTML `file`")
	f.DurationVar(&c.Every, "every", 15*time.Minute, "spacing of forecasts")
	f.Float64Var(&c.ScoreFrom, "score-from", 2.0/3, "score origins after this `share` of the trace")
	f.Float64Var(&c.ScoreTo, "score-to", 1, "score up to this `share` of the trace, and end there")
	policies := f.String("policies", "", "`names` of policies to run against each other, separated by commas, or all")
	f.BoolVar(&c.Sweep, "sweep", false, "run every setting of each policy's knobs")
	f.IntVar(&c.PeakReplicas, "peak-replicas", 0, "size a replica such that the busiest minute needs this `number` of them (default 8); not with -config")
	f.DurationVar(&c.Warmup.P50, "warmup-p50", 6*time.Minute, "median warm-up of a replica; not with -config")
	f.DurationVar(&c.Warmup.P90, "warmup-p90", 12*time.Minute, "90th percentile of the warm-up; not with -config")
	f.Uint64Var(&c.Seed, "seed", 1, "of the warm-up draws")
	f.StringVar(&c.Options.Only, "only", "", "run the traffic of this `class` alone")
	path := f.String("config", "", "configuration `file`: its only pool, or the one -pool names, serves the trace")
	f.StringVar(&c.Options.Pool, "pool", "", "`name` of the pool (default: trace, or the configuration's only one)")
	var prometheus prometheusFlags
	prometheus.register(f)
	return func(ctx context.Context, args []string, std streams) (err error) {
		var cfg *config.Config
		var kvTokens float64 // of the configured pool
		if *path != "" {
			if cfg, err = asUsage(config.Load(*path)); err != nil {
				return err
			}
			pc := cfg.Pipeline()
			if c.Pool, err = choosePool(&pc, *path, c.Options.Pool); err != nil {
				return err
			}
			c.Decision, c.Features = pc.Decision, &pc.Features
			c.Options.Pool, kvTokens = c.Pool.Name, c.Pool.KVTokens
		}
		if prometheus.url != "" {
			c.Recorded = &backtest.Recorded{}
			*policies = cmp.Or(*policies, "forewarm,recorded,static_peak,reactive_keda,reactive_floor,oracle")
			c.Report = cmp.Or(c.Report, "backtest.html")
		} else {
			c.Trace = args[0]
		}
		if *policies != "" {
			c.Policies = strings.Split(*policies, ",")
		}
		if err := c.Prepare(); err != nil {
			return usagef("-%w", err)
		}
		if c.Trace != "" {
			if r, err := asUsage(backtest.Open(c.Trace, c.Options)); err != nil {
				return err
			} else if err := r.Close(); err != nil {
				return err
			}
		}
		bar := progress{w: std.err}
		defer bar.finish()
		c.Options.Progress = bar.show
		if prometheus.url != "" {
			if c.Recorded, err = prometheus.read(ctx, cfg, c.Options.Pool, kvTokens, &bar); err != nil {
				return err
			}
		}
		s, err := backtest.Run(ctx, c)
		bar.finish()
		if err != nil {
			return err
		}
		if err := s.WriteText(std.out); err != nil || c.Report == "" {
			return err
		}
		fmt.Fprintln(std.out, "\nthe page is in", c.Report)
		return nil
	}
}

// choosePool returns the configured pool of that name; an empty name is for the only one.
func choosePool(pc *pipeline.Config, path, name string) (*capacity.Pool, error) {
	var names []string
	for i := range pc.Pools {
		if p := &pc.Pools[i]; p.Name == name || name == "" && len(pc.Pools) == 1 {
			return p, nil
		}
		names = append(names, pc.Pools[i].Name)
	}
	return nil, usagef("-pool is %q: it must be one of the pools of %s: %s", name, path, strings.Join(names, ", "))
}
