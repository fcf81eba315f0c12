package jetstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// Consumer delivers the telemetry stream in order: each message once, decoded, through reconnects and restarts of the
// server. It acknowledges nothing: the snapshot has the position. The server forgets its consumer after orphanAge.
type Consumer struct {
	Lost atomic.Uint64 // messages that were gone from the stream before they could be read

	js     jetstream.JetStream
	cfg    Config
	stream string
	log    *zap.Logger

	// Owned by the goroutine that receives.
	next    uint64    // sequence wanted next; 0 while anything will do
	created time.Time // when the stream was
	decoder codec.Decoder
	warned  bool // that the stream keeps prompts

	handled, last atomic.Uint64 // sequences
	opened        atomic.Bool

	injected chan ingest.Batch
}

// NewConsumer makes a consumer of a stream of telemetry. start is the first sequence to read; 0 reads what the stream has.
func NewConsumer(js jetstream.JetStream, cfg Config, stream string, start uint64, log *zap.Logger) *Consumer {
	c := &Consumer{js: js, cfg: cfg, stream: stream, log: log, next: start, injected: make(chan ingest.Batch)}
	c.handled.Store(max(start, 1) - 1)
	return c
}

const (
	sliceCount   = 8   // slices of batches that are filled or wait to be handled
	sliceBatches = 32  // most batches of a slice
	sliceRecords = 512 // a slice with so many records is handed over: about 180 KiB, still in the processor's cache
)

// Run decodes messages on a second goroutine and calls handle on this one, with at most sliceBatches, in stream order. It
// returns nil when ctx ends and the decoded batches are handled, or the error of handle. Batches are valid during the call.
func (c *Consumer) Run(ctx context.Context, handle func([]ingest.Batch) error) error {
	ctx, stop := context.WithCancel(ctx)
	free, ready := make(chan []ingest.Batch, sliceCount), make(chan []ingest.Batch, sliceCount)
	for range sliceCount {
		free <- make([]ingest.Batch, 0, sliceBatches)
	}
	var work sync.WaitGroup
	work.Go(func() { c.receive(ctx, free, ready) })
	defer func() {
		stop()
		for range ready { // until the receiver has ended
		}
		work.Wait()
	}()
	for {
		select {
		case b := <-c.injected:
			if err := handle([]ingest.Batch{b}); err != nil {
				return err
			}
		case batches, ok := <-ready:
			if !ok {
				return nil
			}
			if len(batches) > 0 {
				if err := handle(batches); err != nil {
					return err
				}
				c.handled.Store(batches[len(batches)-1].Sequence)
			}
			free <- batches[:0]
		}
	}
}

// Inject gives Run a watermark that the stream refused, between two messages. It returns false when ctx ends first.
func (c *Consumer) Inject(ctx context.Context, at time.Time) bool {
	select {
	case c.injected <- ingest.Batch{ReceivedAt: time.Now().UTC(), Watermark: &ingest.Watermark{At: at}}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Saw sets how far the stream is now. Fetched messages only have the state of their time.
func (c *Consumer) Saw(s jetstream.StreamState) {
	if c.opened.Load() {
		c.last.Store(s.LastSeq)
	}
}

// Pending is how many messages of the stream are not handled yet, as last known. ok is false before the first look.
func (c *Consumer) Pending() (messages uint64, ok bool) {
	ok = c.opened.Load() // first, because open sets it last
	last, handled := c.last.Load(), c.handled.Load()
	return max(last, handled) - handled, ok
}

// gap counts and logs that the stream continues at got instead of c.next.
func (c *Consumer) gap(got uint64) {
	want := c.next
	if got > want {
		c.Lost.Add(got - want)
	} else {
		c.last.Store(got - 1)
		c.handled.Store(got - 1)
	}
	c.log.Warn("the telemetry stream does not continue where reading stopped: the forecast lacks the missing messages",
		zap.String("stream", c.stream), zap.Uint64("want", want), zap.Uint64("got", got))
}
