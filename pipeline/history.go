package pipeline

import (
	"errors"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// history lets models learn from what demand was before telemetry began. It moves no time, and is refused where the models
// know that time already: histories come first, or not at all.
func (p *Pipeline) history(b *ingest.Batch, h *ingest.History) {
	reason := p.teach(h)
	if reason == nil {
		p.counted("")
		return
	}
	unseen := *h
	unseen.Values = nil // are of no use to people
	p.counters.Refused[ingest.ReasonNoHistory]++
	b.Refused = append(b.Refused, ingest.Refusal{Reason: ingest.ReasonNoHistory, Detail: reason.Error(), Record: codec.AppendHistory(nil, &unseen)})
}

// KVTokens is what the KV cache of one replica of a pool holds, in tokens; 0 where that is not configured.
func (p *Pipeline) KVTokens(pool string) float64 {
	if e := p.entry(pool); e != nil {
		return e.pool.KVTokens
	}
	return 0
}

func (p *Pipeline) teach(h *ingest.History) error {
	switch {
	case p.entry(h.Pool) == nil:
		return errors.New(p.explain(ingest.ReasonUnknownPool, h.Pool, h.Start))
	}
	return p.forecaster.Backfill(features.Key{Pool: h.Pool, Class: h.Class}, h.Dimension, h.Start, h.Values)
}
