package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/daemon"
	"github.com/forewarm/forewarm/pipeline"
)

const (
	demoPool = "demo"
	// demoKVTarget is the KV use target of the reactive autoscaler: the best of 30, 40 and 50 % in cost and saturation.
	demoKVTarget = 0.3
	// The first day is for learning the daily shape. The second is shown and counted, with the launch in its morning.
	demoHistory  = 24 * time.Hour
	demoDay      = 24 * time.Hour
	demoLaunchAt = 9*time.Hour + 30*time.Minute // of the second day
)

// demoConfig has a pool like a 30-billion-parameter model on two GPUs. Records come in order, so no minute waits for late
// ones.
const demoConfig = `
clock: event
pools:
  - {name: demo, kv_capacity_tokens: 200000, prefill_tokens_per_s: 7000, prefill_target: 0.7, decode_tokens_per_s: 2000, gpu: {per_replica: 2},
     warmup: {p50: 8m, p90: 11m}, replicas: {min: 1, max: 24, initial: 4}}
features: {lateness: 0s, revise: 0s}
decision: {mode: active}
report: {schedule: ""}
nats: {embedded: {listen: "127.0.0.1:0"}}
server: {listen: "127.0.0.1:0"}
`

// demoRun is the demo: one workload, and two simulated pools with the same demand and warm-ups. One pool follows the
// daemon's decisions, the other a reactive autoscaler.
type demoRun struct {
	daemon         *daemon.Daemon
	source         *backtest.Source
	demand         *backtest.Demand
	forewarmPool   *backtest.FluidPool
	reactivePool   *backtest.FluidPool
	reactivePolicy backtest.Policy
	conn           *nats.Conn
	replayer       replayer
	ticks          chan alerting.Decision
	out            io.Writer
	now            time.Time // the minute that is played
	ready          int       // at the last tick
}

func demo(f *flag.FlagSet) action {
	once := f.Bool("once", false, "end after the second day, also on a terminal")
	seed := f.Uint64("seed", 1, "of the traffic and the warm-up times")
	return func(ctx context.Context, _ []string, std streams) error { return runDemo(ctx, std, *once, *seed) }
}

// runDemo runs the demo in a directory of its own. On a terminal the page stays until it is stopped, unless once is set.
func runDemo(ctx context.Context, std streams, once bool, seed uint64) (err error) {
	dir, err := os.MkdirTemp("", "forewarm-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := newDemo(ctx, dir, seed)
	if err != nil {
		return err
	}
	return errors.Join(d.run(ctx, std, once, d.daemon.Run), d.daemon.Close())
}

// run plays the demo while the daemon runs.
func (d *demoRun) run(ctx context.Context, std streams, once bool, daemon func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- daemon(ctx)
		stop() // no tick comes any more
	}()
	d.out = std.out
	err := d.play(ctx, &progress{w: std.err})
	file, terminal := std.out.(*os.File)
	if err == nil && !once && terminal && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintf(d.out, "\nThe page at http://%s has the whole day; press Ctrl-C to end.\n", d.daemon.HTTPAddress())
		<-ctx.Done()
	}
	d.conn.Close()
	stop()
	if errors.Is(err, context.Canceled) {
		err = nil // the view or the daemon has ended
	}
	return errors.Join(err, <-ended)
}

func newDemo(ctx context.Context, dir string, seed uint64) (*demoRun, error) {
	cfg, err := config.Parse("demo", []byte(demoConfig), func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	cfg.Storage.Dir = dir
	pc := cfg.Pipeline()
	start := backtest.DefaultStart
	traffic := backtest.WorkloadConfig{Start: start, End: start.Add(demoHistory + demoDay), Launch: start.Add(demoHistory + demoLaunchAt)}
	source := func() *backtest.Source { return backtest.NewSource(backtest.NewWorkload(traffic, seed), demoPool) }
	d := &demoRun{
		now: start, ticks: make(chan alerting.Decision, 4), source: source(),
		forewarmPool: backtest.NewFluidPool(pc.Pools[0], start, seed), reactivePool: backtest.NewFluidPool(pc.Pools[0], start, seed),
		reactivePolicy: backtest.NewReactive(demoKVTarget, 5),
	}
	if d.demand, err = backtest.Scan(ctx, source(), pc.Features); err != nil {
		return nil, err
	}
	take := func(out *pipeline.Output) {
		for _, x := range out.Decisions() {
			d.ticks <- *x
		}
	}
	if d.daemon, err = daemon.New(ctx, cfg, daemon.Options{Version: versionString(), Log: zap.NewNop(), OnTick: take}); err != nil {
		return nil, err
	}
	d.replayer = replayer{prefix: cfg.NATS.Prefix, run: demoPool, pool: demoPool, batch: 1000}
	if d.conn, err = nats.Connect(d.daemon.NATSURL()); err == nil {
		d.replayer.publisher, err = jetstream.NewPublisher(d.conn)
	}
	if err != nil {
		return nil, errors.Join(err, d.daemon.Close())
	}
	return d, nil
}

func (d *demoRun) play(ctx context.Context, bar *progress) error {
	began := time.Now()
	fmt.Fprintf(d.out, "\nOne day of synthetic traffic first (five classes, some 300,000 requests), so that the daily shape is known.\n"+
		"Forewarm listens on NATS at %s and has a page at http://%s\n\n", d.daemon.NATSURL(), d.daemon.HTTPAddress())
	for m := range int64(demoHistory / time.Minute) {
		if _, err := d.step(ctx); err != nil {
			return err
		}
		bar.show("first day", m, int64(demoHistory/time.Minute))
	}
	bar.finish()
	d.forewarmPool.TakeAccount() // only the second day counts
	d.reactivePool.TakeAccount()
	fmt.Fprintf(d.out, "\nThe second day. At %s agents are rolled out: within %.0f minutes they make %g times the calls, with prompts %g times as long.\n"+
		"Replicas take about 8 minutes to warm up.\n\n", backtest.DefaultStart.Add(demoLaunchAt).Format("15:04"),
		backtest.LaunchRamp.Minutes(), backtest.LaunchRate, backtest.LaunchContext)
	for range demoDay / time.Minute {
		decision, err := d.step(ctx)
		if err != nil {
			return err
		}
		d.show(&decision)
	}
	d.table(d.forewarmPool.TakeAccount(), d.reactivePool.TakeAccount(), time.Since(began))
	return nil
}

// step runs the next minute in both pools, sends the telemetry to the daemon, and scales both pools.
func (d *demoRun) step(ctx context.Context) (x alerting.Decision, err error) {
	load := d.demand.At(d.now)
	d.now = d.now.Add(time.Minute)
	d.forewarmPool.Step(load)
	d.reactivePool.Step(load)
	d.reactivePool.SetDesired(d.reactivePolicy(d.reactivePool.Observe()))
	err = d.publish(ctx)
	for err == nil && x.Tick.Before(d.now) {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case x = <-d.ticks:
			if x.Publish {
				d.forewarmPool.SetDesired(x.Desired)
			}
		}
	}
	return x, err
}

// publish sends the reports of Forewarm's replicas, the requests of the next minute, and the watermark.
func (d *demoRun) publish(ctx context.Context) error {
	r := &d.replayer
	reports := ingest.Batch{Replicas: d.forewarmPool.Reports(nil)}
	if err := r.publish(ctx, ingest.Subject(r.prefix, ingest.ReplicaSubject, demoPool, "all"), &reports); err != nil {
		return err
	}
	var b ingest.Batch
	for b.Watermark == nil {
		if err := d.source.Next(&b); err != nil {
			return err
		}
		if err := r.send(ctx, &b); err != nil {
			return err
		}
	}
	return nil
}

// show prints the pre-scale event, replicas that are ready now, and the state every half hour.
func (d *demoRun) show(x *alerting.Decision) {
	at := x.Tick.Format("15:04")
	if x.Publish && x.Action != alerting.Hold {
		fmt.Fprintf(d.out, "%s  pre-scale event: %s\n", at, x.Reason)
	}
	if x.Ready > d.ready && d.ready > 0 {
		fmt.Fprintf(d.out, "%s  ready %d→%d\n", at, d.ready, x.Ready)
	}
	d.ready = x.Ready
	if x.Tick.Unix()%1800 == 0 {
		r := d.reactivePool.Observe()
		fmt.Fprintf(d.out, "%s  Forewarm %d ready %d warming | reactive %d ready %d warming, %.0f waiting\n",
			at, x.Ready, x.Pending, r.Ready, r.Pending, r.Waiting)
	}
}

// table prints the results of both pools for the same day.
func (d *demoRun) table(a, b backtest.Account, took time.Duration) {
	fmt.Fprintf(d.out, "\nThe second day, %.0f requests, the same for both, with the same warm-up draws:\n\n", a.Asked*60)
	fmt.Fprintf(d.out, "  %-24s %14s %14s\n", "", "Forewarm", "reactive only")
	row := func(name, format string, x, y any) {
		fmt.Fprintf(d.out, "  %-24s %14s %14s\n", name, fmt.Sprintf(format, x), fmt.Sprintf(format, y))
	}
	row("saturated minutes", "%d", a.Saturated, b.Saturated)
	row("served without a wait", "%.2f %%", 100*a.Met/a.Asked, 100*b.Met/b.Asked)
	row("GPU-hours", "%.0f", a.GPUHours, b.GPUHours)
	row("scaling actions", "%d", a.Actions, b.Actions)
	row("of these taken back", "%d", a.Reversed, b.Reversed)
	fmt.Fprintf(d.out, "\nsaturated minutes: the load is above the capacity that is planned with, which keeps a margin.\n"+
		"taken back: the action removed a replica that had been asked for less than 11 minutes before.\n"+
		"reactive only: KEDA on queue length (4 a replica) and KV use (%.0f %%) by the Horizontal Pod Autoscaler's rules. It took %s.\n",
		100*demoKVTarget, took.Round(time.Second))
}
