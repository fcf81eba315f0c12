package alerting

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// alertLife is how long an alert lives without being sent again: four ticks, as Prometheus' rule manager does it.
const alertLife = 4 * time.Minute

// maxOpen bounds the conditions that a board follows.
const maxOpen = 4096

// Board raises, keeps and resolves alerts: it turns what is the case tick by tick into alerts that are rare and do not
// flap. A condition becomes an alert after Config.RaiseAfter ticks in a row, and stops being one after
// Config.ResolveAfter ticks without it. While a pool's telemetry is stale its other alerts stay as they are: not
// seeing a problem is no proof that it is gone. Labels stay while an alert lasts, but a warning that has become worth a
// page is raised anew as one; the warning lapses. It is pure; a tick costs O(open · log open).
type Board struct {
	raiseAfter, resolveAfter int
	open                     []Open // by key
	dropped                  uint64
}

// Open is one condition that is followed, whether it fires yet or not.
type Open struct {
	Name     AlertName `cbor:"1,keyasint"`
	Pool     string    `cbor:"2,keyasint"`
	Resource string    `cbor:"3,keyasint"` // resource, class and severity are those at the time it was raised
	Role     string    `cbor:"12,keyasint,omitempty"`

	Class       string            `cbor:"4,keyasint"`
	Severity    Severity          `cbor:"5,keyasint"`
	Annotations map[string]string `cbor:"6,keyasint"`
	Held        int               `cbor:"7,keyasint"` // ticks in a row that it held, up to raising; then that a warning was worth a page
	Clear       int               `cbor:"8,keyasint"` // ticks in a row without it, while firing
	Firing      bool              `cbor:"9,keyasint"`
	StartsAt    time.Time         `cbor:"10,keyasint"`
	UpdatedAt   time.Time         `cbor:"11,keyasint"`
}

// BoardState is a board's memory, for a snapshot.
type BoardState struct {
	Open    []Open `cbor:"1,keyasint"`
	Dropped uint64 `cbor:"2,keyasint"`
}

// NewBoard is an empty board.
func NewBoard(cfg Config) *Board {
	return &Board{raiseAfter: cfg.RaiseAfter, resolveAfter: cfg.ResolveAfter}
}

// State is the board's memory. It shares no memory with the board but annotations, which neither changes.
func (b *Board) State() BoardState {
	return BoardState{Open: slices.Clone(b.open), Dropped: b.dropped}
}

// Restore replaces the board's memory.
func (b *Board) Restore(s BoardState) {
	b.open, b.dropped = slices.Clone(s.Open), s.Dropped
	slices.SortFunc(b.open, Open.compare)
}

// Dropped counts conditions that were not followed because 4096 already were.
func (b *Board) Dropped() uint64 { return b.dropped }

// Update takes everything that is the case at now and returns the alerts that fire, in the order of pool, name and
// role, and those that are resolved by this tick. A condition that is listed twice counts once.
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

// hold counts a tick at which c is the case.
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

// compare orders by what identifies a condition. A pool has one of each name and role, whichever resource runs out first.
func (o Open) compare(other Open) int {
	c := cmp.Or(strings.Compare(o.Pool, other.Pool), strings.Compare(string(o.Name), string(other.Name)), strings.Compare(o.Role, other.Role))
	if c == 0 && o.Pool == "" {
		c = strings.Compare(o.Resource, other.Resource)
	}
	return c
}

// alert renders a firing condition. The annotations of a condition that is clear, but not yet for long enough, are
// those of when it last held, and the description says so. Advisory alerts carry a label, so that a trial can be routed elsewhere.
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
	if said := a.Annotations["description"]; o.Clear > 0 && said != "" {
		a.Annotations["description"] = fmt.Sprintf("This has not been so since %s. Before: %s", clock(o.UpdatedAt), said)
	}
	if resolved {
		a.EndsAt = now
	}
	return a
}

// Reopen has a board go on with alerts that fire, for one whose memory was lost: they are not raised a second time, and
// their end is told.
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
