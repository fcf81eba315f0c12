package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/pipeline"
)

// The roles of replicas. A pool that is not disaggregated has only [RoleAll]. In a disaggregated one, RoleAll is the
// same as [RoleDecode], like desired_replicas in its events.
const (
	RoleAll     = "all"
	RolePrefill = string(capacity.PrefillRole)
	RoleDecode  = string(capacity.DecodeRole)
)

// Advice is the advice for the autoscaler of one pool.
type Advice struct {
	Replicas int
	View     *PoolView // has a Decision; the rest is missing before the first tick after a start
}

// Withheld is why there is no advice now. An autoscaler that gets it keeps its replicas, or uses its fallback.
type Withheld struct {
	Pool   string
	Reason string
}

// Error implements error.
func (w *Withheld) Error() string { return fmt.Sprintf("no advice for pool %q: %s", w.Pool, w.Reason) }

// UnknownPool says that the daemon has no such pool, or no telemetry of it yet.
type UnknownPool struct {
	Pool  string
	Known []string // some of the known pools
}

// Error implements error.
func (u *UnknownPool) Error() string {
	if len(u.Known) == 0 {
		return fmt.Sprintf("pool %q is not known: there is telemetry of no pool yet", u.Pool)
	}
	return fmt.Sprintf("pool %q is not known, or without telemetry as yet; there are %s", u.Pool, strings.Join(u.Known, ", "))
}

// Advise returns the replicas that a pool, or a role in it, should have, from its last decision. now is the clock of
// the process. The error is [*UnknownPool], or [*Withheld] if autoscalers must not follow the decision: see [withheld].
func Advise(r Reader, pool, role string, now time.Time) (Advice, error) {
	views := r.Pools()
	i, ok := slices.BinarySearchFunc(views, pool, func(v PoolView, name string) int { return strings.Compare(v.Pool, name) })
	if !ok {
		return Advice{}, unknownPool(pool, views)
	}
	v := &views[i]
	d := v.Decision
	if d == nil {
		return Advice{}, &Withheld{pool, "nothing is decided yet since the daemon started with this configuration"}
	}
	if err := withheld(d); err != nil {
		return Advice{}, err
	}
	life := d.Expires.Sub(d.Tick)
	if age := now.Sub(v.Decided); age > life {
		return Advice{}, &Withheld{pool, fmt.Sprintf("the last decision is %s old and lapsed after %s", age.Round(time.Second), life)}
	}
	if r.Status().Clock == string(pipeline.WallClock) && now.After(d.Expires) {
		return Advice{}, &Withheld{pool, "the last decision lapsed at " + d.Expires.UTC().Format(time.RFC3339) + ", for the daemon is behind its stream"}
	}
	n, ok := replicasOf(d, role)
	if !ok {
		return Advice{}, &Withheld{pool, fmt.Sprintf("it has no role %q", role)}
	}
	return Advice{n, v}, nil
}

// withheld is nil if autoscalers may follow a decision. They may not if too little is known, or in advisory mode.
func withheld(d *alerting.Decision) error {
	switch {
	case d.Withheld != "":
		return &Withheld{d.Pool, d.Withheld}
	case d.Mode != alerting.Active:
		return &Withheld{d.Pool, fmt.Sprintf("the mode is %s: it would ask for %d replicas", d.Mode, d.Desired)}
	}
	return nil
}

// replicasOf is the number of replicas that a decision requests for a role.
func replicasOf(d *alerting.Decision, role string) (n int, ok bool) {
	switch {
	case role == RoleAll:
		return d.Desired, true
	case d.ByRole != nil && role == RolePrefill:
		return d.ByRole.Prefill, true
	case d.ByRole != nil && role == RoleDecode:
		return d.ByRole.Decode, true
	}
	return 0, false
}

func unknownPool(pool string, views []PoolView) error {
	e := &UnknownPool{Pool: pool}
	for i := range views {
		if e.Known = append(e.Known, views[i].Pool); len(e.Known) == 8 {
			break
		}
	}
	return e
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
