package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/ingest/listener"
	"github.com/forewarm/forewarm/ingest/scrape"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/server/dynamo"
	"github.com/forewarm/forewarm/server/keda"
	"github.com/forewarm/forewarm/server/rpc"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// connect connects to NATS, or starts a server, and ensures that the streams exist.
func (d *Daemon) connect(ctx context.Context) error {
	err := d.join(ctx)
	if err == nil {
		return nil
	}
	if full := d.roomForStream(); full != nil && d.cfg.NATS.URL == "" {
		return errors.Join(full, err)
	}
	return ConfigError{err}
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
	js, stores, err := c.Join(ctx, d.conn)
	if err != nil {
		return err
	}
	d.js, d.telemetry = js, jetstream.NewStreamWriter(js, d.cfg.NATS.Prefix)
	d.stream.Store(stores.Telemetry.CachedInfo())
	d.states = stream.NewStates(stores.State, d.instance)
	d.reader = stream.NewReader(d.js, c.Decisions(), c.Prefix)
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
	return nil
}

func (d *Daemon) openSinks(context.Context) error {
	deps := sink.Deps{NATS: d.js, Prefix: d.cfg.NATS.Prefix, Page: d.reportPage}
	if d.cfg.Report.Schedule != "" {
		if err := d.openReporter(); err != nil {
			return ConfigError{err}
		}
	}
	sinks, err := sink.Open(d.cfg.Sinks, deps)
	if err != nil {
		return ConfigError{err}
	}
	open := func(name string, reports bool) sink.Queue { return d.decisions.Queue(d.delivered, name, reports) }
	d.dispatcher = sink.NewDispatcher(sinks, open, d.undelivered)
	d.outputs = append(d.outputs, d.decisions.Run, d.dispatcher.Run)
	return nil
}

func (d *Daemon) openSources(ctx context.Context) (err error) {
	var start uint64 // first sequence in the stream
	switch {
	case d.pipeline.Sequence() > 0:
		start = d.pipeline.Sequence() + 1
	case d.resumed:
		start = max(d.stream.Load().State.FirstSeq, 1)
	case d.cfg.Backfill.URL != "":
		if start, err = d.readPast(ctx); err != nil {
			return err
		}
	}
	if err := d.openScraper(); err != nil {
		return ConfigError{fmt.Errorf("scrape.%w", err)}
	}
	d.consumer = jetstream.NewConsumer(d.js, d.cfg.NATS, d.stream.Load().Config.Name, start, d.log)
	if d.cfg.Clock == pipeline.WallClock {
		stored := func(err error) { d.note(d.failedWrites, "telemetry watermark", jetstream.Denied(d.conn, err)) }
		offline := func(ctx context.Context, minute time.Time) bool { // nobody else can write to the embedded server either
			return d.embedded != nil && d.embedded.Broken() != nil && d.consumer.Inject(ctx, minute)
		}
		d.sources = append(d.sources, d.publishWatermarks)
		d.ticker = jetstream.NewTicker(d.js, d.cfg.NATS.Prefix, d.cfg.Features.Lateness, stored, offline)
	}
	d.relay = &jetstream.Relay{
		Conn:    d.conn,
		Sources: d.cfg.NATS.Relayed(d.stream.Load().Config.Subjects),
		Stream:  d.stream.Load().Config.Name,
		Store:   d.telemetry.Store,
		Refused: func(refused []ingest.Refusal) { d.refuse(0, refused) },
		Ignored: d.exporter.Ignored.Add,
		Log:     d.log,
	}
	d.deadLetter = jetstream.NewDeadLetter(d.conn, d.cfg.NATS.Prefix)
	d.sources = append(d.sources, d.consume, d.watchStreams, d.relay.Run)
	return d.openListener()
}

// openListener opens the address for producers without NATS. What they send goes through the stream, like all
// telemetry.
func (d *Daemon) openListener() (err error) {
	d.intake, err = listener.New(d.cfg.Listeners, listener.Deps{
		Store:   d.telemetry.Store,
		Refused: func(refused []ingest.Refusal) { d.refuse(0, refused) },
		Ignored: d.exporter.Ignored.Add,
		Serves: func(pool string) bool {
			_, known := d.pipelineConfig.Pool(pool)
			return pool != "" && known
		},
		Log: d.log,
	})
	if err != nil {
		return ConfigError{err}
	}
	d.onClose(func() error { d.intake.Close(); return nil })
	d.sources = append(d.sources, d.intake.Run)
	if address := d.intake.Addr(); address != "" {
		d.log.Info("accepting telemetry by HTTP and gRPC", zap.String("address", address))
	}
	return nil
}

func (d *Daemon) openServer(context.Context) (err error) {
	d.server = server.New(d.cfg.Server, d, d.exporter, d.log)
	if d.listener, err = d.server.Listen(); err != nil {
		return ConfigError{err}
	}
	d.onClose(func() error { _ = d.listener.Close(); return nil }) // Run may have closed it already
	d.outputs = append(d.outputs, func(ctx context.Context) error { return d.server.Run(ctx, d.listener) }, d.watchSelf)
	if d.cfg.Server.Probes != "" {
		probes, err := d.server.ListenProbes()
		if err != nil {
			return ConfigError{err}
		}
		d.onClose(func() error { _ = probes.Close(); return nil }) // as above
		d.outputs = append(d.outputs, func(ctx context.Context) error { return d.server.RunProbes(ctx, probes) })
	}
	d.openPages()
	return nil
}

func (d *Daemon) openScalers(context.Context) error {
	if d.cfg.KEDA.Listen != "" {
		s, err := d.openScaler("keda", "keda", d.cfg.KEDA)
		if err != nil {
			return err
		}
		keda.Register(s, d)
	}
	for i, p := range d.cfg.Dynamo.Planners {
		s, err := d.openScaler("dynamo", fmt.Sprintf("dynamo.planners[%d]", i), p.RPC())
		if err != nil {
			return err
		}
		dynamo.Register(s, p, d)
	}
	return nil
}

// openScaler opens a listener without services. key is its key in the configuration.
func (d *Daemon) openScaler(service, key string, c rpc.Config) (*rpc.Server, error) {
	s, err := rpc.Open(key, c, func(method string, code codes.Code) { d.exporter.CountCall(service, method, code.String()) })
	if err != nil {
		return nil, ConfigError{err}
	}
	d.onClose(func() error { s.Close(); return nil })
	d.outputs = append(d.outputs, s.Run)
	d.log.Info("answering autoscalers", zap.String("service", service), zap.String("address", s.Addr().String()))
	return s, nil
}

func (d *Daemon) openScraper() (err error) {
	if len(d.cfg.Scrape.Jobs) == 0 {
		return nil
	}
	note := func(target string, err error) { d.note(d.failedScrapes, target, err) }
	scraper, err := scrape.New(d.cfg.Scrape, scrape.Deps{Store: d.telemetry.Store, Note: note, Log: d.log.Named("scrape")})
	if err != nil {
		return err
	}
	d.sources = append(d.sources, scraper.Run)
	d.exporter.Counter("forewarm_scrape_failures_total", "Scrapes that failed, names that did not resolve, and reports that were not stored; /readyz says why.", scraper.Failures.Load)
	return nil
}
