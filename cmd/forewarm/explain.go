package main

import (
	"context"
	"flag"
	"net/url"
)

func runExplain(f *flag.FlagSet) action {
	at := f.String("url", "http://127.0.0.1:9464", "`URL` of the running daemon")
	format := "text"
	choice(f, &format, "format", "text (default) or json", "text", "json")
	return func(ctx context.Context, args []string, std streams) error {
		return askDaemon(ctx, std.out, "-url", *at, "/api/v1/explain/"+url.PathEscape(args[0])+"?format="+format)
	}
}
