package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/server"
)

func runAgent(ctx context.Context, args []string, std streams) (err error) {
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	path, clock := daemonFlags(f)
	if err := parseOnly(f, args, std); err != nil {
		return err
	}
	cfg, err := loadConfig(*path, *clock)
	if err != nil {
		return err
	}
	if cfg.Agent.Name == "" {
		return usagef("%s: agent.name and agent.upstream.url must be set: they say who publishes windows, and where to", *path)
	}
	log, err := newLogger(cfg.Log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	a, err := openAgent(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	log.Info("folding telemetry into windows", zap.String("agent", cfg.Agent.Name), zap.String("nats", a.daemon.Status().Connection),
		zap.String("http", a.listener.Addr().String()), zap.String("stream", a.stream.Name), zap.String("clock", string(cfg.Clock)))
	return a.Run(ctx)
}

// agent is an edge aggregator: a daemon whose fold ends in windows, which another daemon adds up. While that one's NATS is
// away it waits, and telemetry waits in its own stream.
type agent struct {
	*daemon
	publisher *jetstream.Publisher

	// The goroutine of Consumer.Run owns these.
	parts  []ingest.Batch // to be published
	buffer []byte

	waits                 atomic.Int64 // Unix nanoseconds since when the upstream has stored nothing; 0 when nothing is under way
	published, bytes, got atomic.Uint64
}

// openAgent opens what a daemon of this kind needs. On an error nothing stays open.
func openAgent(ctx context.Context, cfg *config.Config, log *zap.Logger) (_ *agent, err error) {
	d, err := lockedDaemon(cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	a := &agent{daemon: d}
	if err := d.join(ctx); err != nil {
		return nil, usageError{err}
	}
	if err := d.restore(cfg.Agent.Name); err != nil {
		return nil, err
	}
	d.dispatcher = sink.NewDispatcher(sink.Delivery{}, nil, nil, nil) // it tells nobody
	if err := d.openSources(0); err != nil {
		return nil, err
	}
	upstream := cfg.Agent.Upstream.Config("forewarm-agent-" + cfg.Agent.Name)
	a.publisher = jetstream.NewPublisher(func() (*nats.Conn, error) {
		return jetstream.Connect(upstream, nil, nats.NoReconnect())
	}, 0, log.Named("upstream"))
	d.onClose(func() error { a.publisher.Close(); return nil })
	if err := d.openServer(a); err != nil {
		return nil, err
	}
	d.exportCounters()
	d.exporter.Counter("forewarm_agent_parts_total", "Messages of windows that the upstream has stored.", a.published.Load)
	d.exporter.Counter("forewarm_agent_bytes_total", "Bytes of those messages.", a.bytes.Load)
	d.exporter.Counter("forewarm_agent_windows_total", "Windows in those messages.", a.got.Load)
	return a, nil
}

// Run works until ctx ends. What could not be published by then is folded and published again by the next run, under the
// same numbers.
func (a *agent) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	downstream, _ := errgroup.WithContext(serving)
	downstream.Go(func() error { return a.server.Run(serving, a.listener) })
	downstream.Go(func() error { return a.deadLetter.Run(serving) })
	upstream, folding := errgroup.WithContext(ctx)
	a.runSources(folding, upstream, func(batches []ingest.Batch) error { return a.handle(folding, batches) })
	err := upstream.Wait()
	if len(a.parts) == 0 {
		err = errors.Join(err, a.saveLast())
	} else { // the state is ahead of what was published
		err = errors.Join(err, a.awaitSaving())
	}
	stop()
	return errors.Join(err, downstream.Wait())
}

// handle folds the messages that came together, and publishes what each of them ends.
func (a *agent) handle(ctx context.Context, batches []ingest.Batch) error {
	ticked := false
	for i := range batches {
		if len(a.parts) > 0 {
			return nil // ctx has ended while they were published
		}
		ticked = a.fold(batches[i:i+1], a.emit) || ticked
		if err := a.publish(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("agent.upstream: %w", err)
		}
	}
	if len(a.parts) == 0 { // or else the state is ahead of what was published
		a.keepState(ticked)
	}
	return nil
}

func (a *agent) emit(out *forewarm.Output) {
	a.parts = append(a.parts, out.Parts...)
	if len(out.Pools) > 0 {
		a.sayFaults(out)
	}
	a.setStatus(func(s *server.Status) { s.Tick, a.omissions = out.Tick, a.pipeline.Omissions() })
	if a.onTick != nil {
		a.onTick(out)
	}
}

// publish waits until the upstream has stored all parts. A part keeps its number, and with it its message id, through any
// number of attempts and runs.
func (a *agent) publish(ctx context.Context) error {
	if len(a.parts) == 0 {
		return nil
	}
	a.waits.Store(time.Now().UnixNano())
	for i := range a.parts {
		p := &a.parts[i]
		a.buffer = ingest.AppendProtobuf(a.buffer[:0], p)
		id := fmt.Sprintf("part-%s-%d-%d", p.Part.Agent, p.Part.Epoch, p.Part.Sequence)
		if empty(p) { // under the number of the part before
			id += fmt.Sprintf("-%d", p.Part.At.Unix())
		}
		subject := ingest.WindowSubject(a.cfg.Agent.Upstream.Prefix, p.Part.Agent)
		if err := a.publisher.Publish(ctx, subject, id, ingest.ContentTypeProtobuf, a.buffer); err != nil {
			return err
		}
		if !empty(p) {
			a.bytes.Add(uint64(len(a.buffer)))
		}
	}
	if err := a.publisher.Flush(ctx); err != nil {
		return err
	}
	for i := range a.parts {
		if a.got.Add(uint64(len(a.parts[i].Windows))); !empty(&a.parts[i]) {
			a.published.Add(1)
		}
	}
	a.parts = nil
	a.waits.Store(0)
	return nil
}

// empty says whether a part tells no more than how far the agent has come.
func empty(b *ingest.Batch) bool {
	return len(b.Windows)+len(b.Minutes)+len(b.Replicas)+len(b.Acks) == 0
}

// slowUpstream is how long a publication may take without being a trouble.
const slowUpstream = 10 * time.Second

// Status is for the HTTP server.
func (a *agent) Status() server.Status {
	s := a.daemon.Status()
	if since := a.waits.Load(); since != 0 {
		if waited := time.Since(time.Unix(0, since)); waited > slowUpstream {
			s.Sinks = fmt.Sprintf("upstream: nothing was stored for %s; windows wait", waited.Round(time.Second))
		}
	}
	return s
}
