package jetstream

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/sleep"
)

// A Relay subscribes to sources whose messages may hold prompts, and stores only the decoded records in the telemetry
// stream. Daemons that share a log share the messages.
//
// A publisher that waits for an acknowledgement gets it when the records are stored. Other messages are lost while no
// daemon runs. In an outage of the stream up to relayBytes of each source wait in memory; the rest is dropped and counted.
type Relay struct {
	Conn    *nats.Conn
	Sources []Source
	Stream  string                                     // in which Store stores; of its daemons one gets a message
	Store   func(context.Context, *ingest.Batch) error // see [StreamWriter.Store]
	Refused func([]ingest.Refusal)                     // receives records that could not be used
	Ignored func(int)                                  // receives how many records carry no demand
	Log     *zap.Logger

	Lost atomic.Uint64 // messages that were dropped: too many waited, or the stream took nothing at the end
}

const (
	relayStores = 64              // messages of a source that are stored at once, because each waits for the stream
	relayBytes  = 64 << 20        // bytes of a source that wait
	relayGrace  = 5 * time.Second // for what waits when the daemon stops
)

// Run relays until ctx ends, and then for relayGrace at most what came until then. Refused, Ignored and Store are called
// by many goroutines at once.
func (r *Relay) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, from := range r.Sources {
		group.Go(func() error {
			if err := r.relay(ctx, from); err != nil {
				return fmt.Errorf("nats.sources: %s: %w", from.Subject, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (r *Relay) relay(ctx context.Context, from Source) error {
	var storing errgroup.Group // its functions have no errors
	storing.SetLimit(relayStores)
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	dropped := 0
	sub, err := r.Conn.QueueSubscribe(from.Subject, r.Stream, func(m *nats.Msg) {
		if all, _ := m.Sub.Dropped(); all > dropped {
			r.Lost.Add(uint64(all - dropped))
			dropped = all
			r.Log.Warn("a source sends more than can be stored: messages are dropped",
				zap.String("subject", from.Subject), zap.Int("dropped", all))
		}
		storing.Go(func() error {
			r.store(lasting, from.about(), m)
			return nil
		})
	})
	if err != nil {
		return err
	}
	closed := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(closed) })
	if err := sub.SetPendingLimits(-1, relayBytes); err != nil {
		return err
	}
	<-ctx.Done()
	defer time.AfterFunc(relayGrace, stop).Stop()
	if sub.Drain() == nil { // the connection is there
		<-closed
	}
	return storing.Wait()
}

// store stores the records of a message and acknowledges it. It tries again until they are stored, or until ctx ends.
func (r *Relay) store(ctx context.Context, about codec.Meta, m *nats.Msg) {
	addHeaders(&about, m.Header)
	b := ingest.Batch{ReceivedAt: time.Now().UTC()}
	codec.Decode(about, m.Data, ingest.DefaultLimits(), &b)
	for b.Records() > len(b.Refused) {
		err := r.Store(ctx, &b)
		if err == nil {
			break
		}
		r.Log.Debug("records of a source are not stored", zap.Error(err))
		if !sleep.For(ctx, retryWait) {
			r.Lost.Add(1)
			return
		}
	}
	if len(b.Refused) > 0 {
		r.Refused(b.Refused)
	}
	r.Ignored(b.Ignored)
	if m.Reply != "" {
		_ = m.Respond(fmt.Appendf(nil, `{"stream":%q,"seq":1}`, r.Stream)) // as JetStream does; a publisher that misses it sends again
	}
}

// Relayed gives the sources for a [Relay]: those that may hold prompts, unless a user's stream has their subjects.
func (c *Config) Relayed(stream []string) (sources []Source) {
	for _, s := range c.Sources {
		taken := func(have string) bool { return server.SubjectMatchesFilter(s.Subject, have) }
		if s.isRelayed() && !slices.ContainsFunc(stream, taken) {
			sources = append(sources, s)
		}
	}
	return sources
}
