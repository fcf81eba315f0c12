package alerting

import (
	"fmt"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// Retried is the load that retries add to a resource. Demand and needed replicas elsewhere include all attempts.
type Retried struct {
	Attempts float64 `json:"attempts_per_call" cbor:"1,keyasint"`
	// Load of all attempts divided by the load without retries, in the last ten minutes.
	Factor       float64 `json:"load_ratio" cbor:"2,keyasint"`
	Demand       float64 `json:"demand_without" cbor:"3,keyasint"`          // now, without retries
	NeedReplicas int     `json:"needed_replicas_without" cbor:"4,keyasint"` // for the forecast, without retries
	// Replicas that retries would need beyond the bound on them.
	Refused int    `json:"replicas_refused,omitempty" cbor:"5,keyasint,omitempty"`
	Why     string `json:"why_refused,omitempty" cbor:"6,keyasint,omitempty"`
}

const (
	maxRetryFactor = 3   // replicas requested with retries, in multiples of those without
	idleUse        = 0.5 // share of the dangerous KV use below which engines without a queue have room
	minRetryFactor = 1.1 // load with retries, in multiples of that without, from which texts mention them
	stormEndShare  = 0.1 // share of retries below which the alert ends; below forecaster.StormShare it fades
)

// retried sizes a resource for all attempts, and bounds the replicas for retries: more replicas do not help calls that
// fail for other reasons than load. The bound is maxRetryFactor times the need without retries, or the current replicas
// while their engines report that they have room.
func (p *draft) retried(r *resource) {
	factor, side := p.in.Forecast.Factor(r.evidence.Dimension), p.sideOf(r.evidence.Dimension)
	if !(factor > 1) {
		return
	}
	e := &r.evidence
	withoutRetries := func(demand float64) int { return ReplicasFor(demand/factor, e.PerReplica) }
	out := &Retried{
		Attempts: round(p.in.Forecast.Factor(features.DimRequests)), Factor: factor,
		Demand: e.Demand / factor, NeedReplicas: withoutRetries(e.NeedQuantile),
	}
	bound := func(all, calls int) int {
		most := maxRetryFactor * max(calls, 1)
		if all > most {
			out.Why = fmt.Sprintf("with retries, at most %d times the replicas that calls need are asked for", maxRetryFactor)
		}
		enough := max(side.current, calls)
		if side.role == capacity.AnyRole && p.hasRoom() && min(all, most) > enough {
			most = enough
			out.Why = "the engines have room, so requests fail for other reasons than load"
		}
		return min(all, most)
	}
	r.now = bound(r.now, withoutRetries(e.Demand))
	r.keep = min(r.keep, max(maxRetryFactor*max(out.NeedReplicas, 1), r.now))
	all := e.NeedReplicas
	e.NeedReplicas = bound(all, out.NeedReplicas)
	if out.Refused = all - e.NeedReplicas; out.Refused == 0 {
		out.Why = ""
	}
	e.Retries = out
}

// hasRoom reports whether the engines that report have room: less than one request waits per replica, the queue does not
// grow, nothing was preempted, and the fullest cache is below idleUse of danger.
func (p *draft) hasRoom() bool {
	m := &p.in.Minute
	s := &m.State
	return s.Observed && !m.QueueGrowing && s.KVUsedMax < idleUse*p.danger() && s.WaitingPerReady < 1 && s.Preemptions == 0
}

// byRetries is a sentence about the load that retries add to the binding resource; "" if it is small or unknown.
func (d *Decision) byRetries() string {
	x := d.Retried(d.Binding)
	if x == nil || x.Factor < minRetryFactor {
		return ""
	}
	text := fmt.Sprintf("In the last ten minutes retries made the load %.1f times as large", x.Factor)
	if x.NeedReplicas < d.evidence(d.Binding).NeedReplicas {
		text += fmt.Sprintf("; without them demand alone would need %s", d.replicasText(x.NeedReplicas))
	}
	return text + "."
}

// notForRetries is a sentence about replicas that are not requested for retries, and why; "" if none.
func (d *Decision) notForRetries() string {
	if x := d.Retried(d.Binding); x != nil && x.Refused > 0 {
		return fmt.Sprintf("Forewarm does not ask for %s: %s.", value.Count(x.Refused, "more replica"), x.Why)
	}
	return ""
}

// Retried is the load that retries add to a resource of any role; nil if none, or if d is nil.
func (d *Decision) Retried(dimension string) *Retried {
	if d == nil {
		return nil
	}
	if r := d.evidence(dimension); r != nil {
		return r.Retries
	}
	return nil
}

// LoadFactor is the load of all attempts divided by the load without retries; 1 for nil.
func (r *Retried) LoadFactor() float64 {
	if r == nil {
		return 1
	}
	return r.Factor
}

// retryStorm warns that many attempts are retries.
func (b *conditions) retryStorm() {
	d, pf := b.Decision, b.pf
	if pf.Retries.Share < stormEndShare || pf.Retries.Attempts < forecaster.StormAttempts {
		return
	}
	class, most := "", float32(0)
	for i := range pf.Classes {
		if f := &pf.Classes[i]; f.Basis.Recent.Retries > most {
			class, most = f.Class, f.Basis.Recent.Retries
		}
	}
	w := alertText{
		Summary:     percent(pf.Retries.Share) + " of the requests are retries",
		Description: "Retries load the replicas without serving more users.",
		Action:      "Find out why requests fail. Have clients wait longer between attempts.",
	}
	if class != "" {
		w.Description += " In the last ten minutes class " + class + " had the most."
	}
	w.Description = joinSentences(w.Description, d.notForRetries())
	c := b.add(RetryStorm, features.DimRequests, w.with(d.byRetries()))
	c.Class, c.Fading = class, pf.Retries.Share < forecaster.StormShare
}
