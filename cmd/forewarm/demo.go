package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/daemon"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/pipeline"
)

const (
	demoPool = "demo"
	// demoKVTarget is the KV use target of the reactive autoscaler: with 40 % it costs 3 % less and is saturated twice as
	// long, and with 50 % it costs more, too.
	demoKVTarget = 0.3
	// The first day is for learning the daily shape. The second is shown and counted, with the launch in its morning.
	demoHistory  = 24 * time.Hour
	demoDay      = 24 * time.Hour
	demoLaunchAt = 9*time.Hour + 30*time.Minute
	// demoWatched is how long the second day takes on a terminal.
	demoWatched = time.Minute
)

func demo(f *flag.FlagSet) action {
	once := f.Bool("once", false, "run at full speed, then end")
	seed := f.Uint64("seed", 1, "of the traffic and the warm-up times")
	return func(ctx context.Context, _ []string, std streams) error { return runDemo(ctx, std, *once, *seed) }
}

// runDemo runs the demo in a directory of its own, at full speed if once is set or nobody watches.
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
	file, terminal := std.out.(*os.File)
	live := !once && terminal && term.IsTerminal(int(file.Fd()))
	if live {
		d.frame = demoWatched / time.Duration(demoDay/time.Minute)
	}
	d.lines = demoLines{w: std.out, d: d}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.daemon.Run(ctx) }()
	err = d.play(ctx, std)
	if err == nil && live {
		fmt.Fprintf(std.out, "\nThe page at http://%s has the whole day; press Ctrl-C to end.\n", d.daemon.HTTPAddress())
		<-ctx.Done()
	}
	d.conn.Close()
	stop()
	if errors.Is(err, context.Canceled) {
		err = nil // the view has ended
	}
	return errors.Join(err, <-ended, d.daemon.Close())
}

// demoRun is the demo: one workload, and two simulated pools with the same demand and warm-ups. One pool follows the
// daemon's pre-scale events on NATS, the other a reactive autoscaler.
type demoRun struct {
	daemon   *daemon.Daemon
	source   *backtest.Source
	demand   *backtest.Demand
	forewarm *backtest.FluidPool
	reactive *backtest.FluidPool
	keda     backtest.Policy
	conn     *nats.Conn
	js       natsjs.JetStream
	events   *nats.Subscription
	ticks    chan demoTick
	lines    demoLines
	frame    time.Duration // wall time per minute; 0 as fast as possible
	start    time.Time
	began    time.Time

	generation int64 // of the newest event
}

// demoTick is the view's data of one tick.
type demoTick struct {
	at         time.Time
	decision   alerting.Decision
	projection forecaster.Projection
	forecast   forecaster.PoolForecast
}

func newDemo(ctx context.Context, dir string, seed uint64) (*demoRun, error) {
	cfg := config.Default()
	cfg.Clock = pipeline.EventClock
	cfg.Pools = append(cfg.Pools, capacity.Config{ // like a 30-billion-parameter model on two GPUs
		Name: demoPool, KVCapacityTokens: 200_000, PrefillTokensPerS: 7000, PrefillTarget: .7, DecodeTokensPerS: 2000, GPU: capacity.GPU{PerReplica: 2},
		Warmup: capacity.Lag{P50: 8 * time.Minute, P90: 11 * time.Minute}, Replicas: capacity.Replicas{Min: 1, Max: 24, Initial: 4},
	})
	cfg.Features.Lateness, cfg.Features.Revise = 0, 0 // records come in order
	cfg.Decision.Mode = alerting.Active
	cfg.Storage.Dir = dir
	cfg.Report.Schedule = "" // a demo takes hours at most
	cfg.NATS.Embedded.Listen = "127.0.0.1:0"
	cfg.Server.Listen = "127.0.0.1:0"
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	pc, err := cfg.Pipeline()
	if err != nil {
		return nil, err
	}
	start := backtest.DefaultStart
	traffic := backtest.WorkloadConfig{Start: start, End: start.Add(demoHistory + demoDay), Launch: start.Add(demoHistory + demoLaunchAt)}
	source := func() *backtest.Source { return backtest.NewSource(backtest.NewWorkload(traffic, seed), demoPool) }
	d := &demoRun{start: start, began: time.Now(), ticks: make(chan demoTick, 4), source: source(), keda: backtest.NewReactive(demoKVTarget, 5)}
	if d.demand, err = backtest.Scan(ctx, source().Next, pc.Features); err != nil {
		return nil, err
	}
	d.forewarm, d.reactive = backtest.NewFluidPool(pc.Pools[0], start, seed), backtest.NewFluidPool(pc.Pools[0], start, seed)
	if d.daemon, err = daemon.New(ctx, cfg, daemon.Options{Version: versionString(), Log: zap.NewNop(), OnTick: d.take}); err != nil {
		return nil, err
	}
	if d.conn, err = nats.Connect(d.daemon.NATSURL()); err == nil {
		d.js, err = natsjs.New(d.conn)
	}
	if err == nil {
		d.events, err = d.conn.SubscribeSync(ingest.PrescaleSubject(cfg.NATS.Prefix, demoPool))
	}
	if err != nil {
		return nil, errors.Join(err, d.daemon.Close())
	}
	return d, nil
}

// take is called on the daemon's goroutine.
func (d *demoRun) take(out *pipeline.Output) {
	if len(out.Decisions) == 0 {
		return
	}
	d.ticks <- demoTick{out.Tick, out.Decisions[0], out.Projections[0], out.Forecasts[0]}
}

// play runs both days.
func (d *demoRun) play(ctx context.Context, std streams) error {
	d.lines.phase(fmt.Sprintf("One day of synthetic traffic first (five classes, some 300,000 requests), so that the daily shape is known.\n"+
		"Forewarm listens on NATS at %s and has a page at http://%s", d.daemon.NATSURL(), d.daemon.HTTPAddress()))
	bar := newProgress(std.err, "first day", int64(demoHistory/time.Minute))
	var before [2]backtest.Account
	for m := time.Duration(0); m < demoHistory+demoDay; m += time.Minute {
		end := d.start.Add(m + time.Minute)
		tick, err := d.step(ctx, end)
		if err != nil {
			return err
		}
		if m < demoHistory {
			bar.set(int64(m / time.Minute))
			continue
		}
		if m == demoHistory {
			bar.finish()
			before = [2]backtest.Account{d.forewarm.Account(), d.reactive.Account()}
			d.lines.phase(fmt.Sprintf("The second day, watched. At %s agents are rolled out: in 35 minutes they make three times the calls, with prompts 1.6 times as long.\n"+
				"Replicas take about 8 minutes to warm up.", d.start.Add(demoHistory+demoLaunchAt).Format("15:04")))
		}
		d.lines.minute(tick)
		if d.frame > 0 && !sleep.For(ctx, d.frame) {
			return ctx.Err()
		}
	}
	d.table(std, before)
	return nil
}

// step runs the minute until end in both pools, sends the telemetry to the daemon, and scales both pools.
func (d *demoRun) step(ctx context.Context, end time.Time) (*demoTick, error) {
	load := d.demand.At(end.Add(-time.Minute))
	d.forewarm.Step(load)
	d.reactive.Step(load)
	d.reactive.SetDesired(d.keda(d.reactive.Observe()))
	if err := d.publish(ctx); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case t := <-d.ticks:
			if t.decision.Publish {
				if err := d.obey(ctx, t.decision.Generation); err != nil {
					return nil, err
				}
			}
			if !t.at.Before(end) {
				return &t, nil
			}
		}
	}
}

// publish sends the requests of the next minute, the reports of Forewarm's replicas, and the watermark.
func (d *demoRun) publish(ctx context.Context) error {
	var b ingest.Batch
	for b.Watermark == nil {
		if err := d.source.Next(&b); err != nil {
			return err
		}
		var body []byte
		for i := range b.Requests {
			body = append(codec.AppendRequest(body, &b.Requests[i]), '\n')
		}
		if err := d.send(ctx, ingest.RequestSubject("forewarm", demoPool, ""), body); err != nil {
			return err
		}
	}
	var body []byte
	for _, r := range d.forewarm.Reports(nil) {
		body = append(codec.AppendReplica(body, &r), '\n')
	}
	if err := d.send(ctx, ingest.ReplicaSubject("forewarm", demoPool, "all"), body); err != nil {
		return err
	}
	return d.send(ctx, ingest.WatermarkSubject("forewarm", demoPool), codec.AppendWatermark(nil, b.Watermark))
}

func (d *demoRun) send(ctx context.Context, subject string, body []byte) error {
	if len(body) == 0 {
		return nil
	}
	_, err := d.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{"Content-Type": {codec.ContentTypeNDJSON}}})
	return err
}

// obey waits for the event of a generation, as an autoscaler would, and applies it.
func (d *demoRun) obey(ctx context.Context, generation int64) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for d.generation < generation {
		msg, err := d.events.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("pre-scale event %d did not come: %w", generation, err)
		}
		var e alerting.Event
		if err := json.Unmarshal(msg.Data, &e); err != nil {
			return fmt.Errorf("pre-scale event does not decode: %w", err)
		}
		d.generation = e.Data.Generation
		d.forewarm.SetDesired(e.Data.DesiredReplicas)
		d.lines.event(&e)
	}
	return nil
}

// table prints the results of both pools for the same day.
func (d *demoRun) table(std streams, before [2]backtest.Account) {
	a, b := d.forewarm.Account().Since(before[0]), d.reactive.Account().Since(before[1])
	fmt.Fprintf(std.out, "\nThe second day, %.0f requests, the same for both, with the same warm-up draws:\n\n", a.Asked*60)
	fmt.Fprintf(std.out, "  %-24s %14s %14s\n", "", "Forewarm", "reactive only")
	row := func(name, format string, x, y any) {
		fmt.Fprintf(std.out, "  %-24s %14s %14s\n", name, fmt.Sprintf(format, x), fmt.Sprintf(format, y))
	}
	row("saturated minutes", "%d", a.Saturated, b.Saturated)
	row("served without a wait", "%.2f %%", 100*a.Met/a.Asked, 100*b.Met/b.Asked)
	row("GPU-hours", "%.0f", a.GPUHours, b.GPUHours)
	row("scaling actions", "%d", a.Actions, b.Actions)
	row("of these taken back", "%d", a.Reversed, b.Reversed)
	fmt.Fprintf(std.out, "\nsaturated minutes: the load is above the capacity that is planned with, which keeps a margin.\n"+
		"taken back: the action removed a replica that had been asked for less than 11 minutes before.\n"+
		"reactive only: KEDA on queue length (4 a replica) and KV use (%.0f %%) by the Horizontal Pod Autoscaler's rules. It took %s.\n",
		100*demoKVTarget, time.Since(d.began).Round(time.Second))
}

// bindingForecast returns the forecast of the binding resource, its dimension, and a replica's capacity.
func bindingForecast(t *demoTick) (*forecaster.Forecast, features.Dimension, float64) {
	name := cmp.Or(t.projection.Binding, features.DimKV)
	dim, _ := features.DimensionByName(name)
	per := 0.0
	for _, r := range t.projection.Resources {
		if r.Dimension == name {
			per = r.PerReplica
		}
	}
	return t.forecast.Of(name), dim, per
}
