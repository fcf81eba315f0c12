package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/forewarm/forewarm/ingest/jetstream"
)

// natsConfig prints the configuration for a NATS server.
func natsConfig(f *flag.FlagSet) action {
	path := f.String("config", "", "configuration `file` of the daemon; without one, the defaults")
	partitions := f.Int("partitions", 0, "`number` of parts in which the server is to split all pools")
	return func(_ context.Context, _ []string, std streams) error {
		cfg, err := loadOrDefault(*path)
		if err != nil {
			return err
		}
		c := &cfg.NATS
		if *partitions != 0 {
			c.URL, c.Partition = "nats://localhost", fmt.Sprintf("0/%d", *partitions)
			if err := c.Validate(); err != nil {
				return usagef("-partitions is %d: %w", *partitions, err)
			}
			fmt.Fprint(std.out, jetstream.Mappings(c.Prefix, *partitions)+"\n")
		}
		fmt.Fprint(std.out, c.Permissions())
		return nil
	}
}
