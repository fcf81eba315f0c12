package main

import (
	"context"
	"flag"
	"fmt"
)

// natsConfig prints the configuration for a NATS server.
func natsConfig(f *flag.FlagSet) action {
	path := f.String("config", "", "configuration `file` of the daemon; without one, the defaults")
	return func(_ context.Context, _ []string, std streams) error {
		cfg, err := loadOrDefault(*path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(std.out, cfg.NATS.Permissions())
		return err
	}
}
