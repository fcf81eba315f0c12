package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest/jetstream"
)

// checkRights fails where the NATS user lacks a right that the daemon needs, and names the subjects. warn is told when the server
// does not say what rights there are.
func checkRights(ctx context.Context, conn *nats.Conn, c *jetstream.Config, warn func(error)) error {
	missing, err := jetstream.MissingRights(ctx, conn, c.DaemonRights())
	if errors.Is(err, nats.ErrPermissionViolation) {
		return fmt.Errorf("%w; forewarm nats-config prints all that the daemon needs", err)
	}
	if err != nil {
		warn(err)
		return nil
	}
	var lacks []string
	if len(missing.Publish) > 0 {
		lacks = append(lacks, "publish to "+strings.Join(missing.Publish, ", "))
	}
	if len(missing.Subscribe) > 0 {
		lacks = append(lacks, "subscribe to "+strings.Join(missing.Subscribe, ", "))
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("the NATS user of this connection may not %s: allow it in the server's configuration; forewarm nats-config prints all that the daemon needs", strings.Join(lacks, ", nor "))
}

// natsConfig prints what a NATS server needs to know of Forewarm.
func natsConfig(_ context.Context, args []string, std streams) error {
	f := flag.NewFlagSet("nats-config", flag.ContinueOnError)
	path := f.String("config", "", "configuration `file` of the daemon; without one, the defaults")
	partitions := f.Int("partitions", 0, "`number` of parts in which the server is to split all pools")
	if err := parseOnly(f, args, std); err != nil {
		return err
	}
	c := jetstream.DefaultConfig()
	if *path != "" {
		cfg, err := config.Load(*path)
		if err != nil {
			return usageError{err}
		}
		c = cfg.NATS
	}
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
