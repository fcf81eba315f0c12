package jetstream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
)

// ConsumerConfig says what a [Consumer] reads.
type ConsumerConfig struct {
	Stream string
	Prefix string
	// Sources are the subjects outside Prefix that carry telemetry.
	Sources []Source
	Fields  *ingest.FieldMap // names of users' own in foreign formats
	// Start is the sequence wanted first: the one after those that the state includes. 0 takes what the stream has.
	Start  uint64
	Limits ingest.Limits
	Log    *zap.Logger
	// OnGap, when set, is told of sequences that the stream has no more (got > want: retention or a purge removed
	// want … got-1) or has again (got < want: the stream was made anew or lost its end; it is read from got on, and
	// want-got sequences will occur twice). It is called on a goroutine of Run.
	OnGap func(want, got uint64)
	// Missing, when set, makes the stream again after somebody deleted it. It is called on a goroutine of Run.
	Missing func(ctx context.Context) error
}

// Consumer delivers the telemetry stream in order: each message once, decoded, through reconnects and restarts of the
// server. It acknowledges nothing, for the position is the reader's own; it leaves no trace in the stream.
type Consumer struct {
	js     jetstream.JetStream
	cfg    ConsumerConfig
	routes []route // of cfg.Sources

	// Owned by the goroutine that receives.
	next    uint64 // sequence wanted next; 0 while anything will do
	decoder ingest.Decoder
	warned  bool // that the stream keeps prompts

	handled, last, lost atomic.Uint64 // sequences, and a count
	opened              atomic.Bool
}

// NewConsumer makes a consumer; Run starts it.
func NewConsumer(js jetstream.JetStream, cfg ConsumerConfig) *Consumer {
	c := &Consumer{js: js, cfg: cfg, routes: routesOf(cfg.Sources), next: cfg.Start}
	c.handled.Store(max(cfg.Start, 1) - 1)
	return c
}

// watchEvery is how often the end of the stream is looked up.
const watchEvery = time.Second

// Run decodes messages on a goroutine of its own and hands them to handle on this one, in stream order and as many at a
// time as are there, at most 32, until ctx ends (it returns nil, after batches that were decoded already are handled) or
// handle fails (it returns that error). There is a batch for each message, valid until handle returns. Run can be called
// once.
func (c *Consumer) Run(ctx context.Context, handle func([]ingest.Batch) error) error {
	ctx, stop := context.WithCancel(ctx)
	free, ready := make(chan *parcel, parcels), make(chan *parcel, parcels)
	for range parcels {
		free <- new(parcel)
	}
	go func() {
		defer close(ready)
		c.receive(ctx, free, ready)
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(ctx)
	}()
	defer func() {
		stop()
		for range ready { // until the receiver has ended
		}
		<-watched
	}()
	for p := range ready {
		if p.n > 0 {
			batches := p.batches[:p.n]
			if err := handle(batches); err != nil {
				return err
			}
			c.handled.Store(batches[len(batches)-1].Sequence)
		}
		p.reset()
		free <- p
	}
	return nil
}

// watch asks the stream each watchEvery how far it has come: what was fetched knows only how far it had come then.
func (c *Consumer) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.look(ctx)
		}
	}
}

func (c *Consumer) look(ctx context.Context) {
	if !c.opened.Load() || !c.js.Conn().IsConnected() {
		return // the receiver says what is wrong
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if stream, err := c.js.Stream(ctx, c.cfg.Stream); err == nil {
		c.last.Store(stream.CachedInfo().State.LastSeq)
	}
}

// Pending is how many messages of the stream are not handled yet, fetched and decoded ones included: at most watchEvery
// old while connected, and as last known otherwise. ok is false before the stream was seen first.
func (c *Consumer) Pending() (messages uint64, ok bool) {
	last, handled := c.last.Load(), c.handled.Load()
	return max(last, handled) - handled, c.opened.Load()
}

// Lost counts the messages that were gone from the stream before they could be read.
func (c *Consumer) Lost() uint64 { return c.lost.Load() }

// gap books that the stream goes on at got instead of c.next.
func (c *Consumer) gap(got uint64) {
	want := c.next
	if got > want {
		c.lost.Add(got - want)
	} else {
		c.last.Store(got - 1)
		c.handled.Store(got - 1)
	}
	c.cfg.Log.Warn("the telemetry stream does not go on where it was left: what is missing is lost to the forecast", zap.String("stream", c.cfg.Stream), zap.Uint64("want", want), zap.Uint64("got", got))
	if c.cfg.OnGap != nil {
		c.cfg.OnGap(want, got)
	}
}
