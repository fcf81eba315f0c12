package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

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
	ack  []byte        // answer to a publisher that waits, in the form of JetStream's
	lost atomic.Uint64 // messages
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
	relayQueue    = "forewarm" // the group of subscribers of which one gets a message
	relayMessages = 256        // most that are stored at once
	relayRecords  = 4096       // from so many on they are stored
	relayBytes    = 64 << 20   // most of a source that wait
)

// NewRelay relays cfg.Sources, which may be none.
func NewRelay(conn *nats.Conn, cfg RelayConfig) *Relay {
	return &Relay{conn: conn, cfg: cfg, ack: fmt.Appendf(nil, `{"stream":%q,"seq":1}`, cfg.Stream)}
}

// Lost counts the messages that were dropped because too many waited.
func (r *Relay) Lost() uint64 { return r.lost.Load() }

// Run relays until ctx ends, and what came until then. Refused, Ignored and Store are called by a goroutine for each
// source.
func (r *Relay) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, from := range routesOf(r.cfg.Sources) {
		group.Go(func() error {
			if err := r.relay(ctx, from); err != nil {
				return fmt.Errorf("nats.sources: %s: %w", from.subject, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (r *Relay) relay(ctx context.Context, from route) error {
	sub, err := r.conn.QueueSubscribeSync(from.subject, relayQueue)
	if err != nil {
		return err
	}
	if err := sub.SetPendingLimits(-1, relayBytes); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = sub.Drain() })() // NextMsg fails when nothing is left
	var (
		decoder codec.Decoder
		batch   ingest.Batch
		held    []*nats.Msg // that batch was decoded from
		dropped int
	)
	for {
		m, err := sub.NextMsgWithContext(context.WithoutCancel(ctx))
		switch {
		case errors.Is(err, nats.ErrSlowConsumer):
			all, _ := sub.Dropped()
			r.lost.Add(uint64(all - dropped))
			dropped = all
			r.cfg.Log.Warn("a source sends more than can be stored: messages are dropped", zap.String("subject", from.subject), zap.Int("dropped", all))
			continue
		case err != nil && ctx.Err() == nil:
			return err
		case err != nil:
			return nil
		}
		about := from.about
		addHeaders(&about, m.Header)
		if len(held) > 0 && about.Source != batch.Source { // a batch has one producer
			if r.flush(ctx, &batch, held) != nil {
				return nil
			}
			held = held[:0]
		}
		batch.ReceivedAt = time.Now().UTC()
		decoder.Decode(about, m.Data, r.cfg.Limits, &batch)
		held = append(held, m)
		if waiting, _, _ := sub.Pending(); waiting == 0 || len(held) == relayMessages || batch.Records() >= relayRecords {
			if r.flush(ctx, &batch, held) != nil {
				return nil
			}
			held = held[:0]
		}
	}
}

// flush stores a batch, and acknowledges and forgets its messages. It tries again until the batch is stored, or until
// ctx ends.
func (r *Relay) flush(ctx context.Context, b *ingest.Batch, held []*nats.Msg) error {
	defer b.Reset()
	for b.Records() > len(b.Refused) {
		storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
		err := r.cfg.Store(storing, b)
		cancel()
		if err == nil {
			break
		}
		r.cfg.Log.Debug("records of a source are not stored", zap.Error(err))
		if !sleep.For(ctx, retryWait) {
			return ctx.Err()
		}
	}
	if len(b.Refused) > 0 {
		r.cfg.Refused(b.Refused)
	}
	r.cfg.Ignored(b.Ignored)
	for _, m := range held {
		if m.Reply != "" {
			_ = m.Respond(r.ack) // a publisher that misses it sends again
		}
	}
	clear(held) // their data may hold prompts
	return nil
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
