package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/daemon"
)

func serve(f *flag.FlagSet) action {
	path := f.String("config", "forewarm.yaml", "configuration `file`")
	return func(ctx context.Context, _ []string, _ streams) error {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		load := func() (*config.Config, error) {
			cfg, err := config.Load(*path)
			if err != nil {
				return nil, usageError{err}
			}
			cfg.KeepOwn()
			log, err := daemon.NewLogger(cfg.Log)
			if err != nil {
				return nil, err
			}
			for _, warning := range config.UnknownEnv(os.Environ()) {
				log.Warn(warning)
			}
			return cfg, nil
		}
		return daemon.Serve(ctx, load, hangups, versionString())
	}
}
