package jetstream

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/sleep"
)

// A Relay subscribes to the sources that no stream may take in as they are. It decodes each message and stores its
// records in the telemetry stream, in the native format. So no prompt is written to a disk of Forewarm.
//
// Daemons that share a log share the messages, too. A publisher that waits for an acknowledgement gets it when the
// records are stored. What others publish while no daemon runs is lost. While the stream takes nothing, messages wait
// in memory, up to relayBytes of each source; further ones are dropped and counted.
type Relay struct {
	conn *nats.Conn
	cfg  RelayConfig
	subs atomic.Pointer[[]*nats.Subscription]
}

// RelayConfig is what a [Relay] needs of others.
type RelayConfig struct {
	Sources []Source
	Stream  string // in which Store stores
	Limits  ingest.Limits
	Store   func(context.Context, *ingest.Batch) error // see [StreamWriter.Store]
	Refused func([]ingest.Refusal)                     // receives records that could not be used
	Ignored func(int)                                  // receives how many records carry no demand
	Log     *zap.Logger
}

const (
	relayQueue = "forewarm" // the group of subscribers of which one gets a message
	relayBytes = 64 << 20
)

// NewRelay relays cfg.Sources, which may be none.
func NewRelay(conn *nats.Conn, cfg RelayConfig) *Relay { return &Relay{conn: conn, cfg: cfg} }

// Lost counts the messages that were dropped because too many waited.
func (r *Relay) Lost() (lost uint64) {
	if subs := r.subs.Load(); subs != nil {
		for _, s := range *subs {
			dropped, _ := s.Dropped()
			lost += uint64(max(dropped, 0))
		}
	}
	return lost
}

// Run relays until ctx ends, and for a few seconds what came until then. Store, Refused and Ignored are called on a goroutine for each
// source.
func (r *Relay) Run(ctx context.Context) error {
	var subs []*nats.Subscription
	for _, from := range routesOf(r.cfg.Sources) {
		var batch ingest.Batch
		s, err := r.conn.QueueSubscribe(from.subject, relayQueue, func(m *nats.Msg) { r.take(ctx, from.about, m, &batch) })
		if err == nil {
			err = s.SetPendingLimits(-1, relayBytes)
		}
		if err != nil {
			return fmt.Errorf("nats.sources: %s: %w", from.subject, err)
		}
		subs = append(subs, s)
	}
	r.subs.Store(&subs)
	<-ctx.Done()
	deadline := time.After(apiTimeout)
	for _, s := range subs {
		closed := s.StatusChanged(nats.SubscriptionClosed)
		if s.Drain() != nil {
			continue // the connection is closed
		}
		select {
		case <-closed:
		case <-deadline:
			return nil
		}
	}
	return nil
}

// take decodes a message and stores its records. It tries again until they are stored, or until ctx ends.
func (r *Relay) take(ctx context.Context, about codec.Meta, m *nats.Msg, b *ingest.Batch) {
	b.Reset()
	b.ReceivedAt = time.Now().UTC()
	addHeaders(&about, m.Header)
	codec.Decode(about, m.Data, r.cfg.Limits, b)
	for b.Records() > len(b.Refused) {
		storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
		err := r.cfg.Store(storing, b)
		cancel()
		if err == nil {
			break
		}
		r.cfg.Log.Debug("records of a source are not stored", zap.Error(err))
		if !sleep.For(ctx, retryWait) {
			return
		}
	}
	if len(b.Refused) > 0 {
		r.cfg.Refused(b.Refused)
	}
	r.cfg.Ignored(b.Ignored)
	if m.Reply != "" {
		_ = m.Respond(fmt.Appendf(nil, `{"stream":%q,"seq":1}`, r.cfg.Stream)) // a publisher that misses it sends again
	}
}

// Relayed gives the sources that a [Relay] has to read: those that may hold prompts, and with partitions each source,
// because only its records name their pools. What the telemetry stream of a user, which has these subjects, takes in as
// it is, is read from there.
func (c *Config) Relayed(stream []string) (sources []Source) {
	for _, s := range c.Sources {
		if c.relays(s) && !slices.ContainsFunc(stream, func(have string) bool { return covers(have, s.Subject) }) {
			sources = append(sources, s)
		}
	}
	return sources
}
