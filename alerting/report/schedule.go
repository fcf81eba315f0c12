package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

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
	if spec.Location = zone; spec.Next(time.Unix(0, 0)).IsZero() {
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
