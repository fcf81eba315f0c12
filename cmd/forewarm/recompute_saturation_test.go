package main

import (
	"cmp"
	"math"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
)

// span is a group of minutes, or of decisions that warn, at most ten minutes apart.
type span struct {
	first, last int64
	by          *alerting.Decision // the first decision that warns
	until       int64              // the end of the warning window
}

// joined adds minute m to the last span, or to a new one.
func joined(spans []span, m int64) ([]span, *span) {
	if n := len(spans); n > 0 && m-spans[n-1].last-1 <= 10 {
		spans[n-1].last = m
		return spans, &spans[n-1]
	}
	spans = append(spans, span{first: m, last: m})
	return spans, &spans[len(spans)-1]
}

// use returns a pool's demand in a minute divided by the capacity of the ready replicas of a decision.
func (x *recomputed) use(d *alerting.Decision, m int64) float64 {
	if d == nil || d.Ready == 0 {
		return math.NaN()
	}
	return x.most(d, m, func(demand, per float64) float64 { return demand / per / float64(d.Ready) })
}

// announces reports whether a decision warns: whether the probability of a saturation within the lead and a quarter of
// an hour is high enough.
func (x *recomputed) announces(d *alerting.Decision) bool {
	if d.WarnFrom == 0 {
		x.Error("a decision has no probability from which its pool is warned")
	}
	for i := range d.Resources {
		if d.Resources[i].Ahead >= d.WarnFrom {
			return true
		}
	}
	return false
}

// foreseen returns the median forecast of 15 minutes before, divided by the capacity of the ready replicas.
func (x *recomputed) foreseen(resource string, m int64) float64 {
	d, q := x.inForce(m), x.quantiles("*", resource, "15")(m-14)
	for i := range d.Resources {
		if r := &d.Resources[i]; r.Dimension == resource && q != nil {
			return q[.5] * x.retried(resource, m-15) / r.PerReplica / float64(d.Ready)
		}
	}
	return math.NaN()
}

// saturation compares saturations with warnings.
func (x *recomputed) saturation(p *report.Pool) {
	known, saturated := 0, 0
	var episodes, announced []span
	for m := x.from - 120; m < x.to; m++ {
		use := x.use(x.inForce(m), m)
		if m >= x.from && !math.IsNaN(use) {
			known++
		}
		if use > 1 {
			episodes, _ = joined(episodes, m)
			if m >= x.from {
				saturated++
			}
		}
	}
	for i := range x.raw.decisions {
		d := &x.raw.decisions[i]
		if at := d.Tick.Unix() / 60; at >= x.from-120 && at < x.to && x.announces(d) && !d.Stale {
			var s *span
			if announced, s = joined(announced, at); s.by == nil {
				s.by = d
			}
			s.until = d.Tick.Add(d.Lead+15*time.Minute).Unix() / 60 // the warning window
		}
	}
	var inTime, late, missed, averted, wrong, open int
	var leads []float64
	var listed int
	claimed := map[*alerting.Decision]bool{}
	for _, e := range episodes {
		var by *alerting.Decision
		for _, a := range announced {
			if a.first < e.first && e.first <= a.until {
				by = cmp.Or(by, a.by)
				claimed[a.by] = true
			}
			if e.first <= a.first && a.first <= e.last+10 {
				claimed[a.by] = true
			}
		}
		if e.first < x.from {
			continue
		}
		lead := math.NaN()
		outcome := report.Missed
		switch {
		case by == nil:
			missed++
		default:
			lead = float64(e.first) - float64(by.Tick.Unix())/60
			leads = append(leads, lead)
			if outcome = report.Late; lead*60 >= by.Lead.Seconds() {
				outcome = report.InTime
				inTime++
			} else {
				late++
			}
		}
		row := p.Saturation.Episodes[listed]
		listed++
		if row.Start.Unix()/60 != e.first || row.Minutes != int(e.last-e.first)+1 || row.Outcome != outcome {
			x.Errorf("%+v: want %s, %d minutes from minute %d", row, outcome, e.last-e.first+1, e.first)
		}
		x.same("lead of a saturation", row.LeadMinutes, lead)
		peak, at := 0.0, int64(0)
		for m := e.first; m <= e.last; m++ {
			if use := x.use(x.inForce(m), m); use > peak {
				peak, at = use, m
			}
		}
		x.same("peak of a saturation", row.Utilisation, peak)
		x.same("forecast of a peak", row.Forecast, x.foreseen(row.Resource, at))
	}
	for _, a := range announced {
		if a.first < x.from || claimed[a.by] {
			continue
		}
		crossed, unknown := int64(0), a.until >= x.to
		for m := a.first + 1; m <= a.until && m < x.to && crossed == 0; m++ {
			switch use := x.use(a.by, m); {
			case math.IsNaN(use):
				unknown = true
			case use > 1:
				crossed = m
			}
		}
		switch {
		case crossed > 0:
			averted++
			leads = append(leads, float64(crossed-a.first))
		case unknown:
			open++
		default:
			wrong++
		}
	}
	s := &p.Saturation
	for what, c := range map[string][2]int{
		"minutes with known saturation": {s.KnownMinutes, known}, "saturated minutes": {s.SaturatedMinutes, saturated}, "saturations": {len(s.Episodes), listed},
		"announced in time": {s.InTime, inTime}, "announced late": {s.Late, late}, "missed": {s.Missed, missed},
		"averted": {s.Averted, averted}, "false alarms": {s.False, wrong}, "open announcements": {s.Open, open},
	} {
		x.count(what, c[0], c[1])
	}
	x.same("lead time", s.LeadMinutes, median(leads))
	if listed == 0 {
		x.Error("no saturation to compare")
	}
}
