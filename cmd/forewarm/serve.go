package main

import (
	"cmp"
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/daemon"
	"github.com/forewarm/forewarm/pipeline"
)

func serve(f *flag.FlagSet) action {
	path := f.String("config", "forewarm.yaml", "configuration `file`")
	var clock string
	choice(f, &clock, "clock", "wall or event: overrides the configuration's clock; event follows the telemetry, for traces that run faster than life",
		string(pipeline.WallClock), string(pipeline.EventClock))
	return func(ctx context.Context, _ []string, _ streams) error {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		load := func() (*config.Config, error) {
			cfg, err := asUsage(config.Load(*path))
			if err != nil {
				return nil, err
			}
			cfg.Clock = cmp.Or(pipeline.Clock(clock), cfg.Clock)
			log := daemon.NewLogger(cfg.Log)
			for _, warning := range config.UnknownEnv(os.Environ()) {
				log.Warn(warning)
			}
			return cfg, nil
		}
		return daemon.Serve(ctx, load, hangups, versionString())
	}
}
