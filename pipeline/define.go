package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// withdrawnAfter is how long a pool must be without telemetry before it is deleted, once its definition was withdrawn.
const withdrawnAfter = time.Hour

// definition is the definition of a pool from the log.
type definition struct {
	Keys      []byte    `cbor:"1,keyasint"`
	LastSeen  time.Time `cbor:"2,keyasint"` // newest telemetry or definition of the pool; to the minute
	Withdrawn bool      `cbor:"3,keyasint,omitempty"`
}

// define applies a pool's definition, or refuses it with the reason.
func (p *Pipeline) define(b *ingest.Batch, x *ingest.Definition) {
	if err := p.redefine(x.Pool, x.Keys); err != nil {
		p.refuse(b, ingest.ReasonBadDefinition, x.Pool, "", err.Error())
		return
	}
	p.state.Counters.Records++
}

func (p *Pipeline) redefine(name string, keys []byte) error {
	i, served := p.findPool(name)
	var e *poolEntry
	if served {
		e = p.pools[i]
	}
	switch {
	case p.foreign(name):
		return errors.New(p.explain(ingest.ReasonUnknownPool, name, time.Time{}))
	case slices.ContainsFunc(p.cfg.Pools, func(c capacity.Pool) bool { return c.Name == name }):
		return fmt.Errorf("pool %q is in the configuration, which wins: remove it from pools, or its definition", name)
	case len(keys) == 0:
		if served && e.Defined != nil {
			e.Defined.Withdrawn = true
		}
		return nil
	case served && e.Defined != nil && bytes.Equal(e.Defined.Keys, keys):
		e.Defined.LastSeen, e.Defined.Withdrawn = p.state.Time.Last, false
		return nil
	case !served && len(p.pools) >= p.cfg.MaxPools:
		return fmt.Errorf("pool %q is one too many: max_pools is %d; raise it", name, p.cfg.MaxPools)
	case p.cfg.Define == nil:
		return fmt.Errorf("pool %q cannot be defined here", name)
	}
	c, err := p.cfg.Define(name, keys)
	if err != nil {
		return err
	}
	if !served {
		e = p.addPool(c)
	}
	e.pool, e.Warmup = c, c.Warmup.With(e.Warmup)
	p.changes++
	e.Defined = &definition{Keys: keys, LastSeen: p.state.Time.Last}
	p.aggregator.SetService(name, serviceOf(&c))
	p.forecaster.SetZone(name, c.Zone)
	return nil
}

// forgetSilent deletes defined pools without telemetry and without a definition for Features.ClassTTL. It also deletes
// pools whose definition was withdrawn, once they are silent.
func (p *Pipeline) forgetSilent(t time.Time) {
	p.pools = slices.DeleteFunc(p.pools, func(e *poolEntry) bool {
		if e.Defined == nil {
			return false
		}
		if e.Defined.LastSeen.IsZero() { // it was defined before the first tick
			e.Defined.LastSeen = t
		}
		silent := t.Sub(e.Defined.LastSeen)
		if silent < withdrawnAfter || !e.Defined.Withdrawn && silent < p.cfg.Features.ClassTTL {
			return false
		}
		p.changes++
		p.aggregator.Forget(e.Name)
		p.forecaster.Forget(e.Name)
		p.state.Producers.Forget(e.Name)
		return true
	})
}

// history teaches the models demand from before telemetry. It does not move time. It is refused if the models already
// know that time: histories come first.
func (p *Pipeline) history(b *ingest.Batch, h *ingest.History) {
	if p.entry(h.Pool) == nil {
		p.refuse(b, ingest.ReasonNoHistory, h.Pool, "", p.explain(ingest.ReasonUnknownPool, h.Pool, h.Start))
	} else if err := p.forecaster.Backfill(features.Key{Pool: h.Pool, Class: h.Class}, h.Dimension, h.Start, h.Values); err != nil {
		p.refuse(b, ingest.ReasonNoHistory, h.Pool, "", err.Error())
	} else {
		p.state.Counters.Records++
	}
}
