package alerting

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// reason is the decision in one sentence, for someone woken by it.
func (p *plan) reason(d *Decision, cfg Config) string {
	s := p.finding(d, cfg)
	if p.asked != d.Desired && p.asked != p.current {
		s += fmt.Sprintf(", no longer %s %d", strings.TrimPrefix(d.asking(), "would ask "), p.asked)
	}
	s += d.limited()
	if said := d.byRetries(); said != "" {
		s += "; " + said
	}
	if d.Action == ScaleOut && len(d.Drivers) > 0 {
		s += "; driver: " + describe(d.Drivers, p.in.Forecast, d.Binding)
	}
	for _, e := range d.Events {
		if d.Action == ScaleOut && e.Ahead > e.Now && e.Learned > 1 {
			s += fmt.Sprintf("; scheduled: %s (×%.1f)", e.Name, e.Learned)
			break
		}
	}
	if v := d.Prefilling(); v != nil && (v.Action != Hold || v.Needed > v.Desired) {
		s += "; for prompts, " + p.promptFinding(v, cfg) + v.limited()
	}
	return zoneOnce(s + ".")
}

// limited names the bounds that moved what is asked for away from what is needed, to follow a clause.
func (d *Decision) limited() string {
	if own := d.own(); len(own) > 0 && d.Needed != d.Desired {
		return "; limited by " + strings.Join(own, ", ")
	}
	return ""
}

// promptFinding is finding for prefill replicas, where their number is to change or should.
func (p *plan) promptFinding(v *Decision, cfg Config) string {
	move := v.move(cfg)
	switch {
	case v.Action == ScaleIn:
		return fmt.Sprintf("%s would do: %s", v.count(v.Needed), move)
	case v.Action == ScaleOut && p.breach != nil && p.breach.Prefill.floor() >= v.Desired:
		return fmt.Sprintf("%s: %s", p.slow(), move)
	case v.Action == ScaleOut && p.blind != sighted:
		return move
	case v.Action == ScaleOut:
		return fmt.Sprintf("%s: %s", outlook(v, cfg), move)
	}
	return fmt.Sprintf("%s: no more than %s are allowed", outlook(v, cfg), v.count(v.Desired))
}

// move is the change that d asks for.
func (d *Decision) move(cfg Config) string {
	return fmt.Sprintf("%s %d→%d %sreplicas", d.asking(), d.Ready+d.Pending, d.Desired, d.role())
}

// asking is the verb for what d does.
func (d *Decision) asking() string {
	switch {
	case d.Mode == Advisory:
		return "advising"
	case d.Withheld != "":
		return "would ask for"
	}
	return "asking for"
}

func (p *plan) finding(d *Decision, cfg Config) string {
	move := d.move(cfg)
	more, fewer := d.Desired > p.current, d.Desired < p.current
	switch {
	case more && p.floor.cause != "" && p.floor.replicas >= p.need && p.floor.replicas > p.current:
		return fmt.Sprintf("%s: %s now", p.floor.cause, move)
	case p.blind != sighted:
		return p.unseen(d, move)
	case more && p.need <= p.current && d.Needed <= p.current:
		return fmt.Sprintf("the pool is below its least size: %s", move)
	case more && p.need <= p.current:
		return fmt.Sprintf("%s: still %s", outlook(d, cfg), move)
	case more:
		return fmt.Sprintf("%s: %s now because warm-up takes up to %s", outlook(d, cfg), move, span(d.Lead))
	case fewer && p.enough >= p.current:
		return fmt.Sprintf("the pool is above its largest size: %s", move)
	case fewer:
		hold := "hold"
		if p.enough == 1 {
			hold = "holds"
		}
		return fmt.Sprintf("%s %s the next %s at the %s quantile of demand: %s", d.count(p.enough), hold, span(p.lead+cfg.Cooldown), percent(p.confidence), move)
	case p.blockedBy != "":
		return fmt.Sprintf("%s would do, but %s: staying at %d", d.count(p.enough), p.blockedBy, d.Desired)
	case d.Needed < p.current && d.Desired == p.current && d.Desired > p.in.Pool.Replicas.Min:
		return fmt.Sprintf("%s would do: staying at %d", d.count(d.Needed), d.Desired)
	case d.Needed > d.Desired:
		return fmt.Sprintf("%s: no more than %s are allowed", outlook(d, cfg), d.count(d.Desired))
	}
	return fmt.Sprintf("%s: staying at %d", outlook(d, cfg), d.Desired)
}

// stillHeard is how long ago the newest record may have come of a pool that sends telemetry.
const stillHeard = 5 * time.Minute

// unseen is the finding when the forecast cannot be used.
func (p *plan) unseen(d *Decision, move string) string {
	why := ""
	switch p.blind {
	case unheard:
		why = fmt.Sprintf("the engines are busy (KV cache up to %s in use), but no request was heard of for 10 min", percent(finite(p.in.Minute.State.KVUsedMax)))
	case stale:
		why = "no telemetry yet"
		at, heard := p.in.Minute.LastEvent, p.in.Minute.Heard
		switch {
		case heard.After(at) && p.now.Sub(heard) < stillHeard:
			why = "telemetry comes, but none that counts for the newest minutes: see the producers' clocks, and what /readyz says is refused"
		case heard.After(at): // the producers' clocks were behind
			at = heard
			fallthrough
		case !at.IsZero():
			why = fmt.Sprintf("no telemetry since %s (%s)", clock(at), span(p.now.Sub(at)))
		}
	case unsized:
		why = "no resource of the pool has both a capacity and a forecast"
	case cold:
		why = "less than an hour of history, so reacting to current demand only"
	}
	if d.Desired > p.current {
		return fmt.Sprintf("%s: %s", why, move)
	}
	return fmt.Sprintf("%s: holding %s", why, d.count(d.Desired))
}

// outlook says what the binding resource will do. It speaks of running out only where that is the likelier outcome.
func outlook(d *Decision, cfg Config) string {
	r := d.binding()
	if r == nil {
		return "no resource is known to bind"
	}
	if have := r.PerReplica * float64(d.Ready); have > 0 && r.Demand >= have {
		return fmt.Sprintf("%s now (demand is %s of the capacity of %s)", exhausted(d.Binding), share100(r.Demand/have), d.count(d.Ready))
	}
	window := span(d.Lead + cfg.Hold)
	if r.Probability >= 0.5 && r.ETA.P50 != forecaster.Never {
		return exhausted(d.Binding) + " " + eta(r.ETA) + " " + odds(forecaster.Chance{Probability: r.Probability, ETA: r.ETA}, window)
	}
	if d.BelowReserve() && r.NeedReplicas <= d.Ready && d.Reserves.Failure == d.Reserves.Total() {
		said, _ := d.belowReserve()
		return said
	}
	text := fmt.Sprintf("%s needs %s at the %s quantile of demand within %s (%s to run out)",
		noun(d.Binding), d.count(r.NeedReplicas), percent(d.Quantile), window, percent(r.Probability))
	if kept := d.Reserves.String(); kept != "" {
		text += " plus a reserve: " + kept
	}
	return text
}

// noun is a resource in words.
func noun(dimension string) string {
	switch dimension {
	case features.DimKV:
		return "KV memory"
	case features.DimPrefill:
		return "prefill throughput"
	case features.DimDecode:
		return "decode throughput"
	case features.DimRequests:
		return "request rate"
	}
	return dimension
}

func exhausted(dimension string) string {
	if dimension == features.DimKV {
		return noun(dimension) + " full"
	}
	return noun(dimension) + " exhausted"
}

// eta is the middle of an ETA within the horizon.
func eta(e forecaster.ETA) string {
	switch {
	case e.P50 > 0:
		return "in ~" + span(e.P50)
	case e.P90 > 0 || e.P90 == forecaster.Never:
		return "any minute"
	}
	return "within a minute"
}

// odds say how sure a time is: (p10 12, p90 27 min; 86 % likely within 18 min). What is due at once has no range.
func odds(c forecaster.Chance, window string) string {
	if c.ETA.P90 <= 0 && c.ETA.P90 != forecaster.Never {
		return "(" + percent(c.Probability) + " likely)"
	}
	edge := func(d time.Duration) string {
		if d == forecaster.Never {
			return fmt.Sprintf(">%d", forecaster.Horizon)
		}
		return fmt.Sprintf("%.0f", d.Minutes())
	}
	return fmt.Sprintf("(p10 %s, p90 %s min; %s likely within %s)", edge(c.ETA.P10), edge(c.ETA.P90), percent(c.Probability), window)
}

// percent is a share for people; certainty is never claimed by rounding.
func percent(p float64) string {
	switch {
	case p > 0 && p < 0.005:
		return "<1 %"
	case p < 1 && p >= 0.995:
		return ">99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

// span is a duration in whole minutes.
func span(d time.Duration) string {
	return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()-1e-9))
}

// clock is a time of day, always UTC: a sentence may be read anywhere.
func clock(t time.Time) string { return t.UTC().Format("15:04" + zone) }

const zone = " UTC"

// zoneOnce leaves the zone to the first time of day in a text.
func zoneOnce(text string) string {
	before, after, found := strings.Cut(text, zone)
	if !found {
		return text
	}
	return before + zone + strings.ReplaceAll(after, zone, "")
}
