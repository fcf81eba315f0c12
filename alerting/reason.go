package alerting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// reason is the decision in a few sentences, for people.
func (p *draft) reason() string {
	d := &p.Decision
	s := p.findings(d, &p.own)
	if p.own.asked != d.Desired && p.own.asked != p.own.current {
		s = append(s, fmt.Sprintf("The last decision asked for %d.", p.own.asked))
	}
	s = append(s, d.limited())
	if text := d.byRetries(); text != "" {
		s = append(s, text, d.notForRetries())
	}
	if d.Action == ScaleOut {
		s = append(s, d.Cause())
	}
	for _, e := range d.Events {
		if d.Action == ScaleOut && e.Ahead > e.Now && e.Factor > 1 {
			s = append(s, fmt.Sprintf("The calendar has %s: %.1f times the demand.", e.Name, e.Factor))
			break
		}
	}
	if v := d.Prefilling(); v != nil && (v.Action != Hold || v.Needed > v.Desired) {
		of := append(p.findings(v, &p.prefill), v.limited())
		s = append(s, slices.DeleteFunc(of, func(text string) bool { return slices.Contains(s, text) })...)
	}
	return zoneOnce(joinSentences(s...))
}

// limited names the bounds that made Desired different from Needed.
func (d *Decision) limited() string {
	if len(d.Constraints) == 0 || d.Needed == d.Desired {
		return ""
	}
	return "Limited by " + strings.Join(texts(d.Constraints), "; ") + "."
}

func texts(all []Constraint) []string {
	out := []string{}
	for _, c := range all {
		out = append(out, c.String())
	}
	return out
}

func (d *Decision) changeSentence() string {
	asking := "Asking for"
	switch {
	case d.Mode == Advisory:
		asking = "Advising"
	case d.Withheld != "":
		asking = "It would ask for"
	}
	return fmt.Sprintf("%s %s (%d now).", asking, d.replicasText(d.Desired), d.Ready+d.Pending)
}

// findings are sentences about one role: the problem, and last the action. d and s are of this role.
func (p *draft) findings(d *Decision, s *side) []string {
	more, fewer := d.Desired > s.current, d.Desired < s.current
	byFloor := s.floorCause != "" && s.floor >= s.need
	action := fmt.Sprintf("Staying at %d.", d.Desired)
	if more || fewer {
		action = d.changeSentence()
	}
	switch {
	case more && byFloor && s.floor > s.current:
		return []string{capitalise(s.floorCause) + ".", action}
	case p.forecastState != usable:
		return p.withoutForecast(d, s)
	case s.blockedBy != "" && s.need <= s.current:
		return []string{p.keepSentence(d, s), action}
	case more && s.need > s.current:
		lead := fmt.Sprintf("A new one takes up to %s.", wholeMinutes(d.Lead))
		return []string{riskSentence(d, p.cfg), p.keepSentence(d, s), action, lead}
	case fewer && d.Needed < s.current:
		text := fmt.Sprintf("%s will do for %s of the next %s.",
			capitalise(d.replicasText(s.enough)), percent(p.KeepQuantile), wholeMinutes(p.Lead+p.cfg.Cooldown))
		return []string{text, action}
	}
	why := []string{riskSentence(d, p.cfg)}
	switch b := s.binding(d.Binding); {
	case byFloor:
		why = append(why, capitalise(s.floorCause)+".")
	case b != nil && s.floor > b.evidence.NeedReplicas && s.floor >= s.need:
		why = append(why, fmt.Sprintf("The demand of now takes %s.", d.replicasText(s.floor)))
	case s.need <= d.Ready:
		why = append(why, p.keepSentence(d, s))
	}
	if d.Needed > d.Desired && !fewer {
		action = "No more than " + d.replicasText(d.Desired) + " are allowed."
	}
	return append(why, action)
}

// keepSentence says why more replicas are kept or requested than s.need; "" if there is no reason to.
func (p *draft) keepSentence(d *Decision, s *side) string {
	enough := d.replicasText(s.enough)
	switch {
	case s.blockedBy != "":
		return fmt.Sprintf("%s would do, but %s.", capitalise(enough), s.blockedBy)
	case s.enough > s.need:
		return fmt.Sprintf("A scale-in must leave enough for %s of the next %s, and that took %s lately.",
			percent(p.KeepQuantile), wholeMinutes(p.Lead+p.cfg.Cooldown), enough)
	}
	return ""
}

// withoutForecast are the findings if the forecast cannot be used.
func (p *draft) withoutForecast(d *Decision, s *side) []string {
	why := ""
	switch p.forecastState {
	case noRequests:
		seen := fmt.Sprintf("%.1f requests wait per replica", p.in.Minute.State.WaitingPerReady)
		if use := finite(p.in.Minute.State.KVUsedMax); use >= busyKV {
			seen = fmt.Sprintf("KV cache up to %s in use", percent(use))
		}
		why = "The engines are busy (" + seen + "), but no request was reported for 10 min."
	case stale:
		why = "There is no telemetry yet."
		if at := p.in.Minute.LastEvent; !at.IsZero() {
			why = fmt.Sprintf("The newest telemetry is of %s (%s ago).", clock(at), wholeMinutes(p.Tick.Sub(at)))
		}
	case unsized:
		why = p.unsizedText()
	case cold:
		why = "Less than an hour of traffic is known, so only the demand of now counts."
	}
	if d.Desired > s.current {
		return []string{why, d.changeSentence()}
	}
	return []string{why, "Holding " + d.replicasText(d.Desired) + "."}
}

// unsizedText says which fact is missing: the capacity of a replica, or the demand for what has one.
func (p *draft) unsizedText() string {
	var sized []string
	for _, dimension := range []string{features.DimKV, features.DimPrefill, features.DimDecode, features.DimRequests} {
		if _, ok := p.in.Pool.PerReplica(dimension, p.st.KVTokens); ok && p.sideOf(dimension) == &p.own {
			sized = append(sized, ResourceName(dimension))
		}
	}
	switch {
	case sized != nil:
		return fmt.Sprintf("No demand for %s is known yet. Wait for some minutes of traffic. "+
			"If it stays unknown, the records lack token counts.", strings.Join(sized, " or "))
	case p.in.Pool.Limits != (capacity.Limits{}):
		return "Only limits of the whole pool are known, and replicas do not raise them."
	case p.in.Pool.Disaggregated:
		return "No capacity of a decode replica is known. Set kv_capacity_tokens or decode_tokens_per_s of the pool."
	}
	return "No capacity of a replica is known. Set kv_capacity_tokens, prefill_tokens_per_s or decode_tokens_per_s of the pool."
}

// riskSentence is a sentence about the binding resource. It predicts a saturation only if that is more likely than not.
func riskSentence(d *Decision, cfg Config) string {
	r := d.evidence(d.Binding)
	window := d.Lead + cfg.Hold
	switch {
	case r == nil:
		return "No resource is known to run out."
	case d.overCapacity(r), r.Probability >= .5 && r.ETA.P50 != forecaster.Never:
		return joinSentences(capitalise(d.saturationText(r, r.Probability, window))+".", d.probabilitySentence(r, d.pageWindow(cfg)))
	}
	onlyReserve := r.NeedReplicas <= d.Ready && d.Reserves.Failure == d.Reserves.Total()
	if text := d.belowReserve(); text != "" && onlyReserve {
		return capitalise(text) + "."
	}
	text := fmt.Sprintf("To have enough %s in %s of the next %s, the pool needs %s",
		ResourceName(d.Binding), percent(d.Quantile), wholeMinutes(window), d.replicasText(r.NeedReplicas))
	if kept := d.Reserves.String(); kept != "" {
		text += ", and as a reserve " + kept
	}
	return text + "."
}

// resourceTexts has, by dimension, the name of a resource, what happens when it runs out, and the unit of its quantities.
var resourceTexts = map[string]struct{ name, end, unit string }{
	features.DimKV:       {"KV memory", "be full", " (tokens)"},
	features.DimPrefill:  {"prefill throughput", "be used up", " (tokens/s)"},
	features.DimDecode:   {"decode throughput", "be used up", " (tokens/s)"},
	features.DimRequests: {"request rate", "be used up", ""},
}

// ResourceName is a resource in words.
func ResourceName(dimension string) string { return cmp.Or(resourceTexts[dimension].name, dimension) }

func percent(p float64) string { return value.Percent(value.Number(p)) }

// wholeMinutes is a duration in whole minutes, rounded up.
func wholeMinutes(d time.Duration) string {
	return fmt.Sprintf("%.0f min", max(0, math.Ceil(d.Minutes()-1e-9)))
}

func clock(t time.Time) string { return t.UTC().Format("15:04" + zone) }

const zone = " UTC"

// zoneOnce keeps the zone only at the first time of day in a text.
func zoneOnce(text string) string {
	before, after, found := strings.Cut(text, zone)
	if !found {
		return text
	}
	return before + zone + strings.ReplaceAll(after, zone, "")
}
