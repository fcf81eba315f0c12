package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxSkew is how far the server's clock may be from this machine's before watermarks and the messages' own times no
// longer agree: well below a minute, and more than an answer takes.
const maxSkew = 5 * time.Second

// Inspect looks at all streams but that of telemetry. Those that were deleted it makes again, empty, and gives their
// names. Of the others it gives the faults, and what to do. The error is of streams that cannot be read or made.
func Inspect(ctx context.Context, js jetstream.JetStream, c Config, now time.Time) (made, faults []string, err error) {
	var missing []string
	for _, name := range c.others() {
		s, e := js.Stream(ctx, name)
		switch {
		case errors.Is(e, jetstream.ErrStreamNotFound):
			missing = append(missing, name)
		case e != nil:
			err = errors.Join(err, fmt.Errorf("stream %s: %w", name, Denied(js.Conn(), e)))
		default:
			faults = append(faults, faultsOf(s.CachedInfo(), &c)...)
			if short := tooShort(s.CachedInfo(), &c, now); name == c.Decisions() && short != "" {
				faults = append(faults, short)
			}
		}
	}
	if len(missing) > 0 {
		err = errors.Join(err, new(Stores).ensureOthers(ctx, js, c))
	}
	for _, name := range missing {
		if _, e := js.Stream(ctx, name); e == nil { // not a user's stream with another name
			made = append(made, name)
		}
	}
	return made, faults, err
}

// TelemetryFaults gives what is wrong with the stream of telemetry, and with the clock of the server, whose answer came
// at now, and what to do.
func TelemetryFaults(info *jetstream.StreamInfo, c *Config, now time.Time) []string {
	out := faultsOf(info, c)
	if skew := info.TimeStamp.Sub(now); !info.TimeStamp.IsZero() && skew.Abs() > maxSkew {
		out = append(out, fmt.Sprintf("the clock of the NATS server is %s from this machine's: set both by NTP", skew.Round(time.Second)))
	}
	return out
}

// faultsOf gives what is wrong with a stream, and what to do.
func faultsOf(info *jetstream.StreamInfo, c *Config) (out []string) {
	name := info.Config.Name
	if have := info.Config.Replicas; have < c.Stream.Replicas {
		out = append(out, fmt.Sprintf("the stream %s has %d of the %d copies that nats.stream.replicas asks for: nats stream edit %s --replicas %d", name, have, c.Stream.Replicas, name, c.Stream.Replicas))
	}
	if info.Cluster != nil {
		for _, peer := range info.Cluster.Replicas {
			if peer.Offline || !peer.Current && peer.Active > maxSkew {
				out = append(out, fmt.Sprintf("the copy of the stream %s on %s is offline or behind: start that server, or see its log", name, peer.Name))
			}
		}
	}
	if info.Config.Discard == jetstream.DiscardNew && (info.Config.MaxBytes > 0 || info.Config.MaxMsgs > 0) {
		out = append(out, fmt.Sprintf("the stream %s refuses new messages when it is full: nats stream edit %s --discard old", name, name))
	}
	return out
}

// tooShort reports that the log of decisions is full and younger than max_age; "" when it is not.
func tooShort(info *jetstream.StreamInfo, c *Config, now time.Time) string {
	reach := now.Sub(info.State.FirstTime)
	if most := info.Config.MaxBytes; most <= 0 || int64(info.State.Bytes) < most/10*9 || reach >= c.Kept.MaxAge {
		return ""
	}
	return fmt.Sprintf("the stream %s is full with the decisions and notices of %s, and nats.decisions.max_age asks for %s: the oldest go, and with them what was not delivered; raise nats.decisions.max_bytes, which is %d MiB",
		info.Config.Name, reach.Round(time.Minute), c.Kept.MaxAge, info.Config.MaxBytes>>20)
}

// Room reports that the disk of the embedded server, with so many bytes free beside those that its store uses, is full
// before the streams are; "" when it is not.
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
		return fmt.Errorf("%w: %w; allow that to the daemon's user", err, last)
	}
	return err
}
