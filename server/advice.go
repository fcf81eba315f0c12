package server

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// The roles of replicas. A pool that is not disaggregated has only [RoleAll]. In a disaggregated one, RoleAll is the
// same as [RoleDecode], like desired_replicas in its events.
const (
	RoleAll     = "all"
	RolePrefill = string(capacity.PrefillRole)
	RoleDecode  = string(capacity.DecodeRole)
)

// Advise returns the replicas that a pool, or a role in it, should have, from its last decision. now is the clock of
// the process. The view has a Decision. The error is a [*Problem]: status 404 for an unknown pool, 400 for a role that
// the pool does not have, and 503 if autoscalers must not follow the decision. An autoscaler then keeps its replicas, or
// uses its fallback.
func Advise(r Reader, pool, role string, now time.Time) (replicas int, v *PoolView, err error) {
	if v, err = find(r, pool); err != nil {
		return 0, nil, err
	}
	if roles := rolesIn(v.Decision); !slices.Contains(roles, role) {
		return 0, nil, Problemf(http.StatusBadRequest, "no role %q of pool %q: the roles are %s", role, pool, strings.Join(roles, ", "))
	}
	if reason := withheld(r, v, now); reason != "" {
		return 0, nil, Problemf(http.StatusServiceUnavailable, "no advice for pool %q: %s", pool, reason)
	}
	return replicasOf(v.Decision, role), v, nil
}

// withheld is why autoscalers must not follow the decision of a pool now; "" if they may.
func withheld(r Reader, v *PoolView, now time.Time) string {
	d := v.Decision
	if d == nil {
		return "nothing is decided yet since the daemon started"
	}
	life := d.Expires.Sub(d.Tick)
	status := r.Status()
	switch age := now.Sub(status.TickedAt) + status.Behind; {
	case d.Withheld != "":
		return d.Withheld
	case d.Mode != alerting.Active:
		return fmt.Sprintf("the mode is %s: it would ask for %d replicas", d.Mode, d.Desired)
	case age > life:
		return fmt.Sprintf("the last decision is %s old and expired after %s", age.Round(time.Second), life)
	}
	return ""
}

// rolesIn are the roles that a decision has replicas for; all roles before the first decision.
func rolesIn(d *alerting.Decision) []string {
	if d != nil && d.ByRole == nil {
		return []string{RoleAll}
	}
	return []string{RoleAll, RoleDecode, RolePrefill}
}

// replicasOf is the number of replicas that a decision requests for one of its roles.
func replicasOf(d *alerting.Decision, role string) int {
	switch role {
	case RolePrefill:
		return d.ByRole.Prefill
	case RoleDecode:
		return d.ByRole.Decode
	}
	return d.Desired
}

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
	pool, role := r.PathValue("pool"), cmp.Or(r.FormValue("role"), RoleAll)
	replicas, v, err := Advise(s.reader, pool, role, time.Now())
	if err != nil {
		return nil, err
	}
	return desiredJSON{pool, role, replicas, v.Decision.EventID(), value.Instant(v.Decision.Expires)}, nil
}
