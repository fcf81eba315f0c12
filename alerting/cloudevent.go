package alerting

import (
	"encoding/json"
	"errors"
	"time"
)

// AlertType is the type of an alert's event; it changes only with the meaning of its data.
const AlertType = "forewarm.alert.v1"

// AlertEvent is the raising of an alert, or its end, as a CloudEvent (CloudEvents 1.0, JSON event format).
type AlertEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"` // idempotency key: alert, when it was raised, and firing or resolved
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"` // the pool
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            AlertData `json:"data"`
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

// NewAlertEvent renders an alert. The event shares its maps.
func NewAlertEvent(a *Alert) AlertEvent {
	return AlertEvent{
		SpecVersion: "1.0", ID: a.EventID(), Source: EventSource, Type: AlertType, Subject: a.Labels["pool"], Time: a.UpdatedAt.UTC(),
		DataContentType: "application/json",
		Data: AlertData{Name: a.Name, State: a.state(), Mode: Mode(a.Annotations["mode"]), Labels: a.Labels, Annotations: a.Annotations,
			StartsAt: a.StartsAt.UTC(), UpdatedAt: a.UpdatedAt.UTC()},
	}
}

// CloudEvent is the notice as a CloudEvent in the JSON format.
func (n Notice) CloudEvent() ([]byte, error) {
	switch {
	case n.Decision != nil:
		return json.Marshal(NewEvent(n.Decision))
	case n.Alert != nil:
		return json.Marshal(NewAlertEvent(n.Alert))
	case n.Report != nil:
		return json.Marshal(NewReportEvent(n.Report, nil))
	}
	return nil, errors.New("an empty notice is no event")
}

// ReportType is the type of a report's event; it changes only with the meaning of its data.
const ReportType = "forewarm.report.v1"

// ReportEvent is a report that was made, as a CloudEvent.
type ReportEvent struct {
	SpecVersion     string     `json:"specversion"`
	ID              string     `json:"id"` // idempotency key: the period
	Source          string     `json:"source"`
	Type            string     `json:"type"`
	Time            time.Time  `json:"time"` // the period's end
	DataContentType string     `json:"datacontenttype"`
	Data            ReportData `json:"data"`
}

// ReportData is the data of a report's event. Report is all of the report, null where it is too large to be sent along.
type ReportData struct {
	Report
	Full json.RawMessage `json:"report"`
}

// NewReportEvent renders a report; full is nil or the report as JSON.
func NewReportEvent(r *Report, full []byte) ReportEvent {
	return ReportEvent{
		SpecVersion: "1.0", ID: r.ID, Source: EventSource, Type: ReportType, Time: r.To.UTC(), DataContentType: "application/json",
		Data: ReportData{Report: *r, Full: full},
	}
}
