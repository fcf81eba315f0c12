package alerting

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// addEvidence adds the evidence on resources, and warnings. All its numbers are finite.
func (p *draft) addEvidence() {
	d := &p.Decision
	d.Floor, d.Stale, d.Withheld = p.own.floor, p.forecastState == stale || p.forecastState == noRequests, p.withheld()
	d.Warnings = slices.Concat(p.in.Projection.Warnings, p.warnings())
	for i := range p.own.rows {
		d.Resources = append(d.Resources, p.own.rows[i].evidence)
	}
	for i := range p.prefill.rows {
		d.Prompts = append(d.Prompts, p.prefill.rows[i].evidence)
	}
	for i := range p.in.Limits {
		l := &p.in.Limits[i]
		e := ResourceEvidence{
			Dimension: l.Dimension, PerReplica: l.PerReplica, Demand: l.Demand,
			Probability: l.Probability[forecaster.WindowMinutes(d.Lead+p.cfg.Hold)-1], ETA: l.ETA,
		}
		d.Limits = append(d.Limits, e)
		if text := d.limitText(&e, d.Lead+p.cfg.Hold); text != "" {
			d.Warnings = append(d.Warnings, text+"; more replicas do not help")
		}
	}
	if b := p.own.binding(d.Binding); b != nil {
		d.Binding, d.Probability, d.ETA = b.evidence.Dimension, b.evidence.Probability, b.evidence.ETA
		d.Model = "network"
		if b.forecast.Fallback {
			d.Model = "last value"
		}
		d.Events = b.forecast.Basis.Events
	}
}

// requestsMissing is that the engines of a pool work, and its producers report no requests.
const requestsMissing = "no request is reported although its engines are busy"

// withheld returns why autoscalers get no advice yet; "" if they do. In the first hour, decisions request replicas for
// the present demand and never scale in. That is published once a few minutes are known, if replicas report.
func (p *draft) withheld() string {
	known := slices.ContainsFunc(p.own.rows, func(r resource) bool { return r.forecast.Known >= int(minKnown/features.Minute) })
	switch {
	case p.forecastState == stale:
		return "its telemetry is stale"
	case p.forecastState == noRequests:
		return requestsMissing
	case p.forecastState == cold && !p.SupplyAssumed && !known:
		return fmt.Sprintf("less than %s of its traffic is known", wholeMinutes(minKnown))
	case p.forecastState == cold && p.SupplyAssumed:
		return "less than an hour of its traffic is known, and no replica reports how many there are"
	case p.forecastState == unsized && (p.Binding == "" || p.Confidence == forecaster.Cold):
		return "its demand cannot be counted in replicas"
	}
	return ""
}

// delivered reports whether autoscalers receive d.
func (d *Decision) delivered() bool { return d.Mode == Active && d.Withheld == "" }

func finiteDrivers(all []forecaster.Driver) []forecaster.Driver {
	return slices.DeleteFunc(slices.Clone(all), func(d forecaster.Driver) bool { return !value.Number(d.Factor + d.Share).Known() })
}

// warnings describe the weaknesses of the evidence.
func (p *draft) warnings() []string {
	var out []string
	if p.SupplyAssumed {
		text := fmt.Sprintf("no replica of the pool reports (set scrape.jobs; if the pool has a job, /readyz says why it fails): "+
			"assuming %d ready and %d starting", p.Ready, p.Pending)
		if at := p.in.Minute.State.ReportedAt; !at.IsZero() {
			text += ", the last report is from " + clock(at)
		}
		out = append(out, text)
	} else if text := p.lostSentence(); text != "" {
		out = append(out, text)
	}
	for i := range p.in.Minute.Faults[:min(len(p.in.Minute.Faults), maxFaults)] {
		out = append(out, faultText(&p.in.Minute.Faults[i]))
	}
	return out
}

// faultText describes a fault of a producer, and its effect on the numbers.
func faultText(f *features.ProducerFault) string {
	name := "producer " + cmp.Or(f.Producer, "without a name")
	by := latency(f.Seconds)
	switch f.Kind {
	case features.FaultAhead:
		return fmt.Sprintf("The clock of %s is about %s ahead: its requests count in the wrong minutes or are refused (%d so far).",
			name, by, f.Future)
	case features.FaultBehind:
		return fmt.Sprintf("The records of %s come about %s late: its clock is behind, or it holds them back. The newest minutes lack them.", name, by)
	}
	return fmt.Sprintf("%s has sent nothing since %s. Demand may be higher than Forewarm sees.", capitalise(name), clock(f.Since))
}
