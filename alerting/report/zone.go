package report

import (
	"encoding/json"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// Zone is the time zone of times that people read; the zero value is UTC. JSON has its name.
type Zone struct{ *time.Location }

func (z Zone) location() *time.Location {
	if z.Location == nil {
		return time.UTC
	}
	return z.Location
}

// MarshalJSON gives the zone's name.
func (z Zone) MarshalJSON() ([]byte, error) { return json.Marshal(z.location().String()) }

// Day is a minute as clocks of the report's zone show it.
func (r *Report) Day(t time.Time) string {
	return alerting.Clock(t.In(r.Zone.location()), "Mon 2 Jan 15:04")
}

// period names the time that the report is about, and the zone.
func (r *Report) period(layout string) string {
	return alerting.Period(r.From.In(r.Zone.location()), r.To, layout)
}
