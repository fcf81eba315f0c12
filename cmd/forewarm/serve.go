package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/pipeline"
)

func serve(ctx context.Context, args []string, std streams) error {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	path, clock := daemonFlags(f)
	partition := f.String("partition", "", "`i/n`: serve the i-th of n parts of all pools; overrides nats.partition")
	if err := parseOnly(f, args, std); err != nil {
		return err
	}
	r := &reloader{hangups: make(chan os.Signal, 1), posts: make(chan chan<- error)}
	signal.Notify(r.hangups, syscall.SIGHUP)
	defer signal.Stop(r.hangups)
	r.load = func() (*config.Config, error) {
		cfg, err := loadConfig(*path, *clock)
		if err != nil {
			return nil, err
		}
		if *partition != "" {
			cfg.NATS.Partition = *partition
			if err := cfg.NATS.Validate(); err != nil {
				return nil, usagef("nats.%w", err)
			}
		}
		cfg.KeepOwn()
		return cfg, nil
	}
	return r.run(ctx)
}

// sayReach says at which addresses producers reach the daemon, and warns where a container leaves them none: its loopback
// is its own.
func (d *daemon) sayReach(container bool) {
	if d.embedded == nil {
		return
	}
	addresses := []string{strings.TrimPrefix(d.embedded.URL(), "nats://")}
	for _, s := range d.listeners.Stats() {
		addresses = append(addresses, d.listeners.Addr(s.Listener).String())
	}
	from := "this machine only"
	if slices.ContainsFunc(addresses, httpguard.IsOpen) {
		from = "the network"
	}
	d.log.Info("producers publish to the embedded server", zap.String("url", d.embedded.URL()), zap.String("reached from", from))
	if container && from != "the network" {
		d.log.Warn("this is a container, and nothing outside it can send telemetry: it listens on the container's loopback alone. Set FOREWARM_NATS_EMBEDDED_LISTEN=0.0.0.0:4222 and publish port 4222, or set nats.url",
			zap.Strings("listens on", addresses))
	}
}

// inContainer says that the process has a network of its own, by the marks that Docker, Podman and Kubernetes leave.
func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}

// daemonFlags are the flags of what runs until it is stopped.
func daemonFlags(f *flag.FlagSet) (path, clock *string) {
	return f.String("config", "forewarm.yaml", "configuration `file`"),
		f.String("clock", "", "wall or event: overrides the configuration's clock; event follows the telemetry, for traces that run faster than life")
}

// loadConfig reads a configuration; a clock given on the command line wins.
func loadConfig(path, clock string) (*config.Config, error) {
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
	return cfg, nil
}

func newLogger(c config.Log) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, usagef("log.level is %q: it must be debug, info, warn or error", c.Level)
	}
	zc := zap.NewProductionEncoderConfig()
	zc.EncodeTime, zc.EncodeDuration = zapcore.RFC3339TimeEncoder, zapcore.StringDurationEncoder
	encoder := zapcore.NewConsoleEncoder(zc)
	if c.Format == "json" {
		encoder = zapcore.NewJSONEncoder(zc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), level)), nil
}
