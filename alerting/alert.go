package alerting

import (
	"context"
	"strconv"
	"time"
)

// AlertName is one of the alerts that Forewarm can raise.
type AlertName string

// The alerts; their meaning and runbooks are in the README.
const (
	SaturationAhead  AlertName = "ForewarmSaturationAhead"
	TooLateToWarm    AlertName = "ForewarmTooLateToWarm"
	AtCapacityLimit  AlertName = "ForewarmAtCapacityLimit"
	TelemetryStale   AlertName = "ForewarmTelemetryStale"
	ForecastDegraded AlertName = "ForewarmForecastDegraded"
	CacheHitCollapse AlertName = "ForewarmCacheHitCollapse"
	RetryStorm       AlertName = "ForewarmRetryStorm"
	TelemetryFault   AlertName = "ForewarmTelemetryFault"
)

// Alert is one alert as Alertmanager knows it. Labels identify it and stay put while it lasts; numbers live in
// annotations, because a changing label makes a new alert.
type Alert struct {
	Name        AlertName         `json:"name" cbor:"1,keyasint"`
	Labels      map[string]string `json:"labels" cbor:"2,keyasint"` // without alertname
	Annotations map[string]string `json:"annotations" cbor:"3,keyasint"`
	StartsAt    time.Time         `json:"starts_at" cbor:"4,keyasint"`
	UpdatedAt   time.Time         `json:"updated_at" cbor:"5,keyasint"` // the tick it is from
	EndsAt      time.Time         `json:"ends_at" cbor:"6,keyasint"`    // when it lapses unless it is sent again; at or before UpdatedAt when resolved
	Resolved    bool              `json:"resolved" cbor:"7,keyasint"`
}

// Notice is one thing to deliver: a decision that is published, or an alert.
type Notice struct {
	Decision *Decision
	Alert    *Alert
}

// Sink delivers notices to one consumer. Send blocks until the consumer has the notice, or fails; it must be safe to
// call again with the same notice, because a delivery that failed may have arrived. The dispatcher calls one Send at a
// time per sink, retries on errors that are not [Permanent], and gives up at the notice's expiry.
type Sink interface {
	Name() string
	Send(ctx context.Context, n Notice) error
}

func eventID(pool string, generation int64) string {
	return pool + "-" + strconv.FormatInt(generation, 10)
}

// Permanent wraps an error that trying again cannot mend: the consumer understood the notice and refuses it.
type Permanent struct{ Err error }

// Error says what the wrapped error says.
func (p Permanent) Error() string { return p.Err.Error() }

// Unwrap is the wrapped error.
func (p Permanent) Unwrap() error { return p.Err }

// Identity is what stays the same while an alert lasts: its name, pool and resource.
func (a *Alert) Identity() string {
	return string(a.Name) + "/" + a.Labels["pool"] + "/" + a.Labels["resource"]
}
