package alerting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/value"
)

// Objective is a latency of the newest minutes, and its objective in the pool's configuration.
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

var latencyTexts = map[string]string{LatencyTTFT: "the first token takes", LatencyITL: "each further token takes"}

// Breach is a period in which latencies are over their objectives, with the replicas requested for that. It is part of
// the decision state, and ends reliefHold after the latencies are back.
type Breach struct {
	Since time.Time `json:"since" cbor:"1,keyasint"`
	Until time.Time `json:"until" cbor:"2,keyasint"` // the newest tick at which a latency was over its objective
	TTFT  bool      `json:"ttft" cbor:"3,keyasint"`  // over its objective now
	ITL   bool      `json:"itl" cbor:"4,keyasint"`

	Own     Relief `json:"own" cbor:"6,keyasint"`
	Prefill Relief `json:"prefill" cbor:"7,keyasint,omitzero"` // of a disaggregated pool's prefill replicas
}

// Relief is the minimum of replicas of one role during a breach. The zero value sets none.
type Relief struct {
	From     int       `json:"from" cbor:"1,keyasint"`              // ready at first
	Replicas int       `json:"replicas" cbor:"2,keyasint"`          // the floor; at most twice From
	Excess   float64   `json:"excess" cbor:"3,keyasint"`            // latency over its objective when the floor was raised last
	ReadyAt  time.Time `json:"ready_at,omitzero" cbor:"4,keyasint"` // since when as many are ready
	Failed   bool      `json:"failed,omitempty" cbor:"5,keyasint"`  // latencies did not fall: no floor any more
}

const (
	recentMinutes  = 5                // newest minutes with latencies whose median counts
	latestMinutes  = 15               // their largest age
	fewestRecent   = 3                // fewest of them to know a latency
	minReports     = 20               // fewest requests in these minutes for usable percentiles
	objectiveBack  = 0.9              // share of the objective below which a breach ends
	minRelief      = 0.1              // share by which new replicas must lower the latency
	reliefJudged   = 8 * time.Minute  // after the replicas are ready: then all newest minutes are with them
	reliefHold     = 30 * time.Minute // how long the floor stays after the breach
	maxGrowth      = 2                // largest floor, in multiples of the first ready replicas
	reliefPerRound = 0.1              // of the ready replicas, for each multiple of the objective
)

// updateBreach compares the newest latencies with the objectives of the pool, and raises the floors of the roles that
// cause a breach. The first step is immediate. The next one follows if the last one is ready and lowered the latency by
// minRelief. If it did not, the floor is dropped until the end of the breach: replicas are not the cause then.
func (p *draft) updateBreach() {
	b := *cmp.Or(p.st.Breach, &Breach{})
	calm := !b.TTFT && !b.ITL
	ttftOf := func(l *features.Latency) float64 { return l.TTFT }
	itlOf := func(l *features.Latency) float64 { return l.ITL }
	ttft, ttftKnown := p.objective(LatencyTTFT, ttftOf, p.in.Pool.Config.SLO.TTFT, b.TTFT)
	itl, itlKnown := p.objective(LatencyITL, itlOf, p.in.Pool.Config.SLO.ITL, b.ITL)
	held := p.st.Breach != nil && p.Tick.Sub(b.Until) < reliefHold
	if held && (b.TTFT && !ttftKnown || b.ITL && !itlKnown) { // nothing new is known of the breach
		p.Breach = &b
		return
	}
	b.TTFT, b.ITL = ttft > 0, itl > 0
	if !b.TTFT && !b.ITL {
		if held { // keeps the current replicas, but requests no more
			b.Own.Replicas, b.Prefill.Replicas = min(b.Own.Replicas, p.own.current), min(b.Prefill.Replicas, p.prefill.current)
			p.Breach = &b
		}
		return
	}
	if calm {
		b.Since = p.Tick.UTC()
	}
	p.Breach, b.Until = &b, p.Tick.UTC()
	known := p.in.Signals.completeUntil(p.Tick)
	state := &p.in.Minute.State
	if !p.in.Pool.Disaggregated || state.KVUsedMax >= kvDanger && state.WaitingPerReady >= 1 {
		b.Own.step(p.Tick, known, p.own.supply.Ready, max(ttft, itl))
		return
	}
	if b.TTFT {
		b.Prefill.step(p.Tick, known, p.prefill.supply.Ready, ttft)
	}
	if b.ITL {
		b.Own.step(p.Tick, known, p.own.supply.Ready, itl)
	}
}

// objective returns a latency divided by its objective, or 0 if it is within. was is whether it was over its objective
// before. known is false if there is no objective, or if too few of the newest minutes have latencies. Slow attempts are
// reported last. So the latency is that of the newest minutes, or that of the newest complete ones if it is higher.
func (p *draft) objective(
	name string, of func(*features.Latency) float64, stated time.Duration, was bool,
) (excess float64, known bool) {
	x := Objective{Latency: name, Stated: stated.Seconds()}
	for _, complete := range [...]bool{false, true} {
		var recent []float64
		reports := 0.
		for _, l := range slices.Backward(p.in.Signals) {
			if v := of(&l); !math.IsNaN(v) && (l.Complete || !complete) && len(recent) < recentMinutes {
				recent, reports = append(recent, v), reports+l.Reports
			}
		}
		if len(recent) >= fewestRecent && reports >= minReports {
			slices.Sort(recent)
			x.P90, known = max(x.P90, features.QuantileOf(recent, .5)), stated > 0
		}
	}
	if !known {
		return 0, false
	}
	limit := x.Stated
	if was {
		limit *= objectiveBack
	}
	if x.Over = x.P90 > limit; x.Over {
		excess = x.P90 / x.Stated
	}
	p.Objectives = append(p.Objectives, x)
	return excess, true
}

// step updates the floor at now, with ready replicas and a latency of excess times its objective, which is known until
// then.
func (r *Relief) step(now, until time.Time, ready int, excess float64) {
	switch {
	case ready == 0 || r.Failed:
	case r.Replicas == 0:
		r.From = ready
		r.raise(ready, excess)
	case ready < r.Replicas:
		r.ReadyAt = time.Time{}
	case r.ReadyAt.IsZero():
		r.ReadyAt = now.UTC()
	case until.Sub(r.ReadyAt) < reliefJudged:
	case excess > (1-minRelief)*r.Excess:
		r.Failed = true
	default:
		r.raise(ready, excess)
	}
}

func (r *Relief) raise(ready int, excess float64) {
	more := int(math.Ceil(float64(ready) * min(reliefPerRound*excess, 1)))
	r.Replicas, r.Excess, r.ReadyAt = max(r.Replicas, min(ready+more, maxGrowth*r.From)), excess, time.Time{}
}

// latencyText is a clause about the latencies over their objectives, or when they last were if nothing newer is known.
func (p *draft) latencyText() string {
	if text := overObjectiveText(p.Objectives); text != "" {
		return text + " at the 90th percentile"
	}
	return "latencies were over their objectives until " + clock(p.Breach.Until)
}

// overObjectiveText is a clause about the latencies over their objectives; "" if there are none.
func overObjectiveText(all []Objective) string {
	var parts []string
	for _, x := range all {
		if x.Over {
			parts = append(parts, fmt.Sprintf("%s %s (objective %s)", latencyTexts[x.Latency], latency(x.P90), latency(x.Stated)))
		}
	}
	return strings.Join(parts, ", and ")
}

// latency warns that a latency is over its objective. It is a page if more replicas do not help.
func (b *conditions) latency() {
	breach, summary := b.Breach, overObjectiveText(b.Objectives)
	if breach == nil || summary == "" {
		return
	}
	w := alertText{
		Summary:     summary,
		Description: fmt.Sprintf("This has been so for one request in ten since %s.", clock(breach.Since)),
		Action:      "If it lasts when the new replicas are ready, check the engines, the network and changes of the model.",
	}
	if r := b.evidence(b.Binding); r != nil {
		w.Description = joinSentences(w.Description, b.utilisationSentence(r))
	}
	severity := Warning
	for i, side := range b.byRole() {
		r := [...]*Relief{&breach.Own, &breach.Prefill}[i]
		switch {
		case r.Failed:
			severity = Page
			w.Description += fmt.Sprintf(" %d more %sreplicas (%d now) hardly lowered it, so Forewarm asks for no more.",
				r.Replicas-r.From, side.role(), r.Replicas)
			w.Action = "Do not add replicas. Check the engines, the network and changes of the model."
		case r.Replicas > side.Limit:
			severity = Page
			w.Action = fmt.Sprintf("Raise %s: %s are needed, %d are allowed.", side.limitKey(), side.replicasText(r.Replicas), side.Limit)
		case r.Replicas > 0:
			w.Description, w.Action = joinSentences(w.Description, requestSentence(side)), joinSentences(side.chase(), w.Action)
		}
	}
	b.add(LatencyObjective, "", w).Severity = severity
}

// Signals are the latencies of the newest latestMinutes of a pool, oldest first.
type Signals []features.Latency

// Add replaces the minutes from the first open one on. Slow requests report late, so the first latencies of a minute
// miss them. s is not changed.
func (s Signals) Add(open []features.Latency) Signals {
	n := 0
	for n < len(s) && s[n].Minute < open[0].Minute {
		n++
	}
	all := slices.Concat(s[:n], open)
	return all[max(0, len(all)-latestMinutes):]
}

// completeUntil is the end of the newest complete minute; now if none is complete.
func (s Signals) completeUntil(now time.Time) time.Time {
	for _, l := range slices.Backward(s) {
		if l.Complete {
			return time.Unix(60*(l.Minute+1), 0)
		}
	}
	return now
}

// latency is s seconds, for people.
func latency(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.0f ms", 1000*s)
	case s < 9.95:
		return fmt.Sprintf("%.2g s", s)
	case s < 180:
		return fmt.Sprintf("%.0f s", s)
	}
	return value.Minutes(value.Number(s / 60))
}
