package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/value"
)

// natsFlags adds the flags of commands that publish: NATS server and user. Call connect after the flags are parsed, and
// close the connection. It refuses a pool that -config does not serve. prefix is that of subjects.
func natsFlags(f *flag.FlagSet) (connect func(pool string) (conn *nats.Conn, p *jetstream.Publisher, prefix string, err error)) {
	path := f.String("config", "", "configuration `file` of the daemon: its nats section says how to connect")
	url := f.String("nats", "", "NATS server `URL` (default: of -config, or nats://127.0.0.1:4222)")
	return func(pool string) (*nats.Conn, *jetstream.Publisher, string, error) {
		cfg, err := config.Default(), error(nil)
		if *path != "" {
			if cfg, err = asUsage(config.Load(*path)); err != nil {
				return nil, nil, "", err
			}
			pc := cfg.Pipeline()
			if _, served := pc.Pool(pool); !served {
				return nil, nil, "", usagef("-pool is %q: %s does not serve it; name one of its pools, or add it there", pool, *path)
			}
		}
		c := &cfg.NATS
		c.URL = cmp.Or(*url, c.URL, "nats://"+c.Embedded.Listen)
		if err := c.Check(); err != nil {
			return nil, nil, "", usagef("nats.%w", err)
		}
		conn, err := jetstream.Connect(*c, nil)
		if errors.Is(err, nats.ErrNoServers) || errors.As(err, new(*net.OpError)) {
			return nil, nil, "", usagef("no NATS server at %s: %w; start the daemon (forewarm serve), or name another server with -nats or -config",
				value.Redacted(c.URL), errors.Unwrap(err))
		} else if err != nil { // a wrong user or key, or a file that cannot be read
			return nil, nil, "", usagef("%w; without -config, nats.url is -nats here", err)
		}
		p, err := jetstream.NewPublisher(conn)
		return conn, p, c.Prefix, err
	}
}

// publish sends telemetry of requests that have just ended, to test an installation.
func publish(f *flag.FlagSet) action {
	connect := natsFlags(f)
	pool := f.String("pool", "chat", "`name` of the pool; the daemon must serve it")
	class := f.String("class", "default", "workload `class` of the requests")
	input := f.Int64("input", 1200, "prompt `tokens` of a request")
	cached := f.Int64("cached", 0, "`tokens` of the prompt that came from the prefix cache")
	output := f.Int64("output", 300, "output `tokens` of a request")
	n := f.Int("n", 1, "`number` of records")
	return func(ctx context.Context, _ []string, std streams) error {
		limit := ingest.DefaultLimits().Tokens / 2
		switch {
		case *pool == "":
			return usagef(`-pool is "": name a pool that the daemon serves`)
		case *input < 0 || *input > limit || *output < 0 || *output > limit:
			return usagef("-input is %d and -output is %d: each must be 0 to %d", *input, *output, limit)
		case *cached < 0 || *cached > *input:
			return usagef("-cached is %d: it must be 0 to -input, %d", *cached, *input)
		case *n < 1:
			return usagef("-n is %d: it must be 1 or more", *n)
		}
		conn, p, prefix, err := connect(*pool)
		if err != nil {
			return err
		}
		defer conn.Close()
		subject, began := ingest.Subject(prefix, ingest.RequestSubject, *pool, *class), time.Now()
		for i := range *n {
			x := requestEndedAt(time.Now(), *input, *cached, *output)
			if err := p.Publish(ctx, subject, x.ID, &ingest.Batch{Requests: []ingest.Request{x}}); err != nil {
				return fmt.Errorf("%w (%d of %d records are stored)", err, i, *n)
			}
		}
		fmt.Fprintf(std.out, "stored %s on %s in %s; what the daemon refuses of them is on its page\n", value.Count(*n, "record"), subject, time.Since(began).Round(time.Millisecond))
		return nil
	}
}

func requestEndedAt(end time.Time, input, cached, output int64) ingest.Request {
	const ttft, itl = 500 * time.Millisecond, 25 * time.Millisecond
	first := end.Add(-min(time.Duration(output)*itl, time.Minute))
	return ingest.Request{
		ID: nuid.Next(), Attempt: 1, ArrivedAt: first.Add(-ttft), FirstTokenAt: first, FinishedAt: end,
		PromptTokens: input, CachedTokens: cached, OutputTokens: output, MaxOutputTokens: ingest.Unknown,
	}
}
