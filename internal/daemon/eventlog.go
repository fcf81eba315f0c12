package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/storage"
)

// inspectStream returns the faults of the telemetry stream, and sets the ticker to the server's clock. It runs every
// second.
func (d *Daemon) inspectStream(info *natsjs.StreamInfo) []string {
	if d.ticker != nil {
		d.ticker.Sync(info.TimeStamp)
	}
	faults := jetstream.TelemetryFaults(info, &d.cfg.NATS, time.Now())
	if d.embedded == nil || d.roomForStream() != nil {
		return faults // storage reports a full disk
	}
	if free, err := storage.Free(d.cfg.StreamDir()); err == nil {
		if room := jetstream.Room(&d.cfg.NATS, d.cfg.StreamDir(), int64(info.State.Bytes), free); room != "" {
			faults = append(faults, room)
		}
	}
	return faults
}

// inspectLog creates deleted streams again, checks all, and whether the log of decisions covers the retention.
func (d *Daemon) inspectLog(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	made, faults, err := jetstream.Inspect(ctx, d.js, d.cfg.NATS, now)
	if len(made) > 0 {
		d.log.Error("streams were deleted. They are created again, empty. Check who may delete streams", zap.Strings("streams", made))
	}
	if err != nil {
		faults = append(faults, oneLine(err))
	}
	var fault error
	if len(faults) > 0 {
		fault = errors.New(strings.Join(faults, "; "))
	}
	d.noteWrite(troubleStreams, fault)
}

// roomForStream returns an error if the disk of the embedded server is full.
func (d *Daemon) roomForStream() error {
	if free, err := storage.Free(d.cfg.StreamDir()); err == nil && free < storage.Reserve {
		return &storage.FullError{Dir: d.cfg.StreamDir(), Free: free, Need: storage.Reserve}
	}
	return nil
}

// reopenEvery is the pause between two restarts of a server that fails without a full disk.
const reopenEvery = 10 * time.Second

// watchEmbedded checks each second whether the embedded server can store, until ctx ends. After a failed write the
// server takes no message until it is restarted, which waits for free disk space.
func (d *Daemon) watchEmbedded(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var reopened time.Time
	for {
		full, broken := d.roomForStream(), d.embedded.Broken()
		d.noteWrite("telemetry disk", full)
		d.noteWrite("telemetry store", broken)
		if broken != nil && full == nil && time.Since(reopened) > reopenEvery {
			reopened = time.Now()
			d.log.Warn("the disk has room: restarting the embedded server, which refuses all messages after a failed write", zap.Error(broken))
			if err := d.embedded.Reopen(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%w; the server could not be restarted: repair the disk and restart the daemon", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// tickOffline ends a minute without the stream while the embedded server cannot store. Nobody else can write to it
// either.
func (d *Daemon) tickOffline(ctx context.Context, minute time.Time) bool {
	return d.embedded != nil && d.embedded.Broken() != nil && d.consumer.Inject(ctx, minute)
}

// remakeStream creates a deleted telemetry stream again. The state continues with it.
func (d *Daemon) remakeStream(ctx context.Context) error {
	stream, err := jetstream.EnsureTelemetry(ctx, d.js, d.cfg.NATS)
	if err != nil {
		return err
	}
	info, before := stream.CachedInfo(), d.stream.Load().Config.Name
	if info.Config.Name != before {
		return fmt.Errorf("the stream %s, which Forewarm did not make, was deleted: make it again, or restart to use %s", before, info.Config.Name)
	}
	d.log.Error("the telemetry stream was deleted. It is created again, empty; its unread messages are lost. Check who may delete streams", zap.String("stream", before))
	d.stream.Store(info)
	return nil
}
