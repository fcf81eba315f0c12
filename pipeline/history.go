package pipeline

import (
	"errors"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// applyHistory teaches the models demand from before telemetry. It does not move time. It is refused if the models
// already know that time: histories come first.
func (p *Pipeline) applyHistory(b *ingest.Batch, h *ingest.History) {
	reason := p.backfill(h)
	if reason == nil {
		p.count("")
		return
	}
	p.counters.Refused[ingest.ReasonNoHistory]++
	b.Refused = append(b.Refused, ingest.Refusal{Reason: ingest.ReasonNoHistory, Detail: reason.Error()})
}

// KVTokens is the KV cache of one replica of a pool, in tokens; 0 if not configured.
func (p *Pipeline) KVTokens(pool string) float64 {
	if e := p.entry(pool); e != nil {
		return e.pool.KVTokens
	}
	return 0
}

func (p *Pipeline) backfill(h *ingest.History) error {
	if p.entry(h.Pool) == nil {
		return errors.New(p.explain(ingest.ReasonUnknownPool, h.Pool, h.Start))
	}
	return p.forecaster.Backfill(features.Key{Pool: h.Pool, Class: h.Class}, h.Dimension, h.Start, h.Values)
}
