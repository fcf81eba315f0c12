package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/storage"
)

const (
	inspectEvery   = 2 * time.Second
	inspectTimeout = 5 * time.Second
	reopenEvery    = 10 * time.Second // between two restarts of a server that fails without a full disk
)

// watchStreams inspects the streams until ctx ends. After a failed write the embedded server takes no message until it is
// restarted, which waits for free disk space.
func (d *Daemon) watchStreams(ctx context.Context) error {
	var reopened time.Time
	for {
		var broken error
		if d.embedded != nil {
			full := d.roomForStream()
			broken = d.embedded.Broken()
			d.note(d.failedWrites, "telemetry disk", full)
			d.note(d.failedWrites, "telemetry store", broken)
			if broken != nil && full == nil && time.Since(reopened) > reopenEvery {
				reopened = time.Now()
				d.log.Warn("the disk has room: restarting the embedded server, which refuses all messages after a failed write", zap.Error(broken))
				if err := d.embedded.Reopen(ctx); err != nil && ctx.Err() == nil {
					return fmt.Errorf("%w; the server could not be restarted: repair the disk and restart the daemon", err)
				}
			}
		}
		if broken == nil && d.conn.IsConnected() {
			d.inspect(ctx)
		}
		if !sleep.For(ctx, inspectEvery) {
			return nil
		}
	}
}

// inspect makes deleted streams again, notes the faults of all, and sets the ticker to the server's clock.
func (d *Daemon) inspect(daemon context.Context) {
	ctx, cancel := context.WithTimeout(daemon, inspectTimeout)
	defer cancel()
	seen := jetstream.Inspect(ctx, d.js, d.cfg.NATS)
	if daemon.Err() != nil {
		return
	}
	if len(seen.Made) > 0 {
		d.log.Error("streams were deleted. They are created again, empty: what they held is lost. Check who may delete streams", zap.Strings("streams", seen.Made))
	}
	faults := seen.Faults
	if info := seen.Telemetry; info != nil {
		if d.ticker != nil {
			d.ticker.Sync(info.TimeStamp)
			if ahead := aheadText(locked(d, &d.newestTick), info.TimeStamp); ahead != "" {
				faults = append(faults, ahead)
			}
		}
		d.consumer.Saw(info.State)
		switch before := d.stream.Load(); {
		case info.Config.Name != before.Config.Name:
			faults = append(faults, fmt.Sprintf("the stream %s, which Forewarm did not make, was deleted: make it again, or restart to use %s",
				before.Config.Name, info.Config.Name))
		case !info.Created.Equal(before.Created):
			d.stream.Store(info)
		}
		if d.embedded != nil {
			free, err := storage.Free(d.cfg.StreamDir())
			room := jetstream.Room(&d.cfg.NATS, d.cfg.StreamDir(), int64(info.State.Bytes), free)
			if err == nil && free >= storage.Reserve && room != "" { // a full disk is a fault of its own
				faults = append(faults, room)
			}
		}
	}
	var fault error
	if len(faults) > 0 {
		fault = errors.New(strings.Join(faults, "; "))
	}
	d.note(d.failedWrites, troubleStreams, fault)
}

// aheadText says that the newest tick is later than now, by the clock of the NATS server, and the fix; "" if it is not.
func aheadText(newest, now time.Time) string {
	if newest.Sub(now) < time.Minute {
		return ""
	}
	return fmt.Sprintf("the newest minute that was decided is %s, and the clock is %s: nothing is decided before the clock is there. If a clock was "+
		"ahead, wait, or stop all daemons, delete what they stored in NATS (without nats.url, nats in storage.dir) and tsdb in storage.dir, and start again",
		newest.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}

// roomForStream returns an error if the disk of the embedded server is full.
func (d *Daemon) roomForStream() error {
	return storage.HasRoom(d.cfg.StreamDir(), storage.Free)
}
