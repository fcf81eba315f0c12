package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/pipeline"
)

// The roles of replicas that can be asked for. A pool that is not disaggregated has [RoleAll] alone; in one that is, that is
// the same as [RoleDecode], as desired_replicas is in its events.
const (
	RoleAll     = "all"
	RolePrefill = string(capacity.PrefillRole)
	RoleDecode  = string(capacity.DecodeRole)
)

// Advice is what an autoscaler that obeys is told of one pool.
type Advice struct {
	Replicas int
	View     *PoolView // its Decision is there; the rest is not before the first tick after a start
}

// Withheld says why there is no advice now. An autoscaler that is told so keeps what it has, or falls back; a number in
// its place would be obeyed.
type Withheld struct {
	Pool   string
	Reason string
}

// Error implements error.
func (w *Withheld) Error() string { return fmt.Sprintf("no advice for pool %q: %s", w.Pool, w.Reason) }

// UnknownPool says that the daemon has no such pool, or has heard nothing of it yet.
type UnknownPool struct {
	Pool  string
	Known []string // some of those there are
}

// Error implements error.
func (u *UnknownPool) Error() string {
	if len(u.Known) == 0 {
		return fmt.Sprintf("pool %q is not known: there is telemetry of no pool yet", u.Pool)
	}
	return fmt.Sprintf("pool %q is not known, or without telemetry as yet; there are %s", u.Pool, strings.Join(u.Known, ", "))
}

// Advise gives the replicas that a pool, or a role in it, should have, by its last decision. now is the clock of the
// process. The error is [*UnknownPool], or [*Withheld] where the decision is not fit to be obeyed: see [withheld].
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

// withheld is nil when a decision is fit to be obeyed, as far as it tells by itself: where too little is known to obey it, the
// autoscaler knows better how many replicas there are; and advisory ones are for people.
func withheld(d *alerting.Decision) error {
	switch {
	case d.Withheld != "":
		return &Withheld{d.Pool, d.Withheld}
	case d.Mode != alerting.Active:
		return &Withheld{d.Pool, fmt.Sprintf("the mode is %s: it would ask for %d replicas", d.Mode, d.Desired)}
	}
	return nil
}

// replicasOf is what a decision asks for in a role.
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
