package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/daemon"
	"github.com/forewarm/forewarm/pipeline"
)

func serve(ctx context.Context, args []string, std streams) error {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	path := f.String("config", "forewarm.yaml", "configuration `file`")
	clock := f.String("clock", "", "wall or event: overrides the configuration's clock; event follows the telemetry, for traces that run faster than life")
	partition := f.String("partition", "", "`i/n`: serve the i-th of n parts of all pools; overrides nats.partition")
	if err := parseOnly(f, args, std); err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	return daemon.Serve(ctx, func() (*config.Config, error) { return serveConfig(*path, *clock, *partition) }, hangups, versionString())
}

// serveConfig reads a configuration. clock and partition from the command line override it.
func serveConfig(path, clock, partition string) (*config.Config, error) {
	cfg, err := config.Load(path)
	if err != nil {
		return nil, usageError{err}
	}
	switch pipeline.Clock(clock) {
	case "":
	case pipeline.WallClock, pipeline.EventClock:
		cfg.Clock = pipeline.Clock(clock)
	default:
		return nil, usagef("-clock is %q: it must be wall or event", clock)
	}
	if partition != "" {
		cfg.NATS.Partition = partition
		if err := cfg.NATS.Validate(); err != nil {
			return nil, usagef("nats.%w", err)
		}
	}
	cfg.KeepOwn()
	return cfg, nil
}
