package main

import (
	"context"
	"errors"
	"flag"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/config"
)

func serve(ctx context.Context, args []string, std streams) (err error) {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	path, clock := daemonFlags(f)
	if err := parseOnly(f, args, std); err != nil {
		return err
	}
	cfg, err := loadConfig(*path, *clock)
	if err != nil {
		return err
	}
	log, err := newLogger(cfg.Log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // stderr may be a terminal, which cannot be synced
	d, err := openDaemon(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	log.Info("serving", zap.String("nats", d.Status().Connection), zap.String("http", d.listener.Addr().String()),
		zap.String("stream", d.stream.Name), zap.String("clock", string(cfg.Clock)), zap.String("mode", string(cfg.Decision.Mode)))
	if d.embedded != nil {
		log.Info("producers publish to the embedded server", zap.String("url", d.embedded.URL()))
	}
	return d.Run(ctx)
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
	switch forewarm.Clock(clock) {
	case "":
	case forewarm.WallClock, forewarm.EventClock:
		cfg.Clock = forewarm.Clock(clock)
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
