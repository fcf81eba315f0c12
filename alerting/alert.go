package alerting

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AlertName is one of the alerts that Forewarm can raise.
type AlertName string

// The alerts of a pool. Each has a page in deploy/runbooks.
const (
	SaturationAhead  AlertName = "ForewarmSaturationAhead"
	TooLateToWarm    AlertName = "ForewarmTooLateToWarm"
	AtCapacityLimit  AlertName = "ForewarmAtCapacityLimit"
	TelemetryStale   AlertName = "ForewarmTelemetryStale"
	ForecastDegraded AlertName = "ForewarmForecastDegraded"
	RetryStorm       AlertName = "ForewarmRetryStorm"
	BelowReserve     AlertName = "ForewarmBelowReserve"
	TelemetryFault   AlertName = "ForewarmTelemetryFault"
	LatencyObjective AlertName = "ForewarmLatencyObjective"
	RateContradicted AlertName = "ForewarmRateContradicted" // an observed rate of a replica differs from the configuration
)

// The alerts about the daemon itself.
const (
	InputDropped     AlertName = "ForewarmInputDropped"
	SinkFailing      AlertName = "ForewarmSinkFailing"
	StorageDegraded  AlertName = "ForewarmStorageDegraded"  // history or state cannot be written; decisions continue in memory
	DecisionsDiverge AlertName = "ForewarmDecisionsDiverge" // two daemons, or one before and after a restart, decided differently
	Watchdog         AlertName = "ForewarmWatchdog"
)

// AlertNames are all alert names.
var AlertNames = []AlertName{
	SaturationAhead, TooLateToWarm, AtCapacityLimit, TelemetryStale, ForecastDegraded,
	RetryStorm, BelowReserve, TelemetryFault, LatencyObjective, RateContradicted,
	InputDropped, SinkFailing, StorageDegraded, DecisionsDiverge, Watchdog,
}

// Alert is one alert in the model of Alertmanager. Labels identify it and do not change while it lasts, so numbers are
// in annotations.
type Alert struct {
	Name        AlertName         `json:"name" cbor:"1,keyasint"`
	Labels      map[string]string `json:"labels" cbor:"2,keyasint"` // without alertname
	Annotations map[string]string `json:"annotations" cbor:"3,keyasint"`
	StartsAt    time.Time         `json:"starts_at" cbor:"4,keyasint"`
	UpdatedAt   time.Time         `json:"updated_at" cbor:"5,keyasint"` // its tick
	EndsAt      time.Time         `json:"ends_at" cbor:"6,keyasint"`    // when it ends without an update; at or before updated_at if resolved
	Resolved    bool              `json:"resolved" cbor:"7,keyasint"`
}

// GenerationOf is the generation in the id of a pool's event; 0, which no event has, for any other id.
func GenerationOf(pool, id string) int64 {
	digits, ok := strings.CutPrefix(id, pool+"-")
	if generation, err := strconv.ParseUint(digits, 10, 63); ok && err == nil {
		return int64(generation)
	}
	return 0
}

// EventID identifies the start or the end of an alert. It stays the same while the alert fires.
func (a *Alert) EventID() string {
	return fmt.Sprintf("%s@%d/%s", a.Identity(), a.StartsAt.Unix(), a.state())
}

func (a *Alert) state() string {
	if a.Resolved {
		return "resolved"
	}
	return "firing"
}

// Identity stays the same while an alert lasts: name, pool and resource, and role and class if it has them.
func (a *Alert) Identity() string {
	id := string(a.Name) + "/" + a.Labels["pool"] + "/" + a.Labels["resource"]
	for _, label := range []string{"role", "class"} {
		if v := a.Labels[label]; v != "" {
			id += "/" + label + "=" + v
		}
	}
	return id
}

const (
	alertLife    = 4 * time.Minute // without an update: four ticks, like in Prometheus' rule manager
	maxActive    = 4096            // tracked conditions
	raiseAfter   = 2               // ticks in a row that a condition must hold, unless it says otherwise
	resolveAfter = 5               // ticks in a row without it
)

// AlertTracker raises, keeps and resolves alerts from the conditions of each tick, without flapping. A condition
// becomes an alert after two ticks in a row, or as many as it says, and is resolved after five ticks without it.
// While a pool's telemetry is stale, its other alerts do not change. Labels do not change while an alert lasts. If a
// warning becomes a page, a new alert is raised and the warning expires. It is pure; a tick costs O(active · log
// active). The zero value has no alerts.
type AlertTracker struct {
	Active  []ActiveAlert `cbor:"1,keyasint"` // by key
	Dropped uint64        `cbor:"2,keyasint"` // conditions that were ignored because the tracker was full (4096)
}

// ActiveAlert is one tracked condition: firing, or pending until it has lasted long enough.
type ActiveAlert struct {
	Condition           // as at the first tick or when it was raised; annotations are the newest
	Held      int       `cbor:"7,keyasint"` // ticks in a row with it, before raising; then ticks in a row as a page of a firing warning
	Clear     int       `cbor:"8,keyasint"` // ticks in a row without it, while firing
	Firing    bool      `cbor:"9,keyasint"`
	StartsAt  time.Time `cbor:"10,keyasint"`
	UpdatedAt time.Time `cbor:"11,keyasint"` // newest tick with it

	held bool // at this tick
}

// Update takes all conditions at now and returns the firing and the newly resolved alerts, in the order of pool, name
// and role. A condition that is listed twice counts once.
func (t *AlertTracker) Update(now time.Time, conditions []Condition) []Alert {
	blind := map[string]bool{}
	for i := range conditions {
		c := &conditions[i]
		blind[c.Pool] = blind[c.Pool] || c.Name == TelemetryStale
		at, found := slices.BinarySearchFunc(t.Active, c, compareActive)
		if !found {
			if c.Fading {
				continue
			}
			if len(t.Active) >= maxActive {
				t.Dropped++
				continue
			}
			t.Active = slices.Insert(t.Active, at, ActiveAlert{Condition: *c})
		}
		if o := &t.Active[at]; !o.held && (o.Firing || !c.Fading) {
			o.hold(now, c)
		}
	}

	var alerts []Alert
	kept := t.Active[:0]
	for _, o := range t.Active {
		if !o.held && !blind[o.Pool] {
			o.Clear++
		}
		resolved := o.Clear >= resolveAfter
		if o.Firing {
			alerts = append(alerts, o.alert(now, resolved))
		}
		if o.held || o.Firing && !resolved {
			o.held = false
			kept = append(kept, o)
		}
	}
	clear(t.Active[len(kept):])
	t.Active = kept
	return alerts
}

// hold counts a tick with c.
func (o *ActiveAlert) hold(now time.Time, c *Condition) {
	o.held, o.Clear, o.UpdatedAt, o.Annotations = true, 0, now, c.Annotations
	if o.Firing && (o.Severity == Page || c.Severity != Page || c.Fading) {
		o.Held = 0
		return
	}
	o.Held++
	if o.Held >= cmp.Or(c.Ticks, raiseAfter) {
		o.Condition, o.Firing, o.StartsAt, o.Held = *c, true, now, 0
	}
}

// compareActive orders by the identity of a condition. A pool has one per name and role, for all resources of replicas.
func compareActive(o ActiveAlert, c *Condition) int {
	order := cmp.Or(strings.Compare(o.Pool, c.Pool), strings.Compare(string(o.Name), string(c.Name)), strings.Compare(o.Role, c.Role))
	return cmp.Or(order, strings.Compare(o.separate(), c.separate()))
}

// separate is the resource, if it has a condition of its own: a sink, a limit of the whole pool, or a contradicted rate.
func (c *Condition) separate() string {
	if c.Pool == "" || c.Name == RateContradicted || strings.HasPrefix(c.Resource, limitPrefix) {
		return c.Resource
	}
	return ""
}

// alert renders a firing condition. If the condition has ended but the alert is not resolved yet, the annotations are
// the last ones, and the description says so. Advisory alerts have a label for routing.
func (o *ActiveAlert) alert(now time.Time, resolved bool) Alert {
	labels := map[string]string{
		"severity": string(o.Severity), "pool": o.Pool, "role": o.Role, "resource": o.Resource, "class": o.Class,
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	if o.Annotations["mode"] == string(Advisory) {
		labels["mode"] = string(Advisory)
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

// Reopen adds firing alerts to a tracker that lost its state: they are not raised a second time, and they are resolved.
func (t *AlertTracker) Reopen(alerts []Alert) {
	for i := range alerts {
		a := &alerts[i]
		c := Condition{
			Name: a.Name, Pool: a.Labels["pool"], Role: a.Labels["role"], Resource: a.Labels["resource"],
			Class: a.Labels["class"], Severity: Severity(a.Labels["severity"]), Annotations: a.Annotations,
		}
		at, found := slices.BinarySearchFunc(t.Active, &c, compareActive)
		if !found && !a.Resolved && len(t.Active) < maxActive {
			t.Active = slices.Insert(t.Active, at, ActiveAlert{Condition: c, Firing: true, StartsAt: a.StartsAt, UpdatedAt: a.UpdatedAt})
		}
	}
}
