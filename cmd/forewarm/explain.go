package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/storage"
)

// runExplain explains a decision, from a data directory or a running daemon.
func runExplain(ctx context.Context, args []string, std streams) (err error) {
	f := flag.NewFlagSet("explain", flag.ContinueOnError)
	path := f.String("config", "", "configuration `file`: its storage.dir is read, or the daemon that holds it is asked")
	dir := f.String("data", "", "data `directory` of a daemon that is stopped")
	at := f.String("url", "", "a running daemon, such as http://127.0.0.1:9464")
	format := f.String("format", "text", "text or json")
	rest, err := parse(f, args, std)
	if err != nil {
		return err
	}
	if *format != "text" && *format != "json" {
		return usagef("-format is %q: it must be text or json", *format)
	}
	if len(rest) != 1 {
		return usagef("name one decision: an event's id such as chat-29500000, or a pool for its newest")
	}
	ref, sc, nc := rest[0], storage.DefaultConfig(), jetstream.DefaultConfig()
	sources, from := 0, "server.listen"
	f.Visit(func(x *flag.Flag) {
		switch x.Name {
		case "url":
			from = "-url"
			fallthrough
		case "config", "data":
			sources++
		}
	})
	switch {
	case sources > 1:
		return usagef("give one of -config, -data and -url")
	case *dir != "":
		sc.Dir = *dir
	case *path != "":
		cfg, err := config.Load(*path)
		if err != nil {
			return usageError{err}
		}
		sc, nc, *at = cfg.Storage, cfg.NATS, "http://"+cfg.Server.Listen
	}
	ask := func() error {
		return askDaemon(ctx, std.out, from, *at, "/api/v1/explain/"+url.PathEscape(ref)+"?format="+*format)
	}
	if from == "-url" {
		return ask()
	}
	_, log, done, err := openData(ctx, nc, sc.Dir)
	switch {
	case errors.Is(err, storage.ErrLocked) && *at != "":
		return ask()
	case errors.Is(err, storage.ErrLocked):
		return fmt.Errorf("%w; or ask it: explain -config FILE, or -url", err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	x, err := log.Explain(ctx, ref)
	if err != nil {
		return err
	}
	return writeExplanation(std.out, &x, *format)
}

func writeExplanation(w io.Writer, x *alerting.Explanation, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(x)
	}
	return x.WriteText(w)
}
