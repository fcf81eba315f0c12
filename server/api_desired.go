package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// desiredJSON is one number for an autoscaler that reads JSON, such as KEDA's metrics-api trigger, and whose it is.
type desiredJSON struct {
	Pool     string     `json:"pool"`
	Role     string     `json:"role"`
	Desired  int        `json:"desired_replicas"`
	Decision string     `json:"decision"`
	Expires  *time.Time `json:"expires_at"`
}

// getDesired answers with what a pool should have where that may be obeyed, else with 503 and the reason: an autoscaler
// takes a status other than 200 for a failure, and a number for an order.
func (s *Server) getDesired(w http.ResponseWriter, r *http.Request) {
	pool, role, obey := r.PathValue("pool"), r.FormValue("role"), false
	if role == "" {
		role = RoleAll
	}
	if v := r.FormValue("obey_advisory"); v != "" {
		var err error
		if obey, err = strconv.ParseBool(v); err != nil {
			s.writeJSON(w, http.StatusBadRequest, map[string]string{"error": "obey_advisory is " + strconv.Quote(v) + ": write true or false"})
			return
		}
	}
	advice, err := Advise(s.reader, pool, role, obey, time.Now())
	if err != nil {
		code := http.StatusServiceUnavailable
		if _, unknown := errors.AsType[*UnknownPool](err); unknown {
			code = http.StatusNotFound
		}
		s.writeJSON(w, code, map[string]string{"error": err.Error()})
		return
	}
	d := advice.View.Decision
	s.writeJSON(w, http.StatusOK, desiredJSON{pool, role, advice.Replicas, d.EventID(), instant(d.Expires)})
}
