package alerting

import (
	"encoding/json"
	"errors"
	"time"
)

// EventSource is the CloudEvents source of all events; their ids are unique within it.
const EventSource = "/forewarm"

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

func newCloudEvent[T any](id, kind, subject string, at time.Time, data T) CloudEvent[T] {
	return CloudEvent[T]{
		SpecVersion: "1.0", ID: id, Source: EventSource, Type: kind, Subject: subject, Time: at.UTC(),
		DataContentType: "application/json", Data: data,
	}
}

// AlertType is the type of an alert's event.
const AlertType = "forewarm.alert.v1"

// AlertEvent is an alert that fires or is resolved. Its id has the alert's identity, start time and state.
type AlertEvent = CloudEvent[AlertData]

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
	return newCloudEvent(a.EventID(), AlertType, a.Labels["pool"], a.UpdatedAt, AlertData{
		Name: a.Name, State: a.state(), Mode: Mode(a.Annotations["mode"]), Labels: a.Labels, Annotations: a.Annotations,
		StartsAt: a.StartsAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
	})
}

// ReportType is the type of a report's event.
const ReportType = "forewarm.report.v1"

// ReportData is the data of a report's event. Full is the whole report; null if it is too large.
type ReportData struct {
	Report
	Full json.RawMessage `json:"report"`
}

// NewReportEvent renders a report; full is nil or the report as JSON. Its time is the end of the period.
func NewReportEvent(r *Report, full []byte) CloudEvent[ReportData] {
	return newCloudEvent(r.ID, ReportType, "", r.To, ReportData{Report: *r, Full: full})
}

// CloudEvent is the notice as a CloudEvent whose data is JSON.
func (n Notice) CloudEvent() (CloudEvent[json.RawMessage], error) {
	switch {
	case n.Decision != nil:
		return raw(NewEvent(n.Decision))
	case n.Alert != nil:
		return raw(NewAlertEvent(n.Alert))
	case n.Report != nil:
		return raw(NewReportEvent(n.Report, nil))
	}
	return CloudEvent[json.RawMessage]{}, errors.New("an empty notice is no event")
}

func raw[T any](e CloudEvent[T]) (CloudEvent[json.RawMessage], error) {
	data, err := json.Marshal(e.Data)
	return CloudEvent[json.RawMessage]{e.SpecVersion, e.ID, e.Source, e.Type, e.Subject, e.Time, e.DataContentType, data}, err
}
