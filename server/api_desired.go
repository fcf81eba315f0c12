package server

import (
	"errors"
	"net/http"
	"time"
)

// desiredJSON is the advice for an autoscaler that reads JSON, such as KEDA's metrics-api trigger.
type desiredJSON struct {
	Pool     string     `json:"pool"`
	Role     string     `json:"role"`
	Desired  int        `json:"desired_replicas"`
	Decision string     `json:"decision"`
	Expires  *time.Time `json:"expires_at"`
}

// getDesired answers with the advice for a pool, or with 503 and the reason if there is none: autoscalers treat a
// status other than 200 as a failure.
func (s *Server) getDesired(r *http.Request) (any, error) {
	pool, role := r.PathValue("pool"), r.FormValue("role")
	if role == "" {
		role = RoleAll
	}
	advice, err := Advise(s.reader, pool, role, time.Now())
	if err != nil {
		code := http.StatusServiceUnavailable
		if _, unknown := errors.AsType[*UnknownPool](err); unknown {
			code = http.StatusNotFound
		}
		return nil, Problemf(code, "%v", err)
	}
	d := advice.View.Decision
	return desiredJSON{pool, role, advice.Replicas, d.EventID(), instant(d.Expires)}, nil
}
