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

// OtherFaults gives what is wrong with the streams, other than that of telemetry, that hold what a daemon stores, and
// what to do. The buckets are streams as well. The error is of streams that cannot be read.
func OtherFaults(ctx context.Context, js jetstream.JetStream, c *Config, now time.Time) (out []string, err error) {
	objects, values := "OBJ_"+c.State(), "KV_"+c.Deliveries()
	for _, name := range []string{c.Decisions(), SignalsStream, ForecastsStream, objects, values} {
		s, e := js.Stream(ctx, name)
		if errors.Is(e, jetstream.ErrStreamNotFound) {
			continue // a user's stream has another name, or it could not be made again
		} else if e != nil {
			err = errors.Join(err, fmt.Errorf("stream %s: %w", name, Denied(js.Conn(), e)))
			continue
		}
		out = append(out, Faults(s.CachedInfo(), c)...)
		if name == c.Decisions() {
			if short := tooShort(s.CachedInfo(), c, now); short != "" {
				out = append(out, short)
			}
		}
	}
	return out, err
}

// Remake makes again what was deleted of the streams other than telemetry, empty, and returns their names.
func Remake(ctx context.Context, js jetstream.JetStream, c Config) (made []string, err error) {
	for _, x := range []struct {
		name   string
		ensure func() error
	}{
		{c.Decisions(), func() error { _, err := EnsureDecisions(ctx, js, c); return err }},
		{SignalsStream, func() error { _, err := EnsureSignals(ctx, js, c); return err }},
		{ForecastsStream, func() error { _, err := EnsureForecasts(ctx, js, c); return err }},
		{"OBJ_" + c.State(), func() error { _, err := EnsureState(ctx, js, c); return err }},
		{"KV_" + c.Deliveries(), func() error { _, err := EnsureDeliveries(ctx, js, c); return err }},
	} {
		if _, e := js.Stream(ctx, x.name); !errors.Is(e, jetstream.ErrStreamNotFound) {
			continue
		}
		if e := x.ensure(); e != nil {
			err = errors.Join(err, e)
		} else if _, e := js.Stream(ctx, x.name); e == nil { // not a user's stream with another name
			made = append(made, x.name)
		}
	}
	return made, err
}

// Faults gives what is wrong with a stream, and what to do.
func Faults(info *jetstream.StreamInfo, c *Config) (out []string) {
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

// Skew reports that the clock of the server, whose answer came at now, differs from this machine's; "" when it does
// not.
func Skew(info *jetstream.StreamInfo, now time.Time) string {
	if skew := info.TimeStamp.Sub(now); !info.TimeStamp.IsZero() && skew.Abs() > maxSkew {
		return fmt.Sprintf("the clock of the NATS server is %s from this machine's: set both by NTP", skew.Round(time.Second))
	}
	return ""
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

// decisionBytes is about what a decision of a pool takes in the log, with its notices.
const decisionBytes = 3 << 10

// Small says that the log of decisions cannot hold those of so many pools, which decide every so often, for as long as
// it is asked to; "" when it can.
func Small(c *Config, pools int, every time.Duration) string {
	rate := float64(pools) * decisionBytes / every.Seconds()
	need := rate * c.Kept.MaxAge.Seconds()
	if c.Partitioned() || need <= float64(c.Kept.MaxBytes) { // how many pools are in a partition is not known
		return ""
	}
	return fmt.Sprintf("nats.decisions.max_bytes is %d MiB, and %d pools (those that are listed, or max_pools with default_pool) need about %.0f MiB for a nats.decisions.max_age of %.1f days: the oldest decisions go after about %.1f; raise max_bytes, or lower max_age or max_pools",
		c.Kept.MaxBytes>>20, pools, need/(1<<20), c.Kept.MaxAge.Hours()/24, float64(c.Kept.MaxBytes)/rate/86400)
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
