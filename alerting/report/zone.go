package report

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// Zone is by whose clock people are told; the zero value is UTC. JSON has its name.
type Zone struct{ *time.Location }

func (z Zone) location() *time.Location {
	if z.Location == nil {
		return time.UTC
	}
	return z.Location
}

// MarshalJSON gives the zone's name.
func (z Zone) MarshalJSON() ([]byte, error) { return json.Marshal(z.location().String()) }

// UnmarshalJSON takes an IANA name.
func (z *Zone) UnmarshalJSON(data []byte) (err error) {
	var name string
	if err = json.Unmarshal(data, &name); err == nil {
		z.Location, err = time.LoadLocation(name)
	}
	return err
}

// shown is r with all times as the clock of its zone has them. It shares with r what has none.
func (r *Report) shown() *Report {
	zone := r.Zone.location()
	out := *r
	out.From, out.To = r.From.In(zone), r.To.In(zone)
	out.Pools = slices.Clone(r.Pools)
	for i := range out.Pools {
		p := &out.Pools[i]
		p.Data.Gaps, p.Errors, p.Assumptions = slices.Clone(p.Data.Gaps), slices.Clone(p.Errors), slices.Clone(p.Assumptions)
		p.Saturation.Episodes = slices.Clone(p.Saturation.Episodes)
		for j := range p.Data.Gaps {
			p.Data.Gaps[j].Start = p.Data.Gaps[j].Start.In(zone)
		}
		for j := range p.Errors {
			p.Errors[j].Start = p.Errors[j].Start.In(zone)
		}
		for j := range p.Saturation.Episodes {
			p.Saturation.Episodes[j].Start = p.Saturation.Episodes[j].Start.In(zone)
		}
		for j := range p.Assumptions {
			if a := &p.Assumptions[j]; a.Confirmed != nil {
				a.Confirmed = new(a.Confirmed.In(zone))
			}
		}
		if p.Timeline != nil {
			p.Timeline = new(*p.Timeline)
			p.Timeline.From = p.Timeline.From.In(zone)
		}
	}
	return &out
}

func day(t time.Time) string { return alerting.Clock(t, "Mon 2 Jan 15:04") }
