package jetstream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// A Relay reads sources whose messages may hold prompts (see [codec.HoldsPrompts]). It decodes each message and stores
// its records in the telemetry stream, in the native format. Until then the message waits in the intake stream, in the
// server's memory. So no prompt is written to a disk of Forewarm, and a restart of the daemon loses nothing. A full
// intake drops its oldest messages, which are counted as lost.
//
// A message is relayed twice if the daemon dies before it acknowledges it. The pipeline drops records whose ids it has
// seen.
type Relay struct {
	js     jetstream.JetStream
	stream string
	cfg    RelayConfig
	routes []route

	// Owned by the goroutine of Run.
	decoder codec.Decoder
	batch   ingest.Batch
	held    []jetstream.Msg // that batch was decoded from
	last    uint64          // sequence that was delivered last, 0 for none

	lost atomic.Uint64
}

// RelayConfig is what a [Relay] needs of others.
type RelayConfig struct {
	Sources []Source
	Limits  ingest.Limits
	Store   func(context.Context, *ingest.Batch) error // see [StreamWriter.Store]
	Refused func([]ingest.Refusal)                     // receives records that could not be used
	Ignored func(int)                                  // receives how many records carry no demand
	Log     *zap.Logger
}

const (
	relayDurable  = "forewarm"
	relayMessages = 256 // most that are stored at once
	relayRecords  = 4096
	relayAckWait  = 30 * time.Second
)

// NewRelay relays what comes into the stream that [EnsureIntake] made.
func NewRelay(js jetstream.JetStream, stream string, cfg RelayConfig) *Relay {
	return &Relay{js: js, stream: stream, cfg: cfg, routes: routesOf(cfg.Sources)}
}

// Lost counts the messages that gave way to newer ones before they could be relayed.
func (r *Relay) Lost() uint64 { return r.lost.Load() }

// Run relays until ctx ends, and then returns nil.
func (r *Relay) Run(ctx context.Context) error {
	repeat(ctx, r.cfg.Log, r.stream, func() error { return r.session(ctx) })
	return nil
}

// session relays until something breaks.
func (r *Relay) session(ctx context.Context) error {
	consumer, err := r.open(ctx)
	if err != nil {
		return err
	}
	limit := max(fetchBytes, 2*int(r.js.Conn().MaxPayload()))
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(relayMessages, limit), jetstream.PullHeartbeat(fetchHeartbeat))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	r.batch.Reset()
	r.held = r.held[:0]
	for {
		m, err := messages.Next()
		if err == nil {
			err = r.take(ctx, m)
		}
		if err != nil {
			for _, m := range r.held { // so that they come again at once
				_ = m.Nak()
			}
			return err
		}
	}
}

func (r *Relay) open(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return r.js.CreateOrUpdateConsumer(ctx, r.stream, jetstream.ConsumerConfig{
		Durable: relayDurable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: relayAckWait, MaxAckPending: 2 * relayMessages, MemoryStorage: true,
	})
}

// take decodes a message, and stores what is held once no more is waiting, or enough.
func (r *Relay) take(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	if meta.NumDelivered == 1 {
		if r.last != 0 && meta.Sequence.Stream > r.last+1 {
			r.lost.Add(meta.Sequence.Stream - r.last - 1)
			r.cfg.Log.Warn("sources sent more than could be taken in: the oldest messages are lost", zap.Uint64("messages", meta.Sequence.Stream-r.last-1))
		}
		r.last = meta.Sequence.Stream
	}
	about, ok := routeOf(r.routes, m.Subject())
	if !ok { // of a source that is no longer one
		return m.Ack()
	}
	addHeaders(&about, m.Headers())
	if len(r.held) > 0 && about.Source != r.batch.Source { // a batch has one producer
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	r.batch.ReceivedAt = meta.Timestamp.UTC()
	r.decoder.Decode(about, m.Data(), r.cfg.Limits, &r.batch)
	r.held = append(r.held, m)
	if meta.NumPending > 0 && len(r.held) < relayMessages && r.batch.Records() < relayRecords {
		return nil
	}
	return r.flush(ctx)
}

// flush stores what is held, and acknowledges the messages.
func (r *Relay) flush(ctx context.Context) error {
	if r.batch.Records() > len(r.batch.Refused) {
		ctx, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		if err := r.cfg.Store(ctx, &r.batch); err != nil {
			return err
		}
	}
	if len(r.batch.Refused) > 0 {
		r.cfg.Refused(r.batch.Refused)
	}
	r.cfg.Ignored(r.batch.Ignored)
	for _, m := range r.held {
		if err := m.Ack(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
	}
	clear(r.held) // their data may hold prompts
	r.held = r.held[:0]
	r.batch.Reset()
	return nil
}
