// Package daemon is the running Forewarm. It builds the parts in order, connects them and stops them. It owns the
// goroutines, the clock and the connections.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"golang.org/x/sync/errgroup"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/ingest/listener"
	"github.com/forewarm/forewarm/ingest/scrape"
	"github.com/forewarm/forewarm/internal/otlp"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/server/rpc"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
	"github.com/forewarm/forewarm/storage/stream"
)

// Options are settings that are not in the configuration.
type Options struct {
	Version string
	Log     *zap.Logger
	OnTick  func(*pipeline.Output) // is called after each tick, on the goroutine of the pipeline; may be nil
}

// ConfigError is an error in the configuration, or in a file that it names.
type ConfigError struct{ error }

func (e ConfigError) Unwrap() error { return e.error }

func configError(err error) error {
	if err == nil {
		return nil
	}
	return ConfigError{err}
}

// Daemon is one running Forewarm: the pipeline, its inputs and its outputs. [New] opens the parts in order, and Close
// closes them in reverse order. Run owns all goroutines.
type Daemon struct {
	cfg     *config.Config
	version string
	log     *zap.Logger
	closers []func() error // last in, first out

	embedded *jetstream.Embedded
	conn     *nats.Conn
	js       natsjs.JetStream
	instance string                            // unique to this daemon
	stream   atomic.Pointer[natsjs.StreamInfo] // of telemetry

	store     *storage.Store
	writer    *remote.Writer // nil without remote write
	otlp      *otlp.Exporter
	tracer    trace.Tracer
	decisions *stream.Log
	reader    *stream.Reader
	states    *stream.States
	delivered natsjs.KeyValue

	consumer   *jetstream.Consumer
	ticker     *jetstream.Ticker // nil with clock: event
	relay      *jetstream.Relay
	scraper    *scrape.Scraper // nil when nothing is scraped
	deadLetter *jetstream.DeadLetter
	intake     *listener.Listener
	dispatcher *sink.Dispatcher
	reporter   *reporter // nil without a schedule
	rendered   atomic.Pointer[rendered]
	listener   net.Listener
	probes     net.Listener // nil if not configured
	server     *server.Server
	board      *server.Board
	scalers    []*rpc.Server
	exporter   *server.Exporter
	traffic    traffic

	// The goroutine of Consumer.Run owns the pipeline and what follows.
	pipeline       *pipeline.Pipeline
	pipelineConfig pipeline.Config   // constant
	resumed        *newStart         // nil if a snapshot was restored, or if the stream has all telemetry
	loggedTick     time.Time         // newest tick in the log at the start
	restoredAt     time.Time         // when reading began
	savers         sync.WaitGroup    // of the snapshot that is being stored
	decided        map[string]string // newest logged decision of each pool
	tickBegan      time.Time
	gcPercent      int // see adjustGC
	onTick         func(*pipeline.Output)
	tickTook       func(seconds float64)

	// Safe for concurrent use.
	served                        atomic.Pointer[served] // after the newest applied messages
	snapshotTook, snapshotStopped func(seconds float64)

	planning sync.Mutex // held while a launch sheet is made

	mu               sync.Mutex
	status           server.Status
	omissions        pipeline.Omissions // as of the last tick
	snapshotsRefused int                // snapshots that this start could not use; constant
	saver            saver
	savedBytes       int64                        // of the newest snapshot
	failedWrites     map[string]failedWrite       // by part: snapshot, log, series …
	refusedBy        map[ingest.Refusal]*refusals // recent ones
	omitted          string                       // recent ones, see logOmitted
	divergence       string                       // text of the newest
	logFault         string                       // fault of the streams other than telemetry
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
		cfg: cfg, version: o.Version, log: o.Log, onTick: o.OnTick, instance: instanceOf(cfg.Storage.Dir), gcPercent: startGC(),
		board: server.NewBoard(), exporter: server.NewExporter(o.Version, cfg.Server.StaleAfter), decided: map[string]string{},
		failedWrites: map[string]failedWrite{}, refusedBy: map[ingest.Refusal]*refusals{},
	}
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
		d.openOTLP, d.connect, d.openStorage, d.restore, d.openSinks, d.openSources, d.openServer, d.openScalers,
	} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	d.exportCounters()
	return d, nil
}

// openSources opens the sources of telemetry.
func (d *Daemon) openSources(ctx context.Context) (err error) {
	var start uint64 // first sequence in the stream
	switch {
	case d.pipeline.Sequence() > 0:
		start = d.pipeline.Sequence() + 1
	case d.resumed != nil:
		start = d.resumed.first
	case d.cfg.Backfill.URL != "":
		if start, err = d.readPast(ctx); err != nil {
			return err
		}
	}
	if err := d.openScraper(); err != nil {
		return ConfigError{fmt.Errorf("scrape.%w", err)}
	}
	d.consumer = jetstream.NewConsumer(d.js, jetstream.ConsumerConfig{
		Stream: d.stream.Load().Config.Name, Prefix: d.cfg.NATS.Inner(), Sources: d.cfg.NATS.Sources, Start: start, Limits: ingest.DefaultLimits(), Log: d.log,
		Missing: d.remakeStream, Inspect: d.inspectStream,
	})
	if d.cfg.Clock == pipeline.WallClock {
		stored := func(err error) { d.noteWrite(troubleWatermark, jetstream.Denied(d.conn, err)) }
		d.ticker = jetstream.NewTicker(d.js, d.cfg.NATS.Inner(), d.cfg.Features.Lateness, stored, d.tickOffline, d.log)
	}
	d.relay = jetstream.NewRelay(d.conn, jetstream.RelayConfig{
		Sources: d.cfg.NATS.Relayed(d.stream.Load().Config.Subjects), Stream: d.stream.Load().Config.Name,
		Limits: ingest.DefaultLimits(), Store: jetstream.NewStreamWriter(d.js, &d.cfg.NATS).Store,
		Refused: func(refused []ingest.Refusal) { d.refuse(0, refused) }, Ignored: d.exporter.Ignored.Add, Log: d.log,
	})
	d.deadLetter = jetstream.NewDeadLetter(d.conn, d.cfg.NATS.Prefix)
	return d.openListener()
}

func (d *Daemon) openServer(context.Context) (err error) {
	d.server = server.New(d.cfg.Server, d, d.exporter, d.log)
	if d.cfg.OTLP.URL != "" {
		d.server.Around = d.traceRequests
	}
	if d.listener, err = d.server.Listen(); err != nil {
		return ConfigError{err}
	}
	d.onClose(func() error { _ = d.listener.Close(); return nil }) // Run may have closed it already
	if d.probes, err = d.server.ListenProbes(); err != nil {
		return ConfigError{err}
	}
	if d.probes != nil {
		d.onClose(func() error { _ = d.probes.Close(); return nil }) // Run may have closed it already
	}
	d.openPages()
	return nil
}

// connect connects to NATS, or starts a server, and ensures that the streams exist.
func (d *Daemon) connect(ctx context.Context) error {
	err := d.join(ctx)
	if full := d.roomForStream(); err != nil && d.cfg.NATS.URL == "" && full != nil {
		return errors.Join(full, err)
	}
	return configError(err)
}

func (d *Daemon) join(ctx context.Context) (err error) {
	c := d.cfg.NATS
	if c.URL == "" {
		c.Embedded.StoreDir = d.cfg.StreamDir()
		if d.embedded, err = jetstream.StartEmbedded(ctx, c, d.log); err != nil {
			return err
		}
		d.onClose(func() error { d.embedded.Shutdown(); return nil })
	}
	if d.conn, err = jetstream.Connect(c, d.embedded, jetstream.LogTo(d.log)); err != nil {
		return err
	}
	d.onClose(func() error { d.conn.Close(); return nil })
	if d.js, err = natsjs.New(d.conn); err != nil {
		return err
	}
	if d.embedded == nil {
		if err := c.CheckRights(ctx, d.conn, func(err error) { d.log.Warn("NATS permissions", zap.Error(err)) }); err != nil {
			return err
		}
	}
	if err := jetstream.CheckPartition(ctx, d.conn, &c); err != nil {
		return err
	}
	stores, err := jetstream.Ensure(ctx, d.js, c)
	if err != nil {
		return err
	}
	d.stream.Store(stores.Telemetry.CachedInfo())
	d.states, d.reader = stream.NewStates(stores.State, d.instance), stream.NewReader(d.js, c.Decisions(), c.Inner())
	d.delivered = stores.Deliveries
	return nil
}

func (d *Daemon) openStorage(context.Context) (err error) {
	quiet := d.log
	if quiet.Level() == zap.InfoLevel { // the TSDB logs a dozen lines every two hours without a fault
		quiet = quiet.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	}
	if d.store, err = storage.OpenStore(d.cfg.Storage, slogFrom(quiet)); err != nil {
		return err
	}
	d.store.Shown = func(key features.Key) bool { return d.pipeline.Shown(key) }
	d.onClose(d.store.Close)
	if d.cfg.RemoteWrite.URL == "" {
		return nil
	}
	d.writer, err = remote.NewWriter(d.cfg.RemoteWrite, d.store, filepath.Join(d.cfg.Storage.Dir, "tsdb"), slogFrom(d.log), func(err error) { d.noteWrite(troubleRemote, err) })
	if err != nil {
		return ConfigError{fmt.Errorf("remote_write: %w", err)}
	}
	return nil
}

func (d *Daemon) openSinks(context.Context) error {
	prefix := d.cfg.NATS.Prefix
	destinations, err := d.openReporter()
	if err != nil {
		return ConfigError{err}
	}
	sinks, err := sink.Open(d.cfg.Sinks, sink.Deps{
		Pages:           d.pages,
		NATS:            d.js,
		PrescaleSubject: func(pool string) string { return ingest.PrescaleSubject(prefix, pool) },
		AlertSubject:    func(pool string) string { return ingest.AlertSubject(prefix, pool) },
	})
	if err != nil {
		return ConfigError{err}
	}
	open := func(name string, reports bool) sink.Queue { return d.decisions.Queue(d.delivered, name, reports) }
	d.dispatcher = sink.NewDispatcher(append(sinks, destinations...), open, d.undelivered, d.tracer)
	return nil
}

// openListener opens the address for producers without NATS. What they send goes through the stream, like all
// telemetry.
func (d *Daemon) openListener() (err error) {
	d.intake, err = listener.New(d.cfg.Listeners, listener.Deps{
		Store:   jetstream.NewStreamWriter(d.js, &d.cfg.NATS).Store,
		Refused: func(refused []ingest.Refusal) { d.refuse(0, refused) },
		Serves:  func(pool string) bool { return d.served.Load().has(pool) },
		Log:     d.log,
	})
	if err != nil {
		return ConfigError{err}
	}
	d.onClose(func() error { d.intake.Close(); return nil })
	if address := d.intake.Addr(); address != "" {
		d.log.Info("accepting telemetry by HTTP and gRPC", zap.String("address", address))
	}
	return nil
}

// refuse counts and shows records that could not be used. Sequence 0 means none. It is safe for concurrent use.
func (d *Daemon) refuse(sequence uint64, refused []ingest.Refusal) {
	for i := range refused {
		d.exporter.Refused(refused[i].Reason).Inc()
	}
	d.noteRefused(refused)
	d.deadLetter.Send(sequence, refused)
}

// Run works until ctx ends. Then it stops the sources, saves a last snapshot, and stops the outputs.
func (d *Daemon) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	downstream, _ := errgroup.WithContext(serving)
	for _, run := range d.outputs() {
		downstream.Go(func() error { return run(serving) })
	}
	upstream, applying := errgroup.WithContext(ctx)
	for _, run := range d.sources() {
		upstream.Go(func() error { return run(applying) })
	}
	err := upstream.Wait()
	err = errors.Join(err, d.saveLast())
	stop()
	err = errors.Join(err, downstream.Wait())
	d.otlp.Close()
	return err
}

// outputs are the parts that work until the last snapshot is saved.
func (d *Daemon) outputs() []func(context.Context) error {
	all := []func(context.Context) error{
		func(ctx context.Context) error { return d.server.Run(ctx, d.listener) },
		func(ctx context.Context) error {
			if err := d.dispatcher.Run(ctx); err != nil { // the log keeps what was not delivered
				d.log.Warn("delivery", zap.Error(err))
			}
			return nil
		},
		d.decisions.Run, d.watchSelf,
	}
	if d.probes != nil {
		all = append(all, func(ctx context.Context) error { return d.server.RunProbes(ctx, d.probes) })
	}
	if d.writer != nil {
		all = append(all, d.writer.Run)
	}
	for _, s := range d.scalers {
		all = append(all, s.Run)
	}
	return all
}

// sources are the parts that write or read the telemetry stream, and the reports.
func (d *Daemon) sources() []func(context.Context) error {
	all := []func(context.Context) error{d.consume, d.intake.Run, d.relay.Run}
	if d.ticker != nil {
		all = append(all, d.tick)
	}
	if d.embedded != nil {
		all = append(all, d.watchEmbedded)
	}
	if d.scraper != nil {
		all = append(all, d.scraper.Run)
	}
	if d.reporter != nil {
		all = append(all, d.reporter.Run)
	}
	return all
}

// consume applies the messages of the stream until ctx ends.
func (d *Daemon) consume(ctx context.Context) error {
	d.relearn(ctx)
	err := d.consumer.Run(ctx, func(batches []ingest.Batch) error { return d.handle(ctx, batches) })
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// tick publishes the watermarks until ctx ends.
func (d *Daemon) tick(ctx context.Context) error {
	if s, err := d.js.Stream(ctx, d.stream.Load().Config.Name); err == nil { // on an error inspectStream sets the clock first
		d.ticker.Sync(s.CachedInfo().TimeStamp)
	}
	return d.ticker.Run(ctx, d.stream.Load().State.LastSeq > 0)
}

// handle applies a batch of messages. Histories take long, so they are applied one by one until ctx ends. The next
// start continues there.
func (d *Daemon) handle(ctx context.Context, batches []ingest.Batch) error {
	for len(batches) > 0 {
		n := len(batches)
		if i := slices.IndexFunc(batches, func(b ingest.Batch) bool { return len(b.Histories) > 0 }); i >= 0 {
			n = max(i, 1)
			if i == 0 && ctx.Err() != nil {
				return errStopped
			}
		}
		d.keepState(d.apply(batches[:n], d.emit))
		batches = batches[n:]
	}
	return nil
}

// errStopped ends the pipeline before all received messages are applied.
var errStopped = errors.New("stopped")

// apply applies messages, counts the results, and reports whether a tick was among them.
func (d *Daemon) apply(batches []ingest.Batch, emit func(*pipeline.Output)) (ticked bool) {
	before := d.pipeline.Counters()
	d.tickBegan = time.Now()
	for i := range batches {
		d.pipeline.Apply(&batches[i], emit)
	}
	d.noteServed()
	for i := range batches {
		d.refuse(batches[i].Sequence, batches[i].Refused)
		d.exporter.Ignored.Add(batches[i].Ignored)
	}
	after := d.pipeline.Counters()
	d.exporter.Records.Add(int(after.Records - before.Records))
	d.setStatus(func(s *server.Status) { s.Sequence = d.pipeline.Sequence() })
	return after.Ticks > before.Ticks
}

// emit passes on the output of a tick: first what other parts wait for, then the series for reports and queries.
func (d *Daemon) emit(out *pipeline.Output) {
	span := d.tickSpan(d.tickBegan, out)
	failed := d.announce(out)
	if d.resumed == nil || out.Tick.After(d.loggedTick) { // until then the last decisions are shown, see recall
		d.board.Observe(out)
		d.exporter.Observe(out)
	}
	err := d.store.Append(out.Tick, out.Windows, out.Forecasts, out.Decisions)
	d.noteWrite("series", err)
	d.noteWrite("compaction", d.store.CompactError())
	if err != nil {
		d.log.Error("series of a tick are lost", zap.Time("tick", out.Tick), zap.Error(err))
	}
	d.setStatus(func(s *server.Status) {
		s.Tick, d.omissions, s.TickedAt = out.Tick, d.pipeline.Omissions(), time.Now()
		s.Producers = slices.Clone(out.Producers)
	})
	endSpan(span, errors.Join(failed, err))
	d.tickTook(time.Since(d.tickBegan).Seconds())
	d.gcPercent = adjustGC(d.gcPercent)
	if d.onTick != nil {
		d.onTick(out)
	}
	d.tickBegan = time.Now()
}

// announce stores the decisions and notices of a tick in the log. The sinks read them there.
func (d *Daemon) announce(out *pipeline.Output) error {
	var records []stream.Record
	var notices []alerting.Notice
	for i := range out.Decisions {
		x := &out.Decisions[i]
		state, err := d.pipeline.DecisionState(x.Pool)
		if err != nil {
			d.log.Error("the state after a decision cannot be encoded", zap.Error(err))
		}
		records = append(records, stream.Record{Decision: *x, State: state})
		if x.Publish {
			notices = append(notices, alerting.Notice{Decision: x})
		}
	}
	for i := range out.Alerts {
		notices = append(notices, alerting.Notice{Alert: &out.Alerts[i]})
	}
	failed := d.decisions.Add(out.Tick, records, notices)
	if failed != nil {
		d.log.Error("a tick is not in the log", zap.Time("tick", out.Tick), zap.Error(failed))
	}
	if !out.Tick.After(d.loggedTick) {
		return failed // logged before the restart
	}
	for i := range out.Decisions {
		d.logDecision(&out.Decisions[i])
	}
	for i := range out.Services {
		for _, c := range out.Services[i].Contradictions {
			if c.Since.Equal(out.Tick) {
				d.log.Warn(c.String(), zap.String("pool", out.Services[i].Pool), zap.Time("tick", out.Tick))
			}
		}
	}
	err := publishForecasts(d.conn, d.cfg.NATS.Prefix, out.Forecasts)
	if err != nil {
		d.log.Warn("forecasts were not published", zap.Time("tick", out.Tick), zap.Error(err))
	}
	return errors.Join(failed, err)
}

// served is the set of pools that count telemetry.
type served struct {
	changes uint64 // the pipeline's counter of changes at that time
	pools   map[string]capacity.Pool
	more    bool // other pools are admitted
}

func (s *served) has(pool string) bool {
	_, known := s.pools[pool]
	return known || s.more && pool != ""
}

// noteServed updates the set of pools for the listeners if it changed.
func (d *Daemon) noteServed() {
	changes := d.pipeline.PoolChanges()
	if s := d.served.Load(); s != nil && s.changes == changes {
		return
	}
	pools, more := d.pipeline.Pools()
	s := &served{changes, map[string]capacity.Pool{}, more || d.cfg.NATS.Partitioned()} // listeners pass on telemetry of other partitions
	for i := range pools {
		s.pools[pools[i].Name] = pools[i]
	}
	d.served.Store(s)
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
	s.Storage, _ = d.writeTrouble("")
	s.Refused = d.refusedText(time.Now())
	logFault := d.logFault
	d.mu.Unlock()
	s.Sinks = d.sinkTrouble()
	s.Connected = d.conn.IsConnected()
	s.Connection = jetstream.Redact(d.conn.ConnectedUrl())
	if !s.Connected {
		s.Connection = "not connected; it is tried again: see that the NATS server runs and can be reached"
	}
	if d.embedded != nil {
		s.Connection = "embedded server"
	}
	if d.cfg.NATS.Partitioned() {
		s.Connection += ", partition " + d.cfg.NATS.Partition
	}
	s.Lag, s.LagKnown = d.consumer.Pending()
	s.Stream = strings.Trim(d.consumer.Fault()+"; "+logFault, "; ")
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

// Pools returns the pools for the HTTP server.
func (d *Daemon) Pools() []server.PoolView { return d.board.Pools() }

// slogFrom adapts the logger for libraries that use log/slog. It keeps an error on one line.
func slogFrom(log *zap.Logger) *slog.Logger {
	return slog.New(zapslog.NewHandler(log.Core(), zapslog.AddStacktraceAt(slog.Level(math.MaxInt))))
}
