package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest"
)

const (
	parcelBatches = 32   // most batches in a parcel
	parcelRecords = 512  // a parcel with so many records takes no more batches: some 180 KiB, which are in a cache of the processor yet when they are folded
	keptRecords   = 4096 // a batch that grew beyond is not reused
	parcels       = 8    // that go round between the goroutine that decodes and the one that folds
)

// parcel is a few decoded batches that change hands at once: passing on each message by itself costs about as much as
// decoding it.
type parcel struct {
	batches [parcelBatches]ingest.Batch
	n       int // in use
	records int
}

// next is an empty batch to decode into.
func (p *parcel) next() *ingest.Batch {
	b := &p.batches[p.n]
	p.n++
	return b
}

// full says, once the batch that next gave is filled, whether it was the last.
func (p *parcel) full() bool {
	p.records += recordsOf(&p.batches[p.n-1])
	return p.n == parcelBatches || p.records >= parcelRecords
}

// reset empties the parcel and keeps the memory of batches of common size.
func (p *parcel) reset() {
	for i := range p.batches[:p.n] {
		b := &p.batches[i]
		if cap(b.Requests) > keptRecords || cap(b.Sums) > keptRecords || cap(b.Refused) > keptRecords {
			*b = ingest.Batch{}
		}
		b.Reset()
	}
	p.n, p.records = 0, 0
}

func recordsOf(b *ingest.Batch) int {
	return len(b.Requests) + len(b.Sums) + len(b.Replicas) + len(b.Acks) + len(b.Refused)
}

// packer fills parcels with the messages of one session. What it holds is handed over when there is no more to come for
// now, when the parcel is full, and at the end.
type packer struct {
	*Consumer
	free  <-chan *parcel
	ready chan<- *parcel

	mu        sync.Mutex // messages come on the client's goroutine, the end does not
	delivered uint64
	at        *parcel // nil between parcels
	failed    bool    // no later message may be taken
}

var errEnded = errors.New("the session has ended")

// take decodes a message. After an error the packer takes no more.
func (p *packer) take(ctx context.Context, m jetstream.Msg) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed {
		return errEnded
	}
	err := p.pack(ctx, m)
	p.failed = err != nil
	return err
}

func (p *packer) pack(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	if p.delivered++; meta.Sequence.Consumer != p.delivered {
		return fmt.Errorf("delivery %d came in place of %d", meta.Sequence.Consumer, p.delivered)
	}
	if p.at == nil {
		select {
		case p.at = <-p.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.decode(m, meta, p.at.next())
	if p.at.full() || meta.NumPending == 0 {
		p.send()
	}
	return nil
}

// send hands the parcel over. It never blocks: there are no more parcels than room.
func (p *packer) send() {
	p.ready <- p.at
	p.at = nil
}

// end hands over what is left.
func (p *packer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = true
	if p.at != nil {
		p.send()
	}
}
