package alerting

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// alertLife is how long an alert lasts without an update: four ticks, like in Prometheus' rule manager.
const alertLife = 4 * time.Minute

// maxOpen bounds the conditions on a board.
const maxOpen = 4096

// Board raises, keeps and resolves alerts from the conditions of each tick, without flapping. A condition becomes an
// alert after Config.RaiseAfter ticks in a row, and is resolved after Config.ResolveAfter ticks without it. While a
// pool's telemetry is stale, its other alerts do not change. Labels do not change while an alert lasts. If a warning
// becomes a page, a new alert is raised and the warning expires. It is pure; a tick costs O(open · log open).
type Board struct {
	raiseAfter, resolveAfter int
	open                     []Open // by key
	dropped                  uint64
}

// Open is one condition on a board, firing or not yet.
type Open struct {
	Name     AlertName `cbor:"1,keyasint"`
	Pool     string    `cbor:"2,keyasint"`
	Resource string    `cbor:"3,keyasint"` // resource, class and severity are from when it was raised
	Role     string    `cbor:"12,keyasint,omitempty"`

	Class       string            `cbor:"4,keyasint"`
	Severity    Severity          `cbor:"5,keyasint"`
	Annotations map[string]string `cbor:"6,keyasint"`
	Held        int               `cbor:"7,keyasint"` // ticks in a row with it, before raising; then ticks in a row as a page of a firing warning
	Clear       int               `cbor:"8,keyasint"` // ticks in a row without it, while firing
	Firing      bool              `cbor:"9,keyasint"`
	StartsAt    time.Time         `cbor:"10,keyasint"`
	UpdatedAt   time.Time         `cbor:"11,keyasint"`
}

// BoardState is the state of a board, for a snapshot.
type BoardState struct {
	Open    []Open `cbor:"1,keyasint"`
	Dropped uint64 `cbor:"2,keyasint"`
}

// NewBoard is an empty board.
func NewBoard(cfg Config) *Board {
	return &Board{raiseAfter: cfg.RaiseAfter, resolveAfter: cfg.ResolveAfter}
}

// State is a copy of the board's state. They share only annotations, which neither changes.
func (b *Board) State() BoardState {
	return BoardState{Open: slices.Clone(b.open), Dropped: b.dropped}
}

// Restore replaces the board's state.
func (b *Board) Restore(s BoardState) {
	b.open, b.dropped = slices.Clone(s.Open), s.Dropped
	slices.SortFunc(b.open, Open.compare)
}

// Dropped counts conditions that were ignored because the board was full (4096).
func (b *Board) Dropped() uint64 { return b.dropped }

// Update takes all conditions at now and returns the firing and the newly resolved alerts, in the order of pool, name
// and role. A condition that is listed twice counts once.
func (b *Board) Update(now time.Time, conditions []Condition) []Alert {
	held := make([]bool, len(b.open), len(b.open)+len(conditions))
	blind := map[string]bool{}
	for i := range conditions {
		c := &conditions[i]
		blind[c.Pool] = blind[c.Pool] || c.Name == TelemetryStale
		key := Open{Name: c.Name, Pool: c.Pool, Role: c.Role, Resource: c.Resource}
		at, found := slices.BinarySearchFunc(b.open, key, Open.compare)
		if !found {
			if c.Fading {
				continue
			}
			if len(b.open) >= maxOpen {
				b.dropped++
				continue
			}
			b.open, held = slices.Insert(b.open, at, key), slices.Insert(held, at, false)
		}
		if o := &b.open[at]; !held[at] && (o.Firing || !c.Fading) {
			held[at] = true
			b.hold(now, o, c)
		}
	}

	var alerts []Alert
	kept := b.open[:0]
	for i, o := range b.open {
		if !held[i] && !blind[o.Pool] {
			o.Clear++
		}
		resolved := o.Clear >= b.resolveAfter
		if o.Firing {
			alerts = append(alerts, o.alert(now, resolved))
		}
		if held[i] || o.Firing && !resolved {
			kept = append(kept, o)
		}
	}
	clear(b.open[len(kept):])
	b.open = kept
	return alerts
}

// hold counts a tick with c.
func (b *Board) hold(now time.Time, o *Open, c *Condition) {
	o.Clear, o.UpdatedAt = 0, now
	o.Annotations = maps.Clone(c.Annotations)
	if o.Firing && (o.Severity == Page || c.Severity != Page || c.Fading) {
		o.Held = 0
		return
	}
	o.Held++
	if c.Immediate || o.Held >= max(cmp.Or(c.Ticks, b.raiseAfter), 1) {
		o.Firing, o.StartsAt, o.Resource, o.Class, o.Severity, o.Held = true, now, c.Resource, c.Class, c.Severity, 0
	}
}

// compare orders by the identity of a condition. A pool has one per name and role, for all resources.
func (o Open) compare(other Open) int {
	c := cmp.Or(strings.Compare(o.Pool, other.Pool), strings.Compare(string(o.Name), string(other.Name)), strings.Compare(o.Role, other.Role))
	if c == 0 && o.Pool == "" {
		c = strings.Compare(o.Resource, other.Resource)
	}
	return c
}

// alert renders a firing condition. If the condition has ended but the alert is not resolved yet, the annotations are
// the last ones, and the description says so. Advisory alerts have a label for routing.
func (o *Open) alert(now time.Time, resolved bool) Alert {
	labels := map[string]string{"severity": string(o.Severity)}
	if o.Pool != "" {
		labels["pool"] = o.Pool
	}
	if o.Annotations["mode"] == string(Advisory) {
		labels["mode"] = string(Advisory)
	}
	if o.Role != "" {
		labels["role"] = o.Role
	}
	if o.Resource != "" {
		labels["resource"] = o.Resource
	}
	if o.Class != "" {
		labels["class"] = o.Class
	}
	a := Alert{
		Name: o.Name, Labels: labels, Annotations: maps.Clone(o.Annotations),
		StartsAt: o.StartsAt.UTC(), UpdatedAt: now, EndsAt: now.Add(alertLife), Resolved: resolved,
	}
	if text := a.Annotations["description"]; o.Clear > 0 && text != "" {
		a.Annotations["description"] = fmt.Sprintf("This has not been so since %s. Before: %s", clock(o.UpdatedAt), text)
	}
	if resolved {
		a.EndsAt = now
	}
	return a
}

// Reopen adds firing alerts to a board that lost its state: they are not raised a second time, and they are resolved.
func (b *Board) Reopen(alerts []Alert) {
	for i := range alerts {
		a := &alerts[i]
		o := Open{
			Name: a.Name, Pool: a.Labels["pool"], Role: a.Labels["role"], Resource: a.Labels["resource"], Class: a.Labels["class"], Severity: Severity(a.Labels["severity"]),
			Annotations: a.Annotations, Firing: true, StartsAt: a.StartsAt, UpdatedAt: a.UpdatedAt,
		}
		at, found := slices.BinarySearchFunc(b.open, o, Open.compare)
		if !found && !a.Resolved && len(b.open) < maxOpen {
			b.open = slices.Insert(b.open, at, o)
		}
	}
}
