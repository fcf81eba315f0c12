package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/prometheus/exporter-toolkit/web"

	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/storage"
)

const checkTimeout = 15 * time.Second

func check(f *flag.FlagSet) action {
	path := f.String("config", "", "configuration `file` to check, with what it names: NATS and its streams, Alertmanager")
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
				return usagef("-health is %q: it must end in /healthz or /readyz, such as http://127.0.0.1:9464/healthz", value.Redacted(*health))
			}
			if err := askDaemon(ctx, io.Discard, "-health", *health, ""); err != nil {
				return err
			}
			fmt.Fprintf(std.out, "ok  %s answers 200 OK\n", value.Redacted(*health))
		}
		return nil
	}
}

// findings prints what is found of the parts of a configuration, and keeps the errors.
type findings struct {
	out  io.Writer
	errs []error
}

// add prints the detail of a part that is well, or keeps its error.
func (f *findings) add(part, detail string, err error) {
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("%s: %w", part, err))
		return
	}
	fmt.Fprintf(f.out, "ok  %s: %s\n", part, detail)
}

func (f *findings) warn(sentence any) { fmt.Fprintln(f.out, "warning:", sentence) }

func checkConfig(ctx context.Context, path string, offline bool, std streams) error {
	cfg, err := asUsage(config.Load(path))
	if err != nil {
		return err
	}
	pc := cfg.Pipeline()
	f := findings{out: std.out}
	f.add(path, fmt.Sprintf("%s, %s clock, %s mode", value.Count(len(cfg.Pools), "pool"), cfg.Clock, cfg.Decision.Mode), nil)
	pools := pc.Pools
	if pc.DefaultPool != nil {
		pools = append(pools, *pc.DefaultPool)
	}
	for i := range pools {
		f.capacity(&pools[i])
	}
	for _, warning := range config.UnknownEnv(os.Environ()) {
		f.warn(warning)
	}
	if offline {
		return nil
	}
	if err := cfg.CheckFiles(); err != nil {
		return usageError{err}
	}
	if err := web.Validate(cfg.Server.WebConfig); err != nil {
		return usagef("server.web_config is %q: %w", cfg.Server.WebConfig, err)
	}
	for key, tls := range cfg.TLS() {
		if _, err := tls.Open(); err != nil {
			return usagef("%s.%w", key, err)
		}
	}
	if cfg.NATS.URL == "" {
		f.embedded(cfg)
	} else if err := f.server(ctx, cfg); err != nil {
		return usageError{err}
	}
	sinks, err := sink.Open(cfg.Sinks, sink.Deps{})
	f.errs = append(f.errs, err)
	for _, s := range sinks {
		if peer, ok := s.(*sink.Alertmanager); ok {
			f.add(peer.Name(), "it takes alerts", peer.Probe(ctx))
		}
	}
	if err := errors.Join(f.errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// capacity warns if a replica's capacity is unknown and the pool has no limits: then it has no resource for a
// saturation forecast.
func (f *findings) capacity(p *capacity.Pool) {
	if p.Limits != (capacity.Limits{}) {
		return
	}
	for _, resource := range []string{capacity.KV, capacity.Prefill, capacity.Decode, capacity.Requests} {
		if _, ok := p.PerReplica(resource, 0); ok {
			return
		}
	}
	f.warn("pool " + p.Name + " has no capacity (KV cache, prefill, decode or request limit). Unless its replicas report their KV cache, only their queues and latencies decide how many there are; set kv_capacity_tokens, prefill_tokens_per_s or decode_tokens_per_s")
}

// server connects to NATS, makes the streams as a daemon does at its start, and prints what is wrong with them.
func (f *findings) server(ctx context.Context, cfg *config.Config) error {
	c := &cfg.NATS
	conn, err := jetstream.Connect(*c, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	f.add("nats", "connected to "+value.Redacted(conn.ConnectedUrl()), nil)
	js, stores, err := c.Join(ctx, conn)
	if err != nil {
		return err
	}
	telemetry := stores.Telemetry.CachedInfo()
	for _, fault := range jetstream.Inspect(ctx, js, *c).Faults {
		f.warn(fault)
	}
	f.add("stream "+telemetry.Config.Name, fmt.Sprintf("%d messages of %v", telemetry.State.Msgs, telemetry.Config.Subjects), nil)
	return nil
}

// embedded compares the streams of the embedded server with the disk.
func (f *findings) embedded(cfg *config.Config) {
	c, dir := &cfg.NATS, cfg.StreamDir()
	free, used, err := storage.Space(dir)
	if room := jetstream.Room(c, dir, used, free); err == nil && room != "" {
		err = errors.New(room)
	}
	f.add("nats", fmt.Sprintf("an embedded server on %s, telemetry of at most %d MiB and decisions of at most %d MiB in %s, sync %s",
		c.Embedded.Listen, c.Stream.MaxBytes>>20, c.Kept.MaxBytes>>20, dir, c.Embedded.Sync), err)
	if c.Embedded.Listen != "none" && httpguard.IsOpen(c.Embedded.Listen) && c.User == "" {
		f.warn("nats.embedded.listen is " + c.Embedded.Listen + ": anyone on the network may publish telemetry and read forecasts; set nats.user and nats.password_file, or listen on 127.0.0.1")
	}
}
