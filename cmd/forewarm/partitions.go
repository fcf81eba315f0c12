package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"

	"github.com/forewarm/forewarm/ingest/jetstream"
)

func partitions(_ context.Context, args []string, std streams) error {
	c := jetstream.DefaultConfig()
	f := flag.NewFlagSet("partitions", flag.ContinueOnError)
	f.StringVar(&c.Prefix, "prefix", c.Prefix, "first tokens of every subject")
	rest, err := parse(f, args, std)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return usagef("say how many partitions: forewarm partitions 4")
	}
	n, err := strconv.Atoi(rest[0])
	c.URL, c.Partition = "nats://localhost", fmt.Sprintf("0/%d", n)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return usagef("%q partitions: %w", rest[0], err)
	}
	fmt.Fprint(std.out, jetstream.Mappings(c.Prefix, n))
	return nil
}
