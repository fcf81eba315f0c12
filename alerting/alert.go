package alerting

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// AlertName is one of the alerts that Forewarm can raise.
type AlertName string

// The alerts of a pool. Each has a page in deploy/runbooks.
const (
	SaturationAhead  AlertName = "ForewarmSaturationAhead"
	TooLateToWarm    AlertName = "ForewarmTooLateToWarm"
	AtCapacityLimit  AlertName = "ForewarmAtCapacityLimit"
	TelemetryStale   AlertName = "ForewarmTelemetryStale"
	ForecastDegraded AlertName = "ForewarmForecastDegraded"
	RetryStorm       AlertName = "ForewarmRetryStorm"
	BelowReserve     AlertName = "ForewarmBelowReserve"
	TelemetryFault   AlertName = "ForewarmTelemetryFault"
	LatencyObjective AlertName = "ForewarmLatencyObjective"
	// RateContradicted says that the observed rate of a replica differs from the configuration.
	RateContradicted AlertName = "ForewarmRateContradicted"
)

// The alerts about the daemon itself.
const (
	InputDropped AlertName = "ForewarmInputDropped"
	SinkFailing  AlertName = "ForewarmSinkFailing"
	// StorageDegraded says that history or state cannot be written; decisions continue in memory.
	StorageDegraded AlertName = "ForewarmStorageDegraded"
	// DecisionsDiverge says that two daemons, or one before and after a restart, decided differently from the same log.
	DecisionsDiverge AlertName = "ForewarmDecisionsDiverge"
	Watchdog         AlertName = "ForewarmWatchdog"
)

// AlertNames are all alert names.
var AlertNames = []AlertName{
	SaturationAhead, TooLateToWarm, AtCapacityLimit, TelemetryStale, ForecastDegraded, RetryStorm, BelowReserve, TelemetryFault, LatencyObjective, RateContradicted,
	InputDropped, SinkFailing, StorageDegraded, DecisionsDiverge, Watchdog,
}

// Alert is one alert in the model of Alertmanager. Labels identify it and do not change while it lasts, so numbers are
// in annotations.
type Alert struct {
	Name        AlertName         `json:"name" cbor:"1,keyasint"`
	Labels      map[string]string `json:"labels" cbor:"2,keyasint"` // without alertname
	Annotations map[string]string `json:"annotations" cbor:"3,keyasint"`
	StartsAt    time.Time         `json:"starts_at" cbor:"4,keyasint"`
	UpdatedAt   time.Time         `json:"updated_at" cbor:"5,keyasint"` // its tick
	EndsAt      time.Time         `json:"ends_at" cbor:"6,keyasint"`    // when it ends without an update; at or before UpdatedAt if resolved
	Resolved    bool              `json:"resolved" cbor:"7,keyasint"`
}

func eventID(pool string, generation int64) string {
	return pool + "-" + strconv.FormatInt(generation, 10)
}

// GenerationOf is the generation in the id of a pool's event; ok is false for any other id.
func GenerationOf(pool, id string) (generation int64, ok bool) {
	digits, ok := strings.CutPrefix(id, pool+"-")
	if !ok {
		return 0, false
	}
	generation, err := strconv.ParseInt(digits, 10, 64)
	return generation, err == nil && generation >= 0
}

// EventID identifies the start or the end of an alert. It stays the same while the alert fires.
func (a *Alert) EventID() string {
	return fmt.Sprintf("%s@%d/%s", a.Identity(), a.StartsAt.Unix(), a.state())
}

func (a *Alert) state() string {
	if a.Resolved {
		return "resolved"
	}
	return "firing"
}

// Identity stays the same while an alert lasts: name, pool and resource, and role and class if it has them.
func (a *Alert) Identity() string {
	id := string(a.Name) + "/" + a.Labels["pool"] + "/" + a.Labels["resource"]
	for _, label := range []string{"role", "class"} {
		if v := a.Labels[label]; v != "" {
			id += "/" + label + "=" + v
		}
	}
	return id
}
