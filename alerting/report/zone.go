package report

import (
	"encoding/json"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// Zone is a time zone for people; the zero value is UTC. JSON has its name.
type Zone struct{ *time.Location }

func (z Zone) location() *time.Location {
	if z.Location == nil {
		return time.UTC
	}
	return z.Location
}

// MarshalJSON encodes the zone's name.
func (z Zone) MarshalJSON() ([]byte, error) { return json.Marshal(z.location().String()) }

// Day shows a minute in the report's zone.
func (r *Report) Day(t time.Time) string {
	return alerting.Clock(t.In(r.Zone.location()), "Mon 2 Jan 15:04")
}

// period shows the report's period, and the zone.
func (r *Report) period(layout string) string {
	return alerting.Period(r.From.In(r.Zone.location()), r.To, layout)
}
