package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxSkew is how far the server's clock may be from this machine's: well below a minute, and more than an answer takes.
const maxSkew = 5 * time.Second

// Seen is what [Inspect] found.
type Seen struct {
	Telemetry *jetstream.StreamInfo // of now; nil when it cannot be read
	Made      []string              // streams that were deleted, and are made again, empty
	Faults    []string              // what is wrong, and what to do
}

// Inspect looks at all streams. Those that were deleted it makes again.
func Inspect(ctx context.Context, js jetstream.JetStream, c Config) (seen Seen) {
	buckets := []jetstream.StreamConfig{{Name: "OBJ_" + c.State()}, {Name: "KV_" + c.deliveries()}} // the streams of these
	wanted := append(c.streams(), buckets...)
	for i, want := range wanted {
		s, err := find(ctx, js, want)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			seen.Made = append(seen.Made, want.Name)
		case err != nil:
			seen.Faults = append(seen.Faults, fmt.Sprintf("stream %s: %v", want.Name, Denied(js.Conn(), err)))
		default:
			seen.Faults = append(seen.Faults, faultsOf(s.CachedInfo(), &c, time.Now())...)
			if i == 0 {
				seen.Telemetry = s.CachedInfo()
			}
		}
		if ctx.Err() != nil {
			return seen
		}
	}
	if len(seen.Made) == 0 {
		return seen
	}
	stores, err := Ensure(ctx, js, c)
	if err != nil {
		seen.Made, seen.Faults = nil, append(seen.Faults, err.Error())
		return seen
	}
	seen.Telemetry = stores.Telemetry.CachedInfo()
	return seen
}

// faultsOf gives what is wrong with a stream, or with the clock of the server that answered now, and what to do.
func faultsOf(info *jetstream.StreamInfo, c *Config, now time.Time) (out []string) {
	name := info.Config.Name
	if skew := info.TimeStamp.Sub(now); name == c.Telemetry() && skew.Abs() > maxSkew {
		out = append(out, fmt.Sprintf("the clock of the NATS server is %s from this machine's: set both by NTP", skew.Round(time.Second)))
	}
	if have := info.Config.Replicas; have < c.Stream.Replicas {
		out = append(out, fmt.Sprintf("the stream %s has %d of the %[3]d copies that nats.stream.replicas asks for: nats stream edit %[1]s --replicas %[3]d",
			name, have, c.Stream.Replicas))
	}
	if info.Config.Discard == jetstream.DiscardNew && (info.Config.MaxBytes > 0 || info.Config.MaxMsgs > 0) {
		out = append(out, fmt.Sprintf("the stream %s refuses new messages when it is full: nats stream edit %s --discard old", name, name))
	}
	reach, most := now.Sub(info.State.FirstTime), info.Config.MaxBytes
	full := most > 0 && int64(info.State.Bytes) >= most/10*9
	if name == c.Decisions() && full && reach < c.Kept.MaxAge {
		out = append(out, fmt.Sprintf("the stream %s is full with the decisions and notices of %s, and nats.decisions.max_age asks for %s: the oldest go, and with them what was not delivered; raise nats.decisions.max_bytes, which is %d MiB",
			name, reach.Round(time.Minute), c.Kept.MaxAge, most>>20))
	}
	return out
}

// Room reports that the disk of the embedded server will be full before the streams are; "" if not. It takes bytes.
func Room(c *Config, dir string, used, free int64) string {
	if free >= c.Stream.MaxBytes+c.Kept.MaxBytes-used {
		return ""
	}
	return fmt.Sprintf("nats.stream.max_bytes is %d MiB and nats.decisions.max_bytes %d, and the disk of nats.embedded.store_dir, %s, has %d MiB for it (%d used, %d free): the disk is full before the oldest messages go; set both below that, or use a larger disk",
		c.Stream.MaxBytes>>20, c.Kept.MaxBytes>>20, dir, (free+used)>>20, used>>20, free>>20)
}

// Denied adds to an error what the server refused to the connection. A timeout does not tell that.
func Denied(conn *nats.Conn, err error) error {
	if last := conn.LastError(); err != nil && errors.Is(last, nats.ErrPermissionViolation) {
		return fmt.Errorf("%w: %w; allow that to the daemon's user: deploy/nats/permissions.conf has all that it needs", err, last)
	}
	return err
}
