package listener

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// outcome counts one request's records.
type outcome struct {
	accepted, refused, ignored int            // unserved ones are among the refused
	first                      ingest.Refusal // Reason "" when nothing was refused
	unserved                   int            // stored, but of pools that the pipeline does not serve
	unknown                    []string       // some of those pools, each once, at most maxNamedPools
}

// accept decodes body and stores what it carries. Refusals are reported when the rest is stored, so that a request
// which is sent again reports them once.
func (l *Listener) accept(ctx context.Context, m codec.Meta, body []byte) (outcome, error) {
	b := batches.Get().(*ingest.Batch)
	defer batches.Put(b)
	b.Reset()
	limits := ingest.DefaultLimits()
	limits.MessageBytes = l.cfg.HTTP.MaxBytes
	m.Kind = codec.KindRequest
	b.ReceivedAt = time.Now().UTC() // the end of requests without a time
	codec.Decode(m, body, limits, b)
	out := outcome{accepted: b.Records() - len(b.Refused), refused: len(b.Refused), ignored: b.Ignored}
	if b.Watermark != nil {
		out.accepted++
	}
	if out.refused > 0 {
		out.first = b.Refused[0]
	}
	l.findUnserved(b, &out)
	if out.accepted+out.unserved > 0 {
		ctx, cancel := context.WithTimeout(ctx, l.timeouts.store)
		defer cancel()
		if err := l.deps.Store(ctx, b); err != nil {
			return outcome{}, err
		}
	}
	if len(b.Refused) > 0 {
		l.deps.Refused(b.Refused) // the pipeline counts those of unknown pools when it reads them
	}
	return out, nil
}

// maxNamedPools is how many unserved pools an answer names.
const maxNamedPools = 5

// findUnserved counts the records that the pipeline will refuse for their pools.
func (l *Listener) findUnserved(b *ingest.Batch, out *outcome) {
	look := func(pool string) {
		if l.deps.Serves(pool) {
			return
		}
		out.unserved++
		if len(out.unknown) < maxNamedPools && !slices.Contains(out.unknown, pool) {
			out.unknown = append(out.unknown, pool)
		}
	}
	for k := range b.Requests {
		look(b.Requests[k].Pool)
	}
	for k := range b.Sums {
		look(b.Sums[k].Pool)
	}
	for k := range b.Replicas {
		look(b.Replicas[k].Pool)
	}
	for k := range b.Acks {
		look(b.Acks[k].Pool)
	}
	if b.Watermark != nil && b.Watermark.Pool != "" {
		look(b.Watermark.Pool)
	}
	out.accepted -= out.unserved
	out.refused += out.unserved
	if out.unserved > 0 && out.first.Reason == "" {
		out.first = ingest.Refusal{Reason: ingest.ReasonUnknownPool, Detail: out.nameUnserved()}
	}
}

// nameUnserved names pools that are not served, and what to do.
func (o *outcome) nameUnserved() string {
	return fmt.Sprintf("%d of pools that are not in the configuration, such as %.64q: add them under pools, set default_pool, or raise max_pools", o.unserved, o.unknown)
}

// unreadable reports whether the message as a whole could not be read.
func (o *outcome) unreadable() bool {
	if o.accepted+o.ignored > 0 || o.refused != 1 {
		return false
	}
	switch o.first.Reason {
	case ingest.ReasonNotJSON, ingest.ReasonNotProtobuf, ingest.ReasonEmpty, ingest.ReasonTruncated, ingest.ReasonTooDeep,
		ingest.ReasonInvalidUTF8, ingest.ReasonTooLarge, ingest.ReasonBadEncoding, ingest.ReasonUnknownFormat:
		return true
	}
	return false
}

// complaint is what was refused, "" for nothing.
func (o *outcome) complaint() string {
	if o.refused == 0 {
		return ""
	}
	complaint := fmt.Sprintf("%d refused, the first as %s: %s", o.refused, o.first.Reason, o.first.Detail)
	if o.unserved > 0 && o.first.Reason != ingest.ReasonUnknownPool {
		complaint += "; " + o.nameUnserved()
	}
	return complaint
}

var batches = sync.Pool{New: func() any { return new(ingest.Batch) }}
