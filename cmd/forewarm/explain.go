package main

import (
	"context"
	"flag"
	"net/url"
)

// runExplain asks a running daemon to explain a decision.
func runExplain(ctx context.Context, args []string, std streams) error {
	f := flag.NewFlagSet("explain", flag.ContinueOnError)
	at := f.String("url", "http://127.0.0.1:9464", "the running daemon")
	format := f.String("format", "text", "text or json")
	rest, err := parse(f, args, std)
	switch {
	case err != nil:
		return err
	case *format != "text" && *format != "json":
		return usagef("-format is %q: it must be text or json", *format)
	case len(rest) != 1:
		return usagef("name one decision: an event's id such as chat-29500000, or a pool for its newest")
	}
	return askDaemon(ctx, std.out, "-url", *at, "/api/v1/explain/"+url.PathEscape(rest[0])+"?format="+*format)
}
