package jetstream

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/sleep"
)

// ConsumerConfig says what a [Consumer] reads.
type ConsumerConfig struct {
	Stream string
	Prefix string
	// Sources are the subjects outside Prefix that carry telemetry.
	Sources []Source
	// Start is the sequence wanted first: the one after those that the state includes. 0 takes what the stream has.
	Start  uint64
	Limits ingest.Limits
	Log    *zap.Logger
	// Missing, when set, makes the stream again after somebody deleted it. It is called on a goroutine of Run.
	Missing func(ctx context.Context) error
	// Inspect, when set, gives the faults of the stream, from the server's answer each second.
	Inspect func(*jetstream.StreamInfo) []string
}

// Consumer delivers the telemetry stream in order: each message once, decoded, through reconnects and restarts of the
// server. It acknowledges nothing: the snapshot has the position. The server forgets its consumer after orphanAge.
type Consumer struct {
	js  jetstream.JetStream
	cfg ConsumerConfig

	// Owned by the goroutine that receives.
	next    uint64 // sequence wanted next; 0 while anything will do
	decoder codec.Decoder
	warned  bool // that the stream keeps prompts

	handled, last, lost atomic.Uint64 // sequences, and a count
	opened              atomic.Bool
	fault               atomic.Pointer[string]
	messages            uint64 // of the stream, at the last look; owned by the goroutine that looks

	injected chan ingest.Batch
}

// NewConsumer makes a consumer; Run starts it.
func NewConsumer(js jetstream.JetStream, cfg ConsumerConfig) *Consumer {
	c := &Consumer{js: js, cfg: cfg, next: cfg.Start, injected: make(chan ingest.Batch)}
	c.handled.Store(max(cfg.Start, 1) - 1)
	return c
}

const (
	watchEvery   = time.Second // how often the state of the stream is looked up
	sliceCount   = 8           // slices of batches that are filled or wait to be handled
	sliceBatches = 32          // most batches of a slice
	sliceRecords = 512         // a slice with so many records is handed over: about 180 KiB, still in the processor's cache
)

// Run decodes messages on a goroutine of its own and hands them to handle on this one, in stream order, sliceBatches at
// most. It returns nil when ctx ends, after the decoded batches are handled, or the error of handle. There is a batch
// for each message, valid until handle returns. Run can be called once.
func (c *Consumer) Run(ctx context.Context, handle func([]ingest.Batch) error) error {
	ctx, stop := context.WithCancel(ctx)
	free, ready := make(chan []ingest.Batch, sliceCount), make(chan []ingest.Batch, sliceCount)
	for range sliceCount {
		free <- make([]ingest.Batch, 0, sliceBatches)
	}
	var work sync.WaitGroup
	work.Go(func() { c.receive(ctx, free, ready) })
	work.Go(func() {
		for sleep.For(ctx, watchEvery) {
			c.look(ctx)
		}
	})
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

// look reads the state of the stream. Fetched messages only have the state of their time.
func (c *Consumer) look(ctx context.Context) {
	if !c.js.Conn().IsConnected() {
		return // Fault reports that
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	stream, err := c.js.Stream(ctx, c.cfg.Stream)
	fault := ""
	switch {
	case err != nil:
		fault = fmt.Sprintf("stream %s: %v", c.cfg.Stream, Denied(c.js.Conn(), err))
	case c.cfg.Inspect != nil:
		fault = strings.Join(c.cfg.Inspect(stream.CachedInfo()), "; ")
	}
	if err == nil && c.opened.Load() {
		state := stream.CachedInfo().State
		c.last.Store(state.LastSeq)
		if state.Msgs == 0 && c.messages > 0 {
			c.cfg.Log.Error("the telemetry stream was purged: what was not read yet is lost, and a restart has nothing to replay. See who may purge streams", zap.String("stream", c.cfg.Stream))
		}
		c.messages = state.Msgs
	}
	if before := c.Fault(); fault != before && fault != "" {
		c.cfg.Log.Warn("something is wrong with the telemetry stream", zap.String("fault", fault))
	} else if fault != before {
		c.cfg.Log.Info("the telemetry stream is as it should be", zap.String("was", before))
	}
	c.fault.Store(&fault)
}

// Fault is what is wrong with the stream, at most watchEvery ago; "" for nothing.
func (c *Consumer) Fault() string {
	if !c.js.Conn().IsConnected() {
		return "it cannot be seen without a connection"
	}
	if f := c.fault.Load(); f != nil {
		return *f
	}
	return ""
}

// Pending is how many messages of the stream are not handled yet, fetched and decoded ones included: at most watchEvery
// old while connected, and as last known otherwise. ok is false before the stream was seen first.
func (c *Consumer) Pending() (messages uint64, ok bool) {
	last, handled := c.last.Load(), c.handled.Load()
	return max(last, handled) - handled, c.opened.Load()
}

// Lost counts the messages that were gone from the stream before they could be read.
func (c *Consumer) Lost() uint64 { return c.lost.Load() }

// gap counts and logs that the stream continues at got instead of c.next.
func (c *Consumer) gap(got uint64) {
	want := c.next
	if got > want {
		c.lost.Add(got - want)
	} else {
		c.last.Store(got - 1)
		c.handled.Store(got - 1)
	}
	c.cfg.Log.Warn("the telemetry stream does not continue where reading stopped: the forecast lacks the missing messages", zap.String("stream", c.cfg.Stream), zap.Uint64("want", want), zap.Uint64("got", got))
}
