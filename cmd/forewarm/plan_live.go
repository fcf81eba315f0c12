package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/storage"
)

// readHistory reads traffic, replicas and rates from a data directory that no daemon holds.
func (p *planFlags) readHistory(ctx context.Context, in *plan.Input) (err error) {
	c := storage.DefaultConfig()
	c.Dir = p.data
	h, log, closeHistory, err := openHistory(ctx, c, jetstream.DefaultConfig())
	if errors.Is(err, storage.ErrLocked) {
		return fmt.Errorf("%w; or ask it: plan -from URL", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHistory()) }()
	newest, _, ok, err := log.Last(ctx)
	if err != nil {
		return err
	}
	if !ok {
		return report.ErrNoDecision
	}
	if err := h.Decisions(ctx, newest.Add(-time.Hour), newest.Add(time.Hour), func(d *alerting.Decision) error {
		if d.Pool == in.Pool.Name {
			in.Pool.ApplyDecision(d, p.replicas, p.prefill)
			if p.config == "" && p.model.Replicas.Max == 0 && d.Limit > 0 {
				in.Pool.Pool.Replicas.Max = d.Limit
			}
			if p.config == "" && p.model.Reserves.Total() == 0 {
				in.Pool.Reserves = d.Reserves
			}
		}
		return nil
	}); err != nil {
		return err
	}
	err = in.ReadHistory(ctx, h, p.data, newest, p.days)
	if errors.Is(err, plan.ErrNoTraffic) {
		return usagef("-data %w: name its pool with -pool", err)
	}
	return err
}

// launchFlags are the flags that are sent to a daemon, which knows the rest of a plan.
var launchFlags = map[string]string{
	"pool": "pool", "launch": "launch", "launch-prompt": "prompt", "launch-output": "output", "launch-cache-hit": "cache_hit", "launch-retry": "retry",
	"ramp": "ramp", "replicas": "replicas", "prefill-replicas": "prefill_replicas", "format": "format",
}

// askLive prints the sheet of a running daemon: with the pool, traffic, rates, bounds and lead time of its decisions.
func (p *planFlags) askLive(ctx context.Context, given map[string]string, std streams) error {
	query := url.Values{"format": {p.format}}
	for name, value := range given {
		if launchFlags[name] != "" {
			query.Set(launchFlags[name], value)
		} else if name != "from" && name != "o" {
			return usagef("-%s does not go with -from, for the daemon plans with its own pool: leave it out, or plan its data with -data", name)
		}
	}
	return writeTo(p.out, std.out, func(w io.Writer) error {
		return askDaemon(ctx, w, "-from", p.from, "/api/v1/plan?"+query.Encode())
	})
}
