package alerting

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Vitals are what the daemon sees of itself, by its own clock. Counts are those of Window.
type Vitals struct {
	Window  time.Duration
	Records uint64            // of telemetry that were counted
	Refused map[string]uint64 // by reason; resends do not count
	// Refusals says whose telemetry is refused and how to mend it; "" when that is not known.
	Refusals string
	Lost     uint64 // messages that left the stream before they were read
	Sinks    []SinkVitals
	// Storage says what could not be written when it was last tried, "" when all was, and StorageSince since when.
	Storage      string
	StorageSince time.Time
	// Diverged counts decisions that differ from those in the log, and Divergence is the newest with both values and versions.
	Diverged   uint64
	Divergence string
}

// SinkVitals is how delivery to one consumer goes.
type SinkVitals struct {
	Name     string
	Failing  bool      // nothing was delivered since the last failure
	Since    time.Time // of the first of these failures
	Err      string    // the newest
	Waiting  int
	Disabled bool // the consumer wants no more until a restart
}

// Parameters of the daemon's own alerts.
const (
	droppedShare = 0.01 // of telemetry refused that is worth a warning
	droppedLeast = 20   // records; fewer are chance, unless they are half of all
	droppedFew   = 5    // and so many at least
)

// SelfConditions are what is the case with the daemon itself: telemetry that is refused or lost, a disk that takes nothing, and
// consumers that nothing gets through to. They concern no pool.
func SelfConditions(v *Vitals, cfg Config) []Condition {
	var out []Condition
	if summary := dropped(v); summary != "" {
		out = append(out, selfCondition(InputDropped, "", cfg, summary))
	}
	if v.Storage != "" {
		out = append(out, selfCondition(StorageDegraded, "", cfg, fmt.Sprintf(
			"History is degraded since %s: %s. Decisions and alerts go on in memory; a restart replays more of the stream, and reports lack what is lost.", clock(v.StorageSince), v.Storage)))
	}
	if v.Diverged > 0 {
		out = append(out, selfCondition(DecisionsDiverge, "", cfg, fmt.Sprintf(
			"%d decisions in %s differ from those in the log, which stand. The newest: %s.", v.Diverged, span(v.Window), v.Divergence)))
	}
	for i := range v.Sinks {
		s := &v.Sinks[i]
		switch {
		case s.Disabled:
			out = append(out, selfCondition(SinkFailing, s.Name, cfg, fmt.Sprintf(
				"%s answered that it is gone and gets nothing until a restart: %s. Others are told as usual.", s.Name, s.Err)))
		case s.Failing:
			out = append(out, selfCondition(SinkFailing, s.Name, cfg, fmt.Sprintf(
				"Nothing gets through to %s since %s, and %d notices wait: %s. Others are told as usual.", s.Name, clock(s.Since), s.Waiting, s.Err)))
		}
	}
	return out
}

// dropped says how much telemetry was not counted, "" when that is little.
func dropped(v *Vitals) string {
	var refused uint64
	for _, n := range v.Refused {
		refused += n
	}
	total := v.Records + refused
	switch {
	case v.Lost > 0:
		return fmt.Sprintf("%d messages left the telemetry stream in %s before they were read: demand was more than is seen. The stream is too small, or the daemon was away for too long.", v.Lost, span(v.Window))
	case refused < droppedFew || refused < droppedLeast && 2*refused < total || float64(refused) < droppedShare*float64(total):
		return ""
	}
	text := fmt.Sprintf("%s of %d telemetry records were refused in %s (%s): demand is more than is seen. forewarm.deadletter has them, with reasons.",
		percent(float64(refused)/float64(total)), total, span(v.Window), reasons(v.Refused))
	if v.Refusals != "" {
		text += " " + v.Refusals + "."
	}
	return text
}

// reasons are the three most frequent.
func reasons(refused map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(refused), func(a, b string) int {
		return cmp.Or(cmp.Compare(refused[b], refused[a]), strings.Compare(a, b))
	})
	var out []string
	for _, name := range names[:min(3, len(names))] {
		out = append(out, fmt.Sprintf("%s %d", name, refused[name]))
	}
	return strings.Join(out, ", ")
}

func selfCondition(name AlertName, resource string, cfg Config, summary string) Condition {
	c := Condition{Name: name, Resource: resource, Severity: Warning, Annotations: map[string]string{"summary": summary, "mode": string(cfg.Mode)}}
	if url := Runbook(cfg.RunbookURL, name); url != "" {
		c.Annotations["runbook_url"] = url
	}
	return c
}

// NewWatchdog is the alert that always fires, since the daemon began at began and is well at now. Whoever misses it for
// longer than it lives knows that something on the way is not.
func NewWatchdog(began, now time.Time, cfg Config) Alert {
	c := selfCondition(Watchdog, "", cfg, "Forewarm decides and delivers. Always firing: route it to a dead man's switch that calls when it stops.")
	return Alert{Name: Watchdog, Labels: map[string]string{"severity": "none"}, Annotations: c.Annotations,
		StartsAt: began.UTC(), UpdatedAt: now, EndsAt: now.Add(alertLife)}
}
