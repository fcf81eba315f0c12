package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// openData opens the log of a stopped daemon, at the configured server or in the data directory. It returns
// [storage.ErrLocked] while a daemon holds the directory.
func openData(ctx context.Context, c jetstream.Config, dir string) (js natsjs.JetStream, log *stream.Reader, done func() error, err error) {
	if _, err := os.Stat(filepath.Join(dir, "tsdb")); err != nil { // before a file is created in it
		return nil, nil, nil, usagef("%s is no data directory: %w; name the storage.dir of a daemon that has run with -data or -config", dir, err)
	}
	lock, err := storage.Lock(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	var embedded *jetstream.Embedded
	var conn *nats.Conn
	done = func() error {
		if conn != nil {
			conn.Close()
		}
		if embedded != nil {
			embedded.Shutdown()
		}
		return lock.Unlock()
	}
	if c.URL == "" {
		c.Embedded.Listen, c.Embedded.StoreDir = "none", cmp.Or(c.Embedded.StoreDir, filepath.Join(dir, "nats"))
		if embedded, err = jetstream.StartEmbedded(ctx, c, zap.NewNop()); err != nil {
			return nil, nil, nil, errors.Join(err, done())
		}
	}
	if conn, err = jetstream.Connect(c, embedded); err == nil {
		js, err = natsjs.New(conn)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, done())
	}
	return js, stream.NewReader(js, c.Decisions(), c.Inner()), done, nil
}
