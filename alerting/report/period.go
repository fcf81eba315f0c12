package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// Span is the period of a report, [From, To).
type Span struct {
	From, To time.Time
	Zone     *time.Location // in which days begin, and in which people read times
}

// ParseSpan parses the ends of a span and the name of its zone, "" for UTC. Without to it ends at newest, without from
// it has seven days of the zone's calendar. Errors begin with from, to or timezone.
func ParseSpan(from, to, zone string, newest time.Time) (s Span, err error) {
	if s.Zone, err = time.LoadLocation(zone); err != nil || s.Zone == time.Local {
		return s, fmt.Errorf("timezone is %q: write an IANA name, such as UTC or Europe/Berlin", zone)
	}
	if s.From, err = ParseTime("from", from, s.Zone); err != nil {
		return s, err
	}
	if s.To, err = ParseTime("to", to, s.Zone); err != nil {
		return s, err
	}
	if s.To.IsZero() {
		s.To = newest
	}
	if s.From.IsZero() {
		s.From = s.To.In(s.Zone).AddDate(0, 0, -7)
	}
	err = s.cut()
	return s, err
}

// cut cuts the span to whole minutes, and checks its length. A day at the end of summer time has an hour more.
func (s *Span) cut() error {
	s.From, s.To = s.From.UTC().Truncate(time.Minute), s.To.UTC().Truncate(time.Minute)
	if !s.From.Before(s.To) || s.To.Sub(s.From) > MaxDays*24*time.Hour+time.Hour {
		return fmt.Errorf("from %s to %s: a period has at least a minute and at most %d days; choose other days",
			s.From.Format(time.RFC3339), s.To.Format(time.RFC3339), MaxDays)
	}
	return nil
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

// Schedule is the times of reports: a cron expression in one time zone. It is safe for concurrent use.
//
// A local time that does not exist when clocks are set forward is left out. One that comes twice when they are set back
// counts twice, an hour apart.
type Schedule struct{ *cron.SpecSchedule }

// NewSchedule parses an expression: minute hour day-of-month month day-of-week, or @hourly, @daily, @weekly, @monthly.
// Errors name the fix.
func NewSchedule(expression string, zone *time.Location) (*Schedule, error) {
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, fmt.Errorf("must be a cron expression (%w)", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok { // @every counts from the start of the process
		return nil, errors.New("must name times of day, such as \"0 */6 * * *\", so that periods do not depend on restarts")
	}
	if spec.Location != time.Local { // it would contradict the zone
		return nil, errors.New("must not carry a time zone; set report.timezone")
	}
	spec.Location = zone
	if spec.Next(time.Unix(0, 0)).IsZero() {
		return nil, errors.New("must name days that exist")
	}
	return &Schedule{spec}, nil
}

// Due reports whether a report is due at now, if the newest one ends at reported, and its period: the last interval of
// the schedule, at most MaxDays. Earlier intervals without a report are skipped.
func (s *Schedule) Due(reported, now time.Time) (p Span, due bool) {
	if s.Next(reported).After(now) {
		return Span{}, false
	}
	const longest = MaxDays * 24 * time.Hour
	for at := s.Next(now.In(s.Location).Add(-2 * longest)); !at.After(now); at = s.Next(at) {
		p.From, p.To = p.To, at
	}
	if p.From.Before(p.To.Add(-longest)) {
		p.From = p.To.Add(-longest)
	}
	p.Zone = s.Location
	return p, true
}
