package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/ingest/listener"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

// checkOthers checks the configured services beside NATS: the Prometheus for backfill, the remote-write receiver,
// Alertmanager, and the receivers of reports. It checks all before it returns the first error.
func checkOthers(ctx context.Context, cfg *config.Config, std streams) error {
	var errs []error
	found := func(what, detail string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			return
		}
		fmt.Fprintf(std.out, "ok  %s: %s\n", what, detail)
	}
	if cfg.Backfill.URL != "" {
		errs = append(errs, checkPast(ctx, cfg, std))
	}
	if cfg.RemoteWrite.URL != "" {
		found("remote_write", "the receiver takes samples", remote.ProbeWrite(ctx, cfg.RemoteWrite))
	}
	sinks, err := sink.Open(cfg.Sinks, sink.Deps{})
	if err != nil {
		return usageError{err}
	}
	if cfg.Report.Schedule != "" && cfg.Clock == pipeline.WallClock {
		destinations, err := sink.OpenReports(cfg.Reports(), sink.ReportDeps{WriteFile: storage.WriteFile})
		if err != nil {
			return usageError{err}
		}
		sinks = append(sinks, destinations...)
	}
	sink.Probe(ctx, sinks, found)
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// checkPast runs each query of a first start, for the newest hour.
func checkPast(ctx context.Context, cfg *config.Config, std streams) error {
	reader, err := remote.NewPast(cfg.Backfill)
	if err != nil {
		return fmt.Errorf("backfill: %w", err)
	}
	pc, err := cfg.Pipeline()
	if err != nil {
		return err
	}
	for _, s := range cfg.BackfillSources() {
		pool, _ := pc.Pool(s.Pool)
		of := s.Pool
		if s.Class != "" {
			of += "/" + s.Class
		}
		for _, q := range s.Questions(pool.KVTokens) {
			if q.Query == "" {
				continue
			}
			known, minutes, err := reader.Probe(ctx, q.Query, time.Now())
			switch {
			case err != nil:
				return fmt.Errorf("backfill: %s of %s: %w", q.Name, of, err)
			case known == 0:
				fmt.Fprintf(std.out, "warning: backfill: %s of %s has no value in the last hour, and would teach nothing; check backfill.sources[].match in %s\n", q.Name, of, q.Query)
			default:
				fmt.Fprintf(std.out, "ok  backfill: %s of %s has values for %d of the last %d minutes\n", q.Name, of, known, minutes)
			}
		}
	}
	return nil
}

// checkAccess prints how network clients authenticate.
func checkAccess(cfg *config.Config, std streams) {
	if c := &cfg.Server; httpguard.IsOpen(c.Listen) && c.WebConfig != "" {
		fmt.Fprintf(std.out, "ok  server: %s asks for what %s says\n", c.Listen, c.WebConfig)
	} else if httpguard.IsOpen(c.Listen) {
		fmt.Fprintf(std.out, "warning: server.listen is %s: anyone on the network may read what the page, /metrics and PromQL say, and is asked for nothing; set server.web_config, or listen on 127.0.0.1\n", c.Listen)
	}
	for _, e := range []listener.Endpoint{cfg.Listeners.HTTP, cfg.Listeners.GRPC} {
		if asks := cmp.Or(e.TLS.ClientCAFile, e.TokenFile); e.Listen != "" && httpguard.IsOpen(e.Listen) {
			fmt.Fprintf(std.out, "ok  listeners: %s asks for what %s holds\n", e.Listen, asks)
		}
	}
	if c := &cfg.NATS; c.URL == "" && c.Embedded.Listen != "none" && httpguard.IsOpen(c.Embedded.Listen) && c.User == "" {
		fmt.Fprintf(std.out, "warning: nats.embedded.listen is %s: anyone on the network may publish telemetry and read forecasts; set nats.user and nats.password_file, or listen on 127.0.0.1\n", c.Embedded.Listen)
	}
}

// checkEmbedded prints the disk use of the embedded server.
func checkEmbedded(cfg *config.Config, std streams) error {
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
