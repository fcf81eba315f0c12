package report

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
)

const (
	maxHold     = 15               // minutes that a decision without a successor is in force; longer silences are gaps
	mergeWithin = 10 * time.Minute // largest gap between saturated minutes, or warning decisions, of one episode or warning
)

// tick is the part of a decision that the report needs.
type tick struct {
	at                      time.Time
	ready, pending, desired int
	reserve, limit          int
	lead                    time.Duration
	warns                   bool // of a saturation
	cause                   string
	resources               []resource
}

type resource struct {
	dimension  string
	perReplica float64 // capacity of one; NaN for prefill replicas of a disaggregated pool
	retries    float64 // load of all attempts over that of calls
}

func newTick(d *alerting.Decision) tick {
	t := tick{
		at: d.Tick, ready: d.Ready, pending: d.Pending, desired: d.Desired, reserve: d.Reserves.Total(), limit: d.Limit,
		lead: d.Lead, cause: d.Cause(),
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
	if t != nil {
		for _, r := range t.resources {
			if r.dimension == dimension {
				return r
			}
		}
	}
	return resource{dimension, math.NaN(), 1}
}

type poolMinute struct {
	tick *tick // the decision in force; nil if there is none
	load
}

// load is a pool's load in one minute, in the resource that needs most replicas.
type load struct {
	replicas    float64 // load over the capacity of one; NaN if unknown
	utilisation float64 // of the ready replicas; NaN if unknown
	resource    string
}

var unknownLoad = load{replicas: math.NaN(), utilisation: math.NaN()}

// needed is the number of replicas; NaN if unknown.
func (l load) needed() float64 { return math.Ceil(l.replicas - 1e-9) }

// setMinutes sets the state of every minute.
func (p *pool) setMinutes() {
	p.minutes = make([]poolMinute, p.end)
	for i := range p.ticks { // a later one replaces an earlier one
		begins := p.index(p.ticks[i].at)
		for m := begins; m < min(begins+maxHold, p.end); m++ {
			p.minutes[m].tick = &p.ticks[i]
		}
	}
	for m := range p.minutes {
		x := &p.minutes[m]
		if x.load = unknownLoad; x.tick != nil {
			x.load = p.load(x.tick, m)
		}
	}
}

func (p *pool) load(t *tick, minute int) load {
	out := unknownLoad
	for _, r := range t.resources {
		if n := p.loadOf(r.dimension, minute) / r.perReplica; r.perReplica > 0 && !math.IsNaN(n) && !(n <= out.replicas) {
			out.replicas, out.resource = n, r.dimension
		}
	}
	if t.ready > 0 {
		out.utilisation = out.replicas / float64(t.ready)
	}
	return out
}

// loadOf is the load of a pool's replicas in a minute: all attempts.
func (p *pool) loadOf(dimension string, minute int) float64 {
	return at(p.demand[series{features.TotalClass, dimension}], minute) * p.loadFactor(dimension, minute)
}

// loadFactor is the load of all attempts over that of calls in a minute.
func (p *pool) loadFactor(dimension string, minute int) float64 {
	if minute < 0 {
		return 1
	}
	return p.minutes[minute].tick.of(dimension).retries
}

// forecastLoad is the load that forecasts headlineMinutes before a minute led to, of its demand by them.
func (p *pool) forecastLoad(dimension string, minute int, demand []float64) float64 {
	return at(demand, minute) * p.loadFactor(dimension, minute-headlineMinutes)
}

func (p *pool) decisions() Decisions {
	out := Decisions{Mode: string(p.mode), DecodeOnly: p.decodeOnly, Provision: p.provision()}
	var before *tick // the action before
	up := false
	for i := range p.ticks {
		t := &p.ticks[i]
		if i == 0 || t.desired == p.ticks[i-1].desired {
			continue
		}
		more := t.desired > p.ticks[i-1].desired
		if !t.at.Before(p.from) {
			out.Actions++
			if before != nil && more != up && t.at.Sub(before.at) <= time.Hour {
				out.TakenBack++
			}
		}
		up, before = more, t
	}
	return out
}
