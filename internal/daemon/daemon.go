// Package daemon is the running Forewarm. It builds the parts in order, connects them and stops them. It owns the
// goroutines, the clock and the connections.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"golang.org/x/sync/errgroup"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/ingest/listener"
	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// Options are settings that are not in the configuration.
type Options struct {
	Version string
	Log     *zap.Logger
	OnTick  func(*pipeline.Output) // is called after each tick, on the goroutine of the pipeline; may be nil

	alerts *alerting.AlertTracker // about the daemon itself, by the one before a reload; nil for none
}

// ConfigError is an error in the configuration, or in a file that it names.
type ConfigError struct{ error }

func (e ConfigError) Unwrap() error { return e.error }

// Daemon is one running Forewarm: the pipeline, its inputs and its outputs. [New] opens the parts in order, and Close
// closes them in reverse order. Run owns all goroutines.
type Daemon struct {
	server.Board // the newest results of all pools

	cfg     *config.Config
	version string
	log     *zap.Logger
	closers []func() error // last in, first out

	// What Run runs: sources of telemetry and reports until ctx ends, outputs until the last snapshot is saved.
	sources, outputs []func(context.Context) error

	embedded  *jetstream.Embedded
	conn      *nats.Conn
	js        natsjs.JetStream
	instance  string                            // unique to this daemon
	stream    atomic.Pointer[natsjs.StreamInfo] // of telemetry
	telemetry *jetstream.StreamWriter           // stores what does not come by NATS

	exporter  *server.Exporter
	watch     *selfWatch
	store     *storage.Store
	decisions *stream.Log
	reader    *stream.Reader
	states    *stream.States
	delivered natsjs.KeyValue

	consumer   *jetstream.Consumer
	ticker     *jetstream.Ticker // nil with clock: event
	relay      *jetstream.Relay
	deadLetter *jetstream.DeadLetter
	intake     *listener.Listener
	dispatcher *sink.Dispatcher
	reporter   *reporter // nil without a schedule
	listener   net.Listener
	server     *server.Server

	// The goroutine of Consumer.Run owns the pipeline and what follows.
	pipeline       *pipeline.Pipeline
	pipelineConfig pipeline.Config   // constant
	resumed        bool              // there was no snapshot, and the stream does not have all telemetry
	loggedTick     time.Time         // newest tick in the log at the start; constant
	restoredAt     time.Time         // when reading began
	decided        map[string]string // newest logged decision of each pool
	tickBegan      time.Time
	onTick         func(*pipeline.Output)
	tickTook       func(seconds float64)

	snapshotTook, snapshotStopped func(seconds float64) // safe for concurrent use

	reloadRefused *atomic.Pointer[string] // when and why; constant, and nil without reloads

	saver    saver
	planning sync.Mutex // held while a launch sheet is made

	mu               sync.Mutex
	status           server.Status
	failedWrites     faults                       // snapshot, log, series …
	failedScrapes    faults                       // by job and URL
	refusedBy        map[ingest.Refusal]*refusals // recent ones
	divergence       string                       // text of the newest
	omissions        pipeline.Omissions           // as of the last tick
	firstTick        time.Time                    // since the start
	newestTick       time.Time                    // also of the restored state, and in the log at the start
	snapshotsRefused int                          // snapshots that this start could not use; constant
	savedBytes       float64                      // of the newest snapshot; NaN before
}

func (d *Daemon) onClose(f func() error) { d.closers = append(d.closers, f) }

// Close closes all parts, the newest first.
func (d *Daemon) Close() error {
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i]())
	}
	d.closers = nil
	return errors.Join(errs...)
}

// New opens storage and connections and restores the state. After an error nothing stays open. It returns a
// [ConfigError] if the configuration is wrong.
func New(ctx context.Context, cfg *config.Config, o Options) (_ *Daemon, err error) {
	d := &Daemon{
		cfg:            cfg,
		pipelineConfig: cfg.Pipeline(),
		version:        o.Version,
		log:            o.Log,
		onTick:         o.OnTick,
		instance:       instanceOf(cfg.Storage.Dir),
		exporter:       server.NewExporter(o.Version),
		decided:        map[string]string{},
		savedBytes:     math.NaN(),
		failedWrites:   faults{},
		failedScrapes:  faults{},
		refusedBy:      map[ingest.Refusal]*refusals{},
	}
	adjustGC(false)
	lock, err := storage.Lock(cfg.Storage.Dir)
	if err != nil {
		return nil, err
	}
	d.onClose(lock.Release)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	for _, open := range []func(context.Context) error{
		d.connect, d.openStorage, d.restore, d.openSinks, d.openSources, d.openServer, d.openScalers,
	} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	d.exportCounters()
	_, skipped := d.countIntake() // what a saved state counts was skipped before
	d.watch = &selfWatch{
		began:   time.Now().Truncate(time.Second),
		alerts:  cmp.Or(o.alerts, new(alerting.AlertTracker)),
		skipped: skipped,
	}
	return d, nil
}

// Run works until ctx ends. Then it stops the sources, saves a last snapshot, and stops the outputs.
func (d *Daemon) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	downstream, failed := errgroup.WithContext(serving)
	ctx, end := context.WithCancel(ctx)
	defer end()
	context.AfterFunc(failed, end) // an output that fails ends the daemon
	for _, run := range d.outputs {
		downstream.Go(func() error { return run(serving) })
	}
	upstream, applying := errgroup.WithContext(ctx)
	for _, run := range d.sources {
		upstream.Go(func() error { return run(applying) })
	}
	err := upstream.Wait()
	err = errors.Join(err, d.saveLast())
	stop()
	return errors.Join(err, downstream.Wait())
}

// locked reads a value that mu guards.
func locked[T any](d *Daemon, v *T) T {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *v
}

func (d *Daemon) setStatus(f func(*server.Status)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.status)
}

// Status returns the status for the HTTP server.
func (d *Daemon) Status() server.Status {
	d.mu.Lock()
	s := d.status
	s.Storage, _ = d.failedWrites.text()
	s.Scrape, _ = d.failedScrapes.text()
	s.Refused = d.refusedText(time.Now())
	s.Stream = d.failedWrites[troubleStreams].err
	d.mu.Unlock()
	if d.reloadRefused != nil {
		if refused := d.reloadRefused.Load(); refused != nil {
			s.Config = *refused
		}
	}
	for i := range d.cfg.Pools {
		s.Configured = append(s.Configured, d.cfg.Pools[i].Name)
	}
	s.Sinks = d.sinkTrouble()
	s.Connected = d.conn.IsConnected()
	s.Connection = value.Redacted(d.conn.ConnectedUrl())
	if !s.Connected {
		s.Stream = "it cannot be seen without a connection"
		s.Connection = "not connected; it is tried again: see that the NATS server runs and can be reached"
	}
	if d.embedded != nil {
		s.Connection = "embedded server"
	}
	if n, known := d.consumer.Pending(); known {
		s.Lag = &n
	}
	return s
}

// NATSURL returns the address of the embedded NATS server, or the configured one.
func (d *Daemon) NATSURL() string {
	if d.embedded != nil {
		return d.embedded.URL()
	}
	return d.cfg.NATS.URL
}

// HTTPAddress returns the address of the page and the API, host:port.
func (d *Daemon) HTTPAddress() string { return d.listener.Addr().String() }

// slogFrom adapts the logger for libraries that use log/slog. It keeps an error on one line.
func slogFrom(log *zap.Logger) *slog.Logger {
	return slog.New(zapslog.NewHandler(log.Core(), zapslog.AddStacktraceAt(slog.Level(math.MaxInt))))
}
