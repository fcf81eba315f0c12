package alerting

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// The types of events. A type changes only with the meaning of its data.
const (
	EventType  = "forewarm.prescale.v1" // a decision
	AlertType  = "forewarm.alert.v1"
	ReportType = "forewarm.report.v1"
)

// Event is a decision as a CloudEvent. An autoscaler must check Mode, Withheld, Generation and ExpiresAt of the data.
type Event = CloudEvent[Prescale]

// Prescale is the data of a pre-scale event. Times are RFC 3339 in UTC or null; probabilities and quantiles are
// fractions.
type Prescale struct {
	ID         string    `json:"id"`         // pool and generation: the same each time the event is sent
	Generation int64     `json:"generation"` // events with a lower one than already seen are stale
	Pool       string    `json:"pool"`
	IssuedAt   time.Time `json:"issued_at"`  // the tick of the decision
	ExpiresAt  time.Time `json:"expires_at"` // ignore the event after this

	NeededBy        *time.Time `json:"needed_by"` // when the requested replicas must serve
	Mode            Mode       `json:"mode"`      // follow only active decisions
	Action          Action     `json:"action"`
	Current         Current    `json:"replicas"`
	DesiredReplicas int        `json:"desired_replicas"`          // that the pool should have, including pending ones
	Withheld        string     `json:"withheld,omitempty"`        // why not to follow desired_replicas, such as in the first minutes
	DesiredByRole   *Roles     `json:"desired_by_role,omitempty"` // of a disaggregated pool; decode is desired_replicas
	// for the load of this minute, without a forecast; null if no capacity is known
	FloorReplicas *int              `json:"floor_replicas"`
	Reserves      capacity.Reserves `json:"reserves"` // replicas kept in addition to the need of demand

	// the resource that needs most replicas; missing if no capacity is known
	BindingResource string `json:"binding_resource,omitempty"`
	// of saturation within the lead window without scaling; null if no capacity is known
	Probability   *float64      `json:"saturation_probability"`
	SaturationETA SaturationETA `json:"saturation_at"` // when it saturates without scaling
	// of a disaggregated pool's prefill replicas; the above is for decode replicas
	Prefill      *Saturation `json:"prefill_saturation,omitempty"`
	LeadTime     float64     `json:"lead_time_seconds"` // the warm-up quantile used
	Quantile     float64     `json:"quantile"`          // of demand to provide for
	QuantileFrom string      `json:"quantile_from"`     // stated, cost or default

	Drivers []forecaster.Driver      `json:"drivers"`          // causes of a rise
	Events  []forecaster.EventEffect `json:"events,omitempty"` // scheduled events in the forecast
	// bounds that changed the number, such as "replicas.max 16: 19 wanted"
	Constraints []string `json:"constraints"`
	// by class, while saturation cannot be averted; other classes are not limited
	Admission []AdmissionLimit `json:"admission_limits,omitempty"`
	Retries   *Retried         `json:"retries,omitempty"` // load that retries add to the binding resource
	Reason    string           `json:"reason"`            // in sentences, for people
	Evidence  string           `json:"evidence"`          // pool, tick and stream sequence of the decision in the log
	Model     string           `json:"model,omitempty"`   // of the forecast of the binding resource
	// cold below an hour of known minutes, warm below two days, then seasonal
	Confidence string   `json:"confidence"`
	Warnings   []string `json:"warnings"` // what was assumed, in sentences
}

// Current has the numbers of replicas at the decision.
type Current struct {
	Ready   int `json:"ready"`
	Pending int `json:"pending"`
}

// SaturationETA is when the binding resource saturates, by quantile of time; null is beyond the horizon.
type SaturationETA struct {
	P10 *time.Time `json:"p10"`
	P50 *time.Time `json:"p50"`
	P90 *time.Time `json:"p90"`
}

// Saturation is how likely and when a resource saturates: the one that needs most replicas.
type Saturation struct {
	BindingResource string        `json:"binding_resource,omitempty"` // missing if no capacity is known
	Probability     *float64      `json:"saturation_probability"`     // of saturation within the lead window; null if no capacity is known
	SaturationETA   SaturationETA `json:"saturation_at"`
}

// NewPrescale renders a decision. It shares strings and lists with d.
func NewPrescale(d *Decision) Prescale {
	tick := d.Tick.UTC()
	data := Prescale{
		ID: d.EventID(), Generation: d.Generation, Pool: d.Pool, IssuedAt: tick, ExpiresAt: d.Expires.UTC(),
		NeededBy: value.Instant(d.NeededBy), Mode: d.Mode, Action: d.PoolAction(),
		Current:         Current{Ready: d.Ready, Pending: d.Pending},
		DesiredReplicas: d.Desired, Withheld: d.Withheld, DesiredByRole: d.ByRole,
		FloorReplicas: d.SeenFloor(), Reserves: d.Reserves,
		BindingResource: d.Binding, Probability: d.saturation().Probability,
		SaturationETA: saturationTimes(tick, d.ETA), LeadTime: math.Round(d.Lead.Seconds()),
		Quantile: round(d.Quantile), QuantileFrom: string(d.QuantileFrom),
		Drivers: append([]forecaster.Driver{}, d.Drivers...), Events: d.Events,
		Constraints: texts(d.Constraints), Admission: d.Admission, Retries: d.Retried(d.Binding), Reason: d.Reason,
		Evidence: fmt.Sprintf("%s@%s#%d", d.Pool, tick.Format(time.RFC3339), d.Sequence),
		Model:    d.Model, Confidence: string(d.Confidence), Warnings: append([]string{}, d.Warnings...),
	}
	if v := d.Prefilling(); v != nil {
		data.Prefill = new(v.saturation())
	}
	if d.ByRole != nil {
		for _, c := range d.ByRole.PrefillConstraints {
			data.Constraints = append(data.Constraints, "prefill: "+c.String())
		}
	}
	return data
}

// saturation is that of the binding resource.
func (d *Decision) saturation() Saturation {
	s := Saturation{BindingResource: d.Binding, SaturationETA: saturationTimes(d.Tick.UTC(), d.ETA)}
	if d.Binding != "" {
		s.Probability = new(round(d.Probability))
	}
	return s
}

// saturationTimes are the absolute times of an ETA.
func saturationTimes(tick time.Time, e forecaster.ETA) SaturationETA {
	return SaturationETA{P10: ahead(tick, e.P10), P50: ahead(tick, e.P50), P90: ahead(tick, e.P90)}
}

// ahead is tick + d, nil for Never.
func ahead(tick time.Time, d time.Duration) *time.Time {
	if d == forecaster.Never {
		return nil
	}
	return value.Instant(tick.Add(d))
}

// round keeps four decimals, enough for a share or factor.
func round(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// StructuredType is the content type of a CloudEvent in structured mode.
const StructuredType = "application/cloudevents+json"

// CloudEvent is an event in the JSON event format of CloudEvents 1.0.
type CloudEvent[T any] struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"` // idempotency key
	Source          string    `json:"source"`
	Type            string    `json:"type"`              // changes only with the meaning of the data
	Subject         string    `json:"subject,omitempty"` // the pool, if the event is about one
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            T         `json:"data"`
}

func newCloudEvent(id, kind, subject string, at time.Time, data any) CloudEvent[any] {
	const source = "/forewarm" // ids are unique within it
	return CloudEvent[any]{
		SpecVersion: "1.0", ID: id, Source: source, Type: kind, Subject: subject, Time: at.UTC(),
		DataContentType: "application/json", Data: data,
	}
}

// AlertData is the data of an alert's event.
type AlertData struct {
	Name        AlertName         `json:"name"`
	State       string            `json:"state"` // firing, resolved
	Mode        Mode              `json:"mode"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"starts_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
}

// ReportData is the data of a report's event. Full is the whole report; null if it is too large.
type ReportData struct {
	Report
	Full json.RawMessage `json:"report"`
}

// CloudEvent is the notice as a CloudEvent, which shares strings, maps and lists with n. full is a report as JSON.
func (n Notice) CloudEvent(full json.RawMessage) (CloudEvent[any], error) {
	switch {
	case n.Decision != nil:
		d := n.Decision
		return newCloudEvent(d.EventID(), EventType, d.Pool, d.Tick, NewPrescale(d)), nil
	case n.Alert != nil:
		a := n.Alert
		return newCloudEvent(a.EventID(), AlertType, a.Labels["pool"], a.UpdatedAt, AlertData{
			Name: a.Name, State: a.state(), Mode: Mode(a.Annotations["mode"]), Labels: a.Labels, Annotations: a.Annotations,
			StartsAt: a.StartsAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
		}), nil
	case n.Report != nil: // its time is the end of the period
		return newCloudEvent(n.Report.ID, ReportType, "", n.Report.To, ReportData{Report: *n.Report, Full: full}), nil
	}
	return CloudEvent[any]{}, errors.New("an empty notice is no event")
}
