package alerting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Objective is a latency of the newest minutes beside what the pool's configuration promises.
type Objective struct {
	Latency string  `json:"latency" cbor:"1,keyasint"`           // ttft or itl
	P90     float64 `json:"p90_seconds" cbor:"2,keyasint"`       // median of the newest minutes' 90th percentiles
	Stated  float64 `json:"objective_seconds" cbor:"3,keyasint"` // slo.ttft or slo.itl
	Over    bool    `json:"over" cbor:"4,keyasint"`              // for some minutes
}

// The latencies of an Objective.
const (
	LatencyTTFT = "ttft"
	LatencyITL  = "itl"
)

// Breach is a time in which latencies are over their objectives, and what was asked for because of it. It is part of the state
// of decisions, and ends reliefHold after the latencies are back.
type Breach struct {
	Since time.Time  `json:"since" cbor:"1,keyasint"`
	Until time.Time  `json:"until" cbor:"2,keyasint"` // the newest tick at which a latency was over its objective
	TTFT  bool       `json:"ttft" cbor:"3,keyasint"`  // over its objective now
	ITL   bool       `json:"itl" cbor:"4,keyasint"`
	Binds Bottleneck `json:"bottleneck" cbor:"5,keyasint"`

	Own     Relief `json:"own" cbor:"6,keyasint"`
	Prefill Relief `json:"prefill" cbor:"7,keyasint,omitzero"` // of a disaggregated pool's prefill replicas
}

// Relief is the floor that a breach sets for the replicas of one role. The zero value sets none.
type Relief struct {
	From     int       `json:"from" cbor:"1,keyasint"`              // ready at first
	Replicas int       `json:"replicas" cbor:"2,keyasint"`          // the floor; at most twice From
	Excess   float64   `json:"excess" cbor:"3,keyasint"`            // latency over its objective when the floor was raised last
	ReadyAt  time.Time `json:"ready_at,omitzero" cbor:"4,keyasint"` // since when as many are ready
	Failed   bool      `json:"failed,omitempty" cbor:"5,keyasint"`  // latencies did not fall: no floor any more
}

const (
	fewestReports  = 20               // of latencies in the newest minutes, for their percentiles to tell
	objectiveBack  = 0.9              // of an objective, below which a latency is within it again
	leastRelief    = 0.1              // of a latency, by which more replicas must have lowered it
	reliefJudged   = 8 * time.Minute  // after replicas are ready: the newest minutes and their reports are all of them
	reliefHold     = 30 * time.Minute // for which the floor stays once latencies are within their objectives
	largestMore    = 2                // times the replicas of before that a floor may become
	reliefPerRound = 0.1              // of the ready replicas, for each multiple of the objective
)

// objectives hold the newest latencies against what the pool promises, and raise the floors of the roles that explain a breach:
// a first step at once, and another each time that the last one is ready and lowered the latency by leastRelief. A step that did
// not is taken back, and no other follows until the breach is over: whatever is slow then is not for want of replicas.
func (p *plan) objectives(was *Breach) {
	now := p.in.Signals.now()
	if was != nil {
		p.breach = new(*was)
	}
	b := Breach{Since: p.now.UTC()}
	if p.breach != nil {
		b = *p.breach
	}
	calm := !b.TTFT && !b.ITL
	ttft, ttftKnown := p.objective(LatencyTTFT, ofTTFT, p.in.Pool.Promised.TTFT, &b.TTFT)
	itl, itlKnown := p.objective(LatencyITL, ofITL, p.in.Pool.Promised.ITL, &b.ITL)
	switch {
	case !ttftKnown && !itlKnown && p.breach == nil:
		return
	case !b.TTFT && !b.ITL:
		if p.breach != nil && p.now.Sub(b.Until) < reliefHold {
			b.Own.Replicas, b.Prefill.Replicas = min(b.Own.Replicas, p.current), min(b.Prefill.Replicas, p.promptSupply.Ready+len(p.promptSupply.Pending))
			p.breach = &b // keeps what is there, and asks for no more
		} else {
			p.breach = nil
		}
		return
	case calm:
		b.Since = p.now.UTC()
	}
	p.breach = &b
	if b.TTFT && !ttftKnown || b.ITL && !itlKnown { // nothing new is known
		if p.now.Sub(b.Until) >= reliefHold {
			p.breach = nil
		}
		return
	}
	b.Until = p.now.UTC()
	waiting, kv := now.middle(func(x *Signal) float64 { return x.Waiting }), now.middle(func(x *Signal) float64 { return x.KVUse })
	b.Binds = binds(b.TTFT, b.ITL, waiting, kv)
	if !p.in.Pool.Disaggregated {
		b.Own.step(p.now, p.supply.Ready, max(ttft, itl))
		return
	}
	switch b.Binds {
	case BottleneckKV:
		b.Own.step(p.now, p.supply.Ready, max(ttft, itl))
	case BottleneckPrefill:
		b.Prefill.step(p.now, p.promptSupply.Ready, ttft)
	case BottleneckDecode:
		b.Own.step(p.now, p.supply.Ready, itl)
	default:
		b.Prefill.step(p.now, p.promptSupply.Ready, ttft)
		b.Own.step(p.now, p.supply.Ready, itl)
	}
}

// objective says how far a latency is beyond what is promised of it, 0 where it is within; over is whether it is beyond, and known
// that enough of the newest minutes tell.
func (p *plan) objective(name string, of func(*Signal) float64, promised time.Duration, over *bool) (excess float64, known bool) {
	var minutes Signals
	reports := 0.
	s := p.in.Signals
	for i := len(s) - 1; i >= max(0, len(s)-latestMinutes) && len(minutes) < recentMinutes; i-- {
		if !math.IsNaN(of(&s[i])) {
			minutes, reports = append(minutes, s[i]), reports+s[i].Reports
		}
	}
	if promised <= 0 {
		*over = false
		return 0, false
	}
	if len(minutes) < fewestRecent || reports < fewestReports {
		return 0, false
	}
	x := Objective{Latency: name, P90: minutes.middle(of), Stated: promised.Seconds()}
	limit := x.Stated
	if *over {
		limit *= objectiveBack
	}
	x.Over = x.P90 > limit
	*over = x.Over
	p.promises = append(p.promises, x)
	if !x.Over {
		return 0, true
	}
	return x.P90 / x.Stated, true
}

// step goes on with a floor at now, with so many replicas ready and a latency of excess times its objective.
func (r *Relief) step(now time.Time, ready int, excess float64) {
	switch {
	case ready == 0 || r.Failed:
	case r.Replicas == 0:
		r.From = ready
		r.raise(ready, excess)
	case ready < r.Replicas:
		r.ReadyAt = time.Time{}
	case r.ReadyAt.IsZero():
		r.ReadyAt = now.UTC()
	case now.Sub(r.ReadyAt) < reliefJudged:
	case excess > (1-leastRelief)*r.Excess:
		r.Failed = true
	default:
		r.raise(ready, excess)
	}
}

func (r *Relief) raise(ready int, excess float64) {
	more := int(math.Ceil(float64(ready) * min(reliefPerRound*excess, 1)))
	r.Replicas, r.Excess, r.ReadyAt = max(r.Replicas, min(ready+more, largestMore*r.From)), excess, time.Time{}
}

// floor is how many replicas the breach takes.
func (r *Relief) floor() int {
	if r.Failed {
		return 0
	}
	return r.Replicas
}

// slow is which latencies are over their objectives, or, while nothing new is known of them, when they last were.
func (p *plan) slow() string {
	if slices.ContainsFunc(p.promises, func(x Objective) bool { return x.Over }) {
		return said(p.promises)
	}
	return "latencies were over their objectives until " + clock(p.breach.Until)
}

// said is which latencies are over their objectives, in the middle of a sentence.
func said(all []Objective) string {
	var parts []string
	for _, x := range all {
		if x.Over {
			what := "the first token takes"
			if x.Latency == LatencyITL {
				what = "each further token takes"
			}
			parts = append(parts, fmt.Sprintf("%s %s (objective %s)", what, latency(x.P90), latency(x.Stated)))
		}
	}
	return strings.Join(parts, ", and ") + " at the 90th percentile"
}

// overObjective is the alert that a latency is over its objective: a page once more replicas do not help.
func overObjective(d *Decision, cfg Config) []Condition {
	b := d.Breach
	if b == nil || !slices.ContainsFunc(d.Objectives, func(x Objective) bool { return x.Over }) {
		return nil
	}
	w := words{
		Summary:     strings.TrimSuffix(said(d.Objectives), " at the 90th percentile"),
		Description: fmt.Sprintf("This has been so for one request in ten since %s. It points to %s.", clock(b.Since), b.Binds.Words()),
		Action:      "If it lasts when the new replicas are ready, check the engines, the network and changes of the model.",
	}
	severity := Warning
	for _, side := range d.sides() {
		r := &b.Own
		if side.ofPrefill() {
			r = &b.Prefill
		}
		switch {
		case r.Failed:
			severity = Page
			w.Description += fmt.Sprintf(" %d more %sreplicas (%d now) hardly lowered it, so Forewarm asks for no more.", r.Replicas-r.From, side.role(), r.Replicas)
			w.Action = "Do not add replicas. Check the engines, the network and changes of the model."
		case r.floor() > side.Limit:
			severity = Page
			w.Action = fmt.Sprintf("Raise %s: %s are needed, %d are allowed.", cmp.Or(limits(side.own()), "the limit"), side.count(r.Replicas), side.Limit)
		case r.Replicas > 0:
			w.Description = sentence(w.Description, done(side))
		}
	}
	c := condition(d, LatencyObjective, "", severity, cfg, w)
	c.Annotations["diagnosis"] = string(b.Binds)
	if diagnosed := d.Diagnosed(); diagnosed != "" {
		c.Annotations["diagnosis_evidence"] = diagnosed
	}
	return []Condition{c}
}
