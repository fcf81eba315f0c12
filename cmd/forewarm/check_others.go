package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

// checkOthers asks what is configured beside NATS whether it would do its part: the Prometheus with a past, the receiver of
// samples, Alertmanager, and where reports go. All are asked before the first error is returned. js is nil for an embedded
// server, which is not running.
func checkOthers(ctx context.Context, cfg *config.Config, js natsjs.JetStream, std streams) error {
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
		deps := sink.ReportDeps{WriteFile: storage.WriteFile}
		if js != nil {
			deps.Objects = js
		}
		destinations, err := sink.OpenReports(cfg.Reports(), deps)
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

// checkPast asks every question that a first start would, for the newest hour.
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
