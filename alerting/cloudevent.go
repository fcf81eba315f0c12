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
	}
	return nil, errors.New("an empty notice is no event")
}
