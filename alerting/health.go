package alerting

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/internal/value"
)

// Vitals are the daemon's health, by its own clock. Counts are over Window.
type Vitals struct {
	Window  time.Duration
	Records uint64            // of telemetry, accepted
	Refused map[string]uint64 // by reason; resends do not count
	// Refusals is whose telemetry is refused and how to correct it; "" if unknown.
	Refusals string
	Lost     uint64 // messages that left the stream before they were read
	Sinks    []SinkStats
	// Storage is the newest write error, "" if all writes work; StorageSince is when it began.
	Storage      string
	StorageSince time.Time
	// Diverged counts decisions that differ from those in the log. Divergence describes the newest one.
	Diverged   uint64
	Divergence string
}

// SinkStats counts a sink's notices in this process by outcome.
type SinkStats struct {
	Sink     string
	Sent     uint64
	Retried  uint64 // failed attempts with a retry
	Failed   uint64 // refused for good
	Lapsed   uint64 // expired before delivery, or for a disabled consumer
	Queued   int    // waited at the last attempt; some of the log may not be for this sink
	Disabled bool   // nothing is sent until a restart

	Err   string    // newest error of what fails; "" if nothing does
	Since time.Time // when that began
}

// Parameters of the daemon's own alerts.
const (
	droppedShare = 0.01 // share of refused telemetry that raises the warning
	droppedLeast = 20   // fewest refused records for it, unless they are half of all
	droppedFew   = 5    // fewest refused records in any case
)

// SelfConditions are the conditions of the daemon itself: refused or lost telemetry, failed writes, differing decisions
// and failing sinks. They have no pool.
func SelfConditions(v *Vitals, cfg Config) []Condition {
	b := &conditions{cfg: cfg}
	if w, ok := droppedText(v); ok {
		b.add(InputDropped, "", w)
	}
	if v.Storage != "" {
		b.add(StorageDegraded, "", alertText{
			Summary:     "Some data has not been stored since " + clock(v.StorageSince),
			Description: capitalise(value.Cut(v.Storage, maxError)) + ". Decisions and alerts go on from memory. What is not stored will be missing in reports.",
			Action:      "Make room on the disk, or repair what is named.",
		})
	}
	if v.Diverged > 0 {
		b.add(DecisionsDiverge, "", alertText{
			Summary:     fmt.Sprintf("Two daemons decided differently %d times in %s", v.Diverged, wholeMinutes(v.Window)),
			Description: "The decision that was logged first counts. The newest difference: " + value.Cut(v.Divergence, maxError) + ".",
			Action:      "Run the same version and the same configuration in all daemons.",
		})
	}
	for i := range v.Sinks {
		s := &v.Sinks[i]
		switch {
		case s.Disabled:
			b.add(SinkFailing, s.Sink, alertText{
				Summary:     "Forewarm sends nothing to " + value.Cut(s.Sink, maxName) + " until it is restarted",
				Description: "The receiver answered that it is gone: " + value.Cut(s.Err, maxError) + ". Other receivers are not affected.",
				Action:      "Correct the receiver's address in the configuration, and restart Forewarm.",
			})
		case s.Err != "":
			b.add(SinkFailing, s.Sink, alertText{
				Summary: fmt.Sprintf("Forewarm has failed to deliver to %s since %s", value.Cut(s.Sink, maxName), clock(s.Since)),
				Description: fmt.Sprintf("Waiting notifications at the last attempt: %d. Refused, and so lost: %d. The newest error: %s. "+
					"Other receivers are not affected.", s.Queued, s.Failed, value.Cut(s.Err, maxError)),
				Action: "Check the receiver, its address and its credentials.",
			})
		}
	}
	return b.all
}

// droppedText describes how much telemetry was not counted; ok is false if it is little.
func droppedText(v *Vitals) (w alertText, ok bool) {
	var refused uint64
	most := "" // frequent reason
	for _, reason := range slices.Sorted(maps.Keys(v.Refused)) {
		refused += v.Refused[reason]
		if v.Refused[reason] > v.Refused[most] {
			most = reason
		}
	}
	total := v.Records + refused
	switch {
	case v.Lost > 0:
		return alertText{
			Summary:     fmt.Sprintf("%d messages were lost from the telemetry stream in %s", v.Lost, wholeMinutes(v.Window)),
			Description: "They left the stream before Forewarm read them. Demand was higher than Forewarm sees.",
			Action:      "Raise nats.stream.max_bytes or max_age, and check why Forewarm was slow or stopped.",
		}, true
	case refused < droppedFew || refused < droppedLeast && 2*refused < total || float64(refused) < droppedShare*float64(total):
		return w, false
	}
	w = alertText{
		Summary: fmt.Sprintf("Forewarm refuses %s of the telemetry", percent(float64(refused)/float64(total))),
		Description: fmt.Sprintf("In %s %d of %d records were refused, most often as %s. Demand is higher than Forewarm sees.",
			wholeMinutes(v.Window), refused, total, most),
		Action: "Correct the producer. The NATS subject forewarm.deadletter says what was refused and why.",
	}
	if v.Refusals != "" {
		first, _, _ := strings.Cut(v.Refusals, "; ")
		w = w.with(value.Cut(first, maxError) + ".")
	}
	return w, true
}

// NewWatchdog is the alert that always fires while the daemon works. began is the start of the daemon. A receiver that
// does not get it for longer than alertLife knows that the daemon or the delivery is broken.
func NewWatchdog(began, now time.Time, cfg Config) Alert {
	c := (&conditions{cfg: cfg}).add(Watchdog, "", alertText{
		Summary:     "Forewarm decides and delivers",
		Description: "This alert always fires.",
		Action:      "Route it to a service that calls you when it stops.",
	})
	return Alert{Name: Watchdog, Labels: map[string]string{"severity": "none"}, Annotations: c.Annotations,
		StartsAt: began.UTC(), UpdatedAt: now, EndsAt: now.Add(alertLife)}
}
