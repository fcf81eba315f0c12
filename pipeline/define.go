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

// unwantedFor is how long a pool must have no telemetry before it is forgotten, once its definition was taken back.
const unwantedFor = time.Hour

// definition is what the log says of a pool that the configuration does not list.
type definition struct {
	Keys     []byte    `cbor:"1,keyasint"`
	Heard    time.Time `cbor:"2,keyasint"` // newest telemetry or definition of the pool; to the minute
	Unwanted bool      `cbor:"3,keyasint,omitempty"`
}

// define takes up a pool's definition, or refuses it and says why.
func (p *Pipeline) define(b *ingest.Batch, x *ingest.Definition) {
	if err := p.redefine(x.Pool, x.Keys); err != nil {
		p.counters.Refused[ingest.ReasonBadDefinition]++
		b.Refused = append(b.Refused, ingest.Refusal{Reason: ingest.ReasonBadDefinition, Detail: err.Error(), Producer: b.Source, Pool: x.Pool, Record: x.Keys})
		return
	}
	p.count("")
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
		if served && e.defined != nil {
			e.defined.Unwanted = true
		}
		return nil
	case served && e.defined != nil && bytes.Equal(e.defined.Keys, keys):
		e.defined.Heard, e.defined.Unwanted = p.time.Last, false
		return nil
	case !served && len(p.pools) >= p.cfg.MaxPools:
		return fmt.Errorf("pool %q is one too many: max_pools is %d", name, p.cfg.MaxPools)
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
	learned := e.warmup.State()
	e.pool, e.warmup = c, c.Warmup
	e.warmup.Restore(learned)
	e.defined = &definition{Keys: keys, Heard: p.time.Last}
	p.changes++
	p.aggregator.SetService(name, serviceOf(&c))
	p.forecaster.SetZone(name, c.Zone)
	return nil
}

// hear notes telemetry of the pool.
func (d *definition) hear(at time.Time) {
	if d != nil && at.After(d.Heard) {
		d.Heard = at.UTC().Truncate(features.Minute)
	}
}

// forgetSilent begins a tick: it forgets the pools of which neither telemetry nor a definition has come for Features.ClassTTL, and
// those that are unwanted and silent.
func (p *Pipeline) forgetSilent(t time.Time) {
	p.pools = slices.DeleteFunc(p.pools, func(e *poolEntry) bool {
		if e.defined == nil {
			return false
		}
		if e.defined.Heard.IsZero() { // it was defined before the first tick
			e.defined.Heard = t
		}
		silent := t.Sub(e.defined.Heard)
		if silent < unwantedFor || !e.defined.Unwanted && silent < p.cfg.Features.ClassTTL {
			return false
		}
		p.changes++
		p.aggregator.Forget(e.pool.Name)
		p.forecaster.Forget(e.pool.Name)
		p.producers.Forget(e.pool.Name)
		return true
	})
}
