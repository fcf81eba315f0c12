package listener

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// Store keeps what was decoded: once it returns nil, all of b is in the telemetry stream. An error means that some of it
// may be missing; storing it again is harmless as far as its records have ids. b is the caller's again when Store
// returns. It is called by many goroutines at once, and must end soon after ctx does.
type Store interface {
	Store(ctx context.Context, b *ingest.Batch) error
}

// intake decodes what the listeners were sent, and stores it.
type intake struct {
	store    Store
	refused  func([]ingest.Refusal)
	fields   *ingest.FieldMap
	timeouts timeouts
}

// outcome is what became of one request's records.
type outcome struct {
	accepted, refused, ignored int
	first                      ingest.Refusal // Reason "" when nothing was refused
}

// accept decodes body and stores what it carries. Refusals are reported when the rest is stored, so that a request which
// is sent again reports them once.
func (i *intake) accept(ctx context.Context, m ingest.Meta, body []byte, maxBytes int) (outcome, error) {
	b := batches.Get().(*ingest.Batch)
	defer recycle(b)
	limits := ingest.DefaultLimits()
	limits.MessageBytes = maxBytes
	m.Kind, m.Fields = ingest.KindRequest, i.fields
	b.ReceivedAt = time.Now().UTC() // the end of what says no time of its own
	ingest.Decode(m, body, limits, b)
	out := outcome{
		accepted: len(b.Requests) + len(b.Sums) + len(b.Replicas) + len(b.Acks),
		refused:  len(b.Refused), ignored: b.Ignored,
	}
	if b.Watermark != nil {
		out.accepted++
	}
	if out.refused > 0 {
		out.first = b.Refused[0]
	}
	if out.accepted > 0 {
		ctx, cancel := context.WithTimeout(ctx, i.timeouts.store)
		defer cancel()
		if err := i.store.Store(ctx, b); err != nil {
			return outcome{}, err
		}
	}
	if out.refused > 0 {
		i.refused(b.Refused)
	}
	return out, nil
}

// unreadable says whether the message as a whole could not be read.
func (o *outcome) unreadable() bool {
	if o.accepted+o.ignored > 0 || o.refused != 1 {
		return false
	}
	switch o.first.Reason {
	case ingest.ReasonNotJSON, ingest.ReasonNotProtobuf, ingest.ReasonTruncated, ingest.ReasonTooDeep, ingest.ReasonInvalidUTF8,
		ingest.ReasonTooLarge, ingest.ReasonBadEncoding, ingest.ReasonUnknownFormat:
		return true
	}
	return false
}

// complaint says what was refused, "" when nothing was.
func (o *outcome) complaint() string {
	if o.refused == 0 {
		return ""
	}
	return fmt.Sprintf("%d refused, the first as %s: %s", o.refused, o.first.Reason, o.first.Detail)
}

// keepRecords bounds the batches that are used again.
const keepRecords = 4096

var batches = sync.Pool{New: func() any { return new(ingest.Batch) }}

func recycle(b *ingest.Batch) {
	if cap(b.Requests) <= keepRecords && cap(b.Sums) <= keepRecords && cap(b.Refused) <= keepRecords {
		b.Reset()
		batches.Put(b)
	}
}
