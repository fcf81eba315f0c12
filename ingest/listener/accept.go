package listener

import (
	"context"
	"fmt"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

type outcome struct {
	accepted, refused, ignored int
	unserved                   int            // records that are stored, and count as refused: the pipeline does not serve their pools
	first                      ingest.Refusal // the one to show; Reason "" if nothing was refused
}

// accept decodes body and stores what it carries. Refusals are reported when the rest is stored, so that a request
// which is sent again reports them once.
func (l *Listener) accept(ctx context.Context, m codec.Meta, body []byte) (outcome, error) {
	limits := ingest.DefaultLimits()
	limits.MessageBytes = l.cfg.HTTP.MaxBytes
	m.Kind = codec.KindRequest
	b := &ingest.Batch{ReceivedAt: time.Now().UTC()} // the end of requests without a time
	codec.Decode(m, body, limits, b)
	for i := range b.Histories {
		b.Refused = append(b.Refused, ingest.Refusal{
			Reason: ingest.ReasonNoHistory, Detail: "histories are read at the first start: set backfill",
			Producer: b.Source, Pool: b.Histories[i].Pool,
		})
	}
	b.Histories = nil
	out := outcome{refused: len(b.Refused), ignored: b.Ignored}
	if out.refused > 0 {
		out.first = b.Refused[0]
	}
	l.countRecords(b, &out)
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

// countRecords counts accepted records, and those that the pipeline will refuse for their pools.
func (l *Listener) countRecords(b *ingest.Batch, out *outcome) {
	count := func(pool string) {
		if l.deps.Serves(pool) {
			out.accepted++
			return
		}
		out.refused++
		if out.unserved++; out.unserved == 1 {
			detail := fmt.Sprintf("pool %.64q is not in the configuration: add it under pools, or set default_pool", pool)
			out.first = ingest.Refusal{Reason: ingest.ReasonUnknownPool, Detail: detail}
		}
	}
	for k := range b.Requests {
		count(b.Requests[k].Pool)
	}
	for k := range b.Sums {
		count(b.Sums[k].Pool)
	}
	for k := range b.Replicas {
		count(b.Replicas[k].Pool)
	}
	for k := range b.Acks {
		count(b.Acks[k].Pool)
	}
	if b.Watermark != nil { // of a pool, as on each subject of requests
		count(b.Watermark.Pool)
	}
}

func (o *outcome) unusable() bool { return o.accepted+o.ignored == 0 && o.refused > 0 }

// complaint is what was refused, "" for nothing.
func (o *outcome) complaint() string {
	if o.refused == 0 {
		return ""
	}
	return fmt.Sprintf("%d refused, one as %s: %s", o.refused, o.first.Reason, o.first.Detail)
}
