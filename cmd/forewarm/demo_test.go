package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// TestDemoEndsWithTheDaemon: the demo returns the error of a daemon that ends early, and does not wait for its ticks.
func TestDemoEndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	d, err := newDemo(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.daemon.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	broken := errors.New("the disk is gone")
	err = d.run(ctx, streams{io.Discard, io.Discard}, true, func(context.Context) error { return broken })
	if !errors.Is(err, broken) || ctx.Err() != nil {
		t.Errorf("%v, want the error of the daemon at once", err)
	}
}
