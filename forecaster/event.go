package forecaster

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// EventConfig is one entry of the calendar of known events of a pool: a launch, a campaign, a nightly batch.
type EventConfig struct {
	Name string `yaml:"name"`
	Pool string `yaml:"pool"`
	// Start is when demand begins to change, by the pool's clock ("2026-12-01 09:00") or with an offset (RFC 3339).
	Start string `yaml:"start"`
	// Ramp is how long demand takes to change after Start, and to change back once Duration is over.
	Ramp     time.Duration `yaml:"ramp"`
	Duration time.Duration `yaml:"duration"`
	// Factor is demand with the event over demand without it; in 90 % of such events it is between Factor/Uncertainty
	// and Factor·Uncertainty.
	Factor      float64 `yaml:"factor"`
	Uncertainty float64 `yaml:"uncertainty"`
	Repeat      string  `yaml:"repeat"` // daily or weekly, at the same time by the pool's clock; "": once
}

// Event is a validated EventConfig.
type Event struct {
	EventConfig
	start time.Time // in the zone of repetitions
	days  int       // between starts; 0: once
}

// Bounds of an event.
const (
	MaxEvents        = 256 // in a calendar
	maxEventFactor   = 100
	maxUncertainty   = 10
	maxEventDuration = 7 * day
	day              = 24 * time.Hour
	z90              = 1.6449 // 90 % of a normal distribution are within so many standard deviations
)

// NewEvent validates an event. zone is that of the pool, UTC if nil. Defaults: duration 1 h, no ramp, uncertainty 1.5.
// Errors name the key, the value, the bound and the fix.
func NewEvent(c EventConfig, zone *time.Location) (Event, error) {
	zone, c.Duration, c.Uncertainty = cmp.Or(zone, time.UTC), cmp.Or(c.Duration, time.Hour), cmp.Or(c.Uncertainty, 1.5)
	e := Event{EventConfig: c}
	var err error
	if e.start, err = time.ParseInLocation("2006-01-02 15:04", c.Start, zone); err != nil {
		if e.start, err = time.Parse(time.RFC3339, c.Start); err != nil {
			return e, fmt.Errorf("start: %q must be a time by the pool's clock such as 2026-12-01 09:00, or one with an offset such as 2026-12-01T09:00:00+01:00", c.Start)
		}
		e.start = e.start.In(zone)
	}
	period := maxEventDuration
	switch c.Repeat {
	case "":
	case "daily":
		e.days, period = 1, day
	case "weekly":
		e.days = 7
	default:
		return e, fmt.Errorf("repeat: %q must be daily, weekly or left out", c.Repeat)
	}
	switch {
	case c.Name == "":
		return e, fmt.Errorf("name: must not be empty; name the event")
	case c.Pool == "":
		return e, fmt.Errorf("pool: must not be empty; name the pool that serves it")
	case !(c.Factor >= 1.0/maxEventFactor && c.Factor <= maxEventFactor):
		return e, fmt.Errorf("factor: %g must be %g to %g; it is demand with the event over demand without it", c.Factor, 1.0/maxEventFactor, float64(maxEventFactor))
	case !(c.Uncertainty >= 1 && c.Uncertainty <= maxUncertainty):
		return e, fmt.Errorf("uncertainty: %g must be 1 to %d; 1.5 says that the factor may be half as large again, or two thirds", c.Uncertainty, maxUncertainty)
	case c.Duration < time.Minute:
		return e, fmt.Errorf("duration: %s must be at least 1m", c.Duration)
	case c.Ramp < 0 || c.Ramp > c.Duration:
		return e, fmt.Errorf("ramp: %s must be 0s to the duration %s", c.Ramp, c.Duration)
	case c.Duration+c.Ramp > period:
		return e, fmt.Errorf("duration: %s and the ramp %s must end within %s", c.Duration, c.Ramp, period)
	}
	return e, nil
}

// strength is that of the event at t, 0…1. Demand is multiplied by Factor to this power, so a ramp grows evenly.
func (e *Event) strength(t time.Time) float64 {
	newest := 0
	if e.days > 0 {
		newest = max(0, int(t.Sub(e.start)/day)/e.days)
	}
	best := 0.0
	for n := max(0, newest-1); n <= newest+1; n++ { // the one before may not be over, and days may have 23 hours
		best = math.Max(best, e.strengthAfter(t.Sub(e.start.AddDate(0, 0, n*e.days))))
	}
	return best
}

// strengthAfter is the strength at a time after a start.
func (e *Event) strengthAfter(past time.Duration) float64 {
	switch over := past - e.Duration; {
	case past < 0, over >= e.Ramp && over >= 0:
		return 0
	case over > 0:
		return 1 - float64(over)/float64(e.Ramp)
	case past < e.Ramp:
		return float64(past) / float64(e.Ramp)
	}
	return 1
}
