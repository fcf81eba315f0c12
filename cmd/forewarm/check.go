package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/sync/errgroup"

	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/ingest/scrape"
	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

const checkTimeout = 15 * time.Second

func check(f *flag.FlagSet) action {
	path := f.String("config", "", "configuration `file` to check, with what it names: NATS and its streams, Prometheus, Alertmanager, where reports go")
	offline := f.Bool("offline", false, "check the configuration alone, open no file of a secret and connect to nothing")
	health := f.String("health", "", "`URL` of a running daemon's /healthz or /readyz, as container health checks want it")
	return func(ctx context.Context, _ []string, std streams) error {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		if *path != "" {
			if err := checkConfig(ctx, *path, *offline, std); err != nil {
				return err
			}
		}
		if *health != "" {
			if !strings.HasSuffix(*health, "/healthz") && !strings.HasSuffix(*health, "/readyz") {
				return usagef("-health is %q: it must end in /healthz or /readyz, such as http://127.0.0.1:9464/healthz", httpclient.Redacted(*health))
			}
			if err := askDaemon(ctx, io.Discard, "-health", *health, ""); err != nil {
				return err
			}
			fmt.Fprintf(std.out, "ok  %s answers 200 OK\n", httpclient.Redacted(*health))
		}
		return nil
	}
}

func checkConfig(ctx context.Context, path string, offline bool, std streams) error {
	cfg, pc, err := loadPipeline(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "ok  %s: %s, %s clock, %s mode\n", path, value.Count(len(cfg.Pools), "pool"), cfg.Clock, cfg.Decision.Mode)
	pools := pc.Pools
	if pc.DefaultPool != nil {
		pools = append(pools, *pc.DefaultPool)
	}
	for i := range pools {
		warnCapacity(&pools[i], std)
	}
	checkAccess(cfg, std)
	if offline {
		return nil
	}
	if err := cfg.CheckFiles(); err != nil {
		return usageError{err}
	}
	if err := checkAddresses(cfg, std); err != nil {
		return err
	}
	check := checkServer
	if cfg.NATS.URL == "" {
		check = checkEmbedded
	}
	if err := check(ctx, cfg, std); err != nil {
		return usageError{err}
	}
	return checkOthers(ctx, cfg, &pc, std)
}

// checkServer connects to NATS, makes the streams as a daemon does at its start, and prints what is wrong with them.
func checkServer(ctx context.Context, cfg *config.Config, std streams) error {
	warn := func(err error) { fmt.Fprintf(std.out, "warning: %v\n", err) }
	conn, err := jetstream.Connect(cfg.NATS, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(std.out, "ok  nats: connected to %s\n", jetstream.Redact(conn.ConnectedUrl()))
	js, stores, err := cfg.NATS.Join(ctx, conn, warn)
	if err != nil {
		return err
	}
	for i := range cfg.Pools {
		if c := &cfg.NATS; c.Partitioned() {
			fmt.Fprintf(std.out, "ok  pool %s: in partition %d\n", cfg.Pools[i].Name, c.PartitionOf(cfg.Pools[i].Name))
		}
	}
	telemetry := stores.Telemetry.CachedInfo()
	for _, fault := range jetstream.Inspect(ctx, js, cfg.NATS).Faults {
		warn(errors.New(fault))
	}
	fmt.Fprintf(std.out, "ok  stream %s: %d messages of %v\n", telemetry.Config.Name, telemetry.State.Msgs, telemetry.Config.Subjects)
	return nil
}

// warnCapacity warns if a replica's capacity is unknown and the pool has no limits: then it has no resource for a
// saturation forecast.
func warnCapacity(p *capacity.Pool, std streams) {
	if p.Limits != (capacity.Limits{}) {
		return
	}
	for _, resource := range []string{capacity.KV, capacity.Prefill, capacity.Decode, capacity.Requests} {
		if _, ok := p.PerReplica(resource, 0); ok {
			return
		}
	}
	fmt.Fprintf(std.out, "warning: pool %s has no capacity (KV cache, prefill, decode or request limit). Unless its replicas report their KV cache, only their queues and latencies decide how many there are; set kv_capacity_tokens, prefill_tokens_per_s or decode_tokens_per_s\n", p.Name)
}

// checkOthers checks the configured services beside NATS: the Prometheus for backfill, the remote-write receiver,
// Alertmanager, and the receivers of reports. It checks all before it returns the first error.
func checkOthers(ctx context.Context, cfg *config.Config, pc *pipeline.Config, std streams) error {
	var errs []error
	found := func(what, detail string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			return
		}
		fmt.Fprintf(std.out, "ok  %s: %s\n", what, detail)
	}
	if cfg.Backfill.URL != "" {
		errs = append(errs, checkPast(ctx, cfg, pc, std))
	}
	if cfg.RemoteWrite.URL != "" {
		found("remote_write", "the receiver takes samples", remote.ProbeWrite(ctx, cfg.RemoteWrite))
	}
	sinks, err := sink.Open(cfg.Sinks, sink.Deps{})
	if err != nil {
		return usageError{err}
	}
	if cfg.Report.Schedule != "" && cfg.Clock == pipeline.WallClock {
		destinations, err := sink.OpenReports(cfg.Reports(), sink.Deps{WriteFile: storage.WriteFile})
		if err != nil {
			return usageError{err}
		}
		sinks = append(sinks, destinations...)
	}
	sink.Probe(ctx, sinks, found)
	checkEngines(ctx, cfg, found, std)
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// maxProbes is how many engines are asked at once.
const maxProbes = 64

// checkEngines scrapes the engines once. It warns of those that do not answer, unless no engine of the job does.
func checkEngines(ctx context.Context, cfg *config.Config, found func(what, detail string, err error), std streams) {
	faults := make([][]error, len(cfg.Scrape.Jobs))
	var group errgroup.Group
	group.SetLimit(maxProbes)
	for i, j := range cfg.Scrape.Jobs {
		addresses := slices.DeleteFunc(append(slices.Clone(j.Targets), j.DNS), func(address string) bool { return address == "" })
		faults[i] = make([]error, len(addresses))
		for k, address := range addresses {
			group.Go(func() error { _, faults[i][k] = scrape.Probe(ctx, j, address); return nil })
		}
	}
	if _ = group.Wait(); ctx.Err() != nil { // no function returns an error
		fmt.Fprintf(std.out, "warning: scrape.jobs: not all targets were asked, because the check may take %s\n", checkTimeout)
		return
	}
	for i, all := range faults {
		what := fmt.Sprintf("scrape.jobs[%d]", i)
		failed := slices.DeleteFunc(slices.Clone(all), func(err error) bool { return err == nil })
		if len(failed) == len(all) {
			found(what, "", fmt.Errorf("%w; start the engine, or correct targets, dns and path", failed[0]))
			continue
		}
		for _, err := range failed {
			fmt.Fprintf(std.out, "warning: %s: %v\n", what, err)
		}
		found(what, fmt.Sprintf("%d of %d targets answer", len(all)-len(failed), len(all)), nil)
	}
}

// checkPast runs each query of a first start, for the newest hour.
func checkPast(ctx context.Context, cfg *config.Config, pc *pipeline.Config, std streams) error {
	reader, err := remote.NewPast(cfg.Backfill)
	if err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	for _, s := range cfg.BackfillSources() {
		pool, _ := pc.Pool(s.Pool)
		for _, q := range s.Questions(pool.KVTokens) {
			if q.Query == "" {
				continue
			}
			known, minutes, err := reader.Probe(ctx, q.Query, time.Now())
			switch {
			case err != nil:
				return fmt.Errorf("backfill: %s of %s: %w", q.Name, s.Pool, err)
			case known == 0:
				fmt.Fprintf(std.out, "warning: backfill: %s of %s has no value in the last hour, and would teach nothing; check backfill.sources[].match in %s\n", q.Name, s.Pool, q.Query)
			default:
				fmt.Fprintf(std.out, "ok  backfill: %s of %s has values for %d of the last %d minutes\n", q.Name, s.Pool, known, minutes)
			}
		}
	}
	return nil
}

// checkAddresses warns of addresses that the daemon could not listen on. The error is of a certificate.
func checkAddresses(cfg *config.Config, std streams) error {
	if err := web.Validate(cfg.Server.WebConfig); err != nil {
		return usagef("server.web_config is %q: %w", cfg.Server.WebConfig, err)
	}
	for _, a := range cfg.Addresses() {
		if _, err := a.TLS.Open(nil); err != nil {
			return usagef("%s.tls.%w", strings.TrimSuffix(a.Key, ".listen"), err)
		}
		if l, err := net.Listen("tcp", a.Address); err == nil {
			defer l.Close() // after the last, so that no two have the same address
		} else {
			fmt.Fprintf(std.out, "warning: %s: %v: if it is not this daemon that runs already, stop the other program or choose another address\n", a.Key, err)
		}
	}
	return nil
}

// checkAccess prints how network clients authenticate.
func checkAccess(cfg *config.Config, std streams) {
	if c := &cfg.Server; httpguard.IsOpen(c.Listen) && (c.WebConfig != "" || c.Proxy.UserHeader != "") {
		fmt.Fprintf(std.out, "ok  server: %s asks for what %s says\n", c.Listen, cmp.Or(c.WebConfig, "the proxy"))
	} else if httpguard.IsOpen(c.Listen) {
		fmt.Fprintf(std.out, "warning: server.listen is %s: anyone on the network may read what the page, /metrics and PromQL say, and is asked for nothing; set server.web_config, or listen on 127.0.0.1\n", c.Listen)
	}
	if e := &cfg.Listeners.HTTP; httpguard.IsOpen(e.Listen) {
		fmt.Fprintf(std.out, "ok  listeners: %s asks for what %s holds\n", e.Listen, cmp.Or(e.TLS.ClientCAFile, e.TokenFile))
	}
	if c := &cfg.NATS; c.URL == "" && c.Embedded.Listen != "none" && httpguard.IsOpen(c.Embedded.Listen) && c.User == "" {
		fmt.Fprintf(std.out, "warning: nats.embedded.listen is %s: anyone on the network may publish telemetry and read forecasts; set nats.user and nats.password_file, or listen on 127.0.0.1\n", c.Embedded.Listen)
	}
}

// checkEmbedded prints the disk use of the embedded server.
func checkEmbedded(_ context.Context, cfg *config.Config, std streams) error {
	c, dir := &cfg.NATS, cfg.StreamDir()
	fmt.Fprintf(std.out, "ok  nats: an embedded server on %s, telemetry of at most %d MiB and decisions of at most %d in %s, sync %s\n", c.Embedded.Listen, c.Stream.MaxBytes>>20, c.Kept.MaxBytes>>20, dir, c.Embedded.Sync)
	free, used, err := storage.Space(dir)
	if err != nil {
		return fmt.Errorf("nats.embedded.store_dir: %w", err)
	}
	if room := jetstream.Room(c, dir, used, free); room != "" {
		return errors.New(room)
	}
	return nil
}
