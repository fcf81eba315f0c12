package report

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
)

const (
	maxHold     = 15 // minutes that a decision without a successor is in force; longer silences are gaps
	mergeWithin = 10 // minutes, the largest gap between saturated minutes, or warning decisions, of one episode or warning
)

// tick is the part of a decision that the report needs.
type tick struct {
	at                      time.Time
	ready, pending, desired int
	reserve, limit          int
	lead                    time.Duration
	assumed                 bool // ready and pending are assumed: no replica reports
	warns                   bool // of a saturation
	cause                   string
	resources               []resource
}

type resource struct {
	dimension  string
	perReplica float64 // capacity of one; NaN for prefill replicas of a disaggregated pool
	retries    float64 // load of all attempts over that of calls; 1 without a decision
}

func newTick(d *alerting.Decision) tick {
	t := tick{
		at: d.Tick, ready: d.Ready, pending: d.Pending, desired: d.Desired, reserve: d.Reserves.Total(), limit: d.Limit,
		lead: d.Lead, cause: d.Cause(), assumed: d.SupplyAssumed,
		warns: d.Ahead() >= d.WarnFrom && !d.Stale,
	}
	for _, r := range d.Resources {
		t.resources = append(t.resources, resource{r.Dimension, r.PerReplica, r.Retries.LoadFactor()})
	}
	for _, r := range d.Prompts {
		t.resources = append(t.resources, resource{r.Dimension, math.NaN(), r.Retries.LoadFactor()})
	}
	return t
}

func (t *tick) of(dimension string) resource {
	for _, r := range t.resources {
		if r.dimension == dimension {
			return r
		}
	}
	return resource{dimension, math.NaN(), 1}
}

// noDecision is in force in a minute without a decision: no capacity is known.
var noDecision tick

type poolMinute struct {
	tick *tick // the decision in force
	load
}

// load is a pool's load in one minute, in the resource that needs most replicas.
type load struct {
	replicas    float64 // load over the capacity of one; NaN if unknown
	utilisation float64 // of the ready replicas; +Inf for a load without any, NaN if unknown
	resource    string
}

func (p *pool) setMinutes() {
	p.minutes = slices.Repeat([]poolMinute{{tick: &noDecision}}, p.end)
	for i := range p.ticks { // a later one replaces an earlier one
		begins := p.index(p.ticks[i].at)
		for m := begins; m < min(begins+maxHold, p.end); m++ {
			p.minutes[m].tick = &p.ticks[i]
		}
	}
	for m := range p.minutes {
		p.minutes[m].load = p.load(p.minutes[m].tick, m)
	}
}

// load is that of a minute, with the capacities and ready replicas of a decision.
func (p *pool) load(t *tick, minute int) load {
	out := load{replicas: math.NaN()}
	for _, r := range t.resources {
		n := p.loadOf(r.dimension, minute) / r.perReplica
		if r.perReplica > 0 && !math.IsNaN(n) && !(n <= out.replicas) {
			out.replicas, out.resource = n, r.dimension
		}
	}
	switch {
	case t.ready == 0 && t.assumed:
		out.utilisation = math.NaN()
	case out.replicas == 0:
		out.utilisation = 0 // also without a ready replica
	default:
		out.utilisation = out.replicas / float64(t.ready)
	}
	return out
}

// loadOf is the load of a pool's replicas in a minute: all attempts.
func (p *pool) loadOf(dimension string, minute int) float64 {
	return at(p.demand[series{features.TotalClass, dimension}], minute) * p.minutes[minute].tick.of(dimension).retries
}

// forecastLoad is the load of a minute as it was forecast headlineMinutes before, with the retries of that time.
func (p *pool) forecastLoad(dimension string, level, minute int) float64 {
	retries := p.minutes[minute-headlineMinutes].tick.of(dimension).retries
	return at(p.forecasts[quantile{dimension, level}], minute) * retries
}

func (p *pool) decisions() Decisions {
	out := Decisions{Mode: string(p.mode), DecodeOnly: p.decodeOnly, Provision: p.provision()}
	var before time.Time // of the action before
	var added int        // by it; negative if it took replicas away
	for i := 1; i < len(p.ticks); i++ {
		t := &p.ticks[i]
		more := t.desired - p.ticks[i-1].desired
		if more == 0 {
			continue
		}
		if !t.at.Before(p.from) {
			out.Actions++
			if more*added < 0 && t.at.Sub(before) <= time.Hour {
				out.TakenBack++
			}
		}
		before, added = t.at, more
	}
	return out
}
