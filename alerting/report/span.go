package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// Span is the requested period of a report.
type Span struct {
	From, To time.Time      // zero if left out, until Complete
	Zone     *time.Location // in which days begin
}

// ErrNoDecision means that no decision was stored, so there is nothing to report.
var ErrNoDecision = errors.New("the log has no decision yet")

// ParseSpan parses the ends of a span and the name of its zone, "" for UTC. Errors begin with from, to or timezone.
func ParseSpan(from, to, zone string) (s Span, err error) {
	if s.Zone, err = time.LoadLocation(zone); err != nil {
		return s, fmt.Errorf("timezone is %q: write an IANA name, such as UTC or Europe/Berlin", zone)
	}
	if s.From, err = ParseTime("from", from, s.Zone); err != nil {
		return s, err
	}
	if s.To, err = ParseTime("to", to, s.Zone); err != nil || s.From.IsZero() || s.To.IsZero() {
		return s, err
	}
	return s, s.check()
}

func (s *Span) check() error {
	switch {
	case !s.From.Before(s.To):
		return fmt.Errorf("from %s is not before to %s: the period is empty", s.From.Format(time.RFC3339), s.To.Format(time.RFC3339))
	case s.To.Sub(s.From) > MaxDays*24*time.Hour:
		return fmt.Errorf("from %s to %s is too long: it must be at most %d days; report part by part", s.From.Format(time.RFC3339), s.To.Format(time.RFC3339), MaxDays)
	}
	return nil
}

// Complete sets the ends that were left out: up to the newest decision, and seven days of the zone's calendar long. It
// returns [ErrNoDecision] if the end was left out and newest is zero.
func (s *Span) Complete(newest time.Time) error {
	if s.To.IsZero() {
		if newest.IsZero() {
			return ErrNoDecision
		}
		s.To = newest
	}
	if s.From.IsZero() {
		s.From = s.To.In(s.Zone).AddDate(0, 0, -7)
	}
	return s.check()
}

// ParseTime parses a time, or a date as the start of that day in a zone; "" is zero. name is for the error.
func ParseTime(name, s string, zone *time.Location) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is %q: write RFC 3339, such as 2026-03-02T07:00:00Z, or a date", name, s)
}

// Day shows a minute in the report's zone.
func (r *Report) Day(t time.Time) string {
	return t.In(r.Zone).Format("Mon 2 Jan 15:04")
}

// period shows the report's period, and the zone.
func (r *Report) period(layout string) string {
	return alerting.Period(r.From.In(r.Zone), r.To, layout)
}
