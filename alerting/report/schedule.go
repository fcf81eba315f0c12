package report

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is the times of reports: a cron expression in one time zone. It is safe for concurrent use.
//
// robfig/cron skips local times that do not exist when clocks are set forward, and repeats times when they are set
// back. Here each local time comes once: [time.Date] moves one that does not exist by the shift, and takes one of two.
type Schedule struct {
	spec *cron.SpecSchedule // of local times as if they were UTC
	Zone *time.Location
}

// maxInterval between times of a schedule: one day less than the longest report, because a day may have 25 hours.
const maxInterval = (MaxDays - 1) * 24 * time.Hour

// NewSchedule parses an expression: minute hour day-of-month month day-of-week, or @hourly, @daily, @weekly, @monthly.
// Errors name the fix.
func NewSchedule(expression string, zone *time.Location) (*Schedule, error) {
	if strings.Contains(expression, "TZ=") { // it would contradict the zone
		return nil, errors.New("must not carry a time zone; set report.timezone")
	}
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, fmt.Errorf("must be a cron expression (%w)", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok { // @every counts from the start of the process
		return nil, errors.New("must name times of day, such as \"0 */6 * * *\", so that periods do not depend on restarts")
	}
	spec.Location = time.UTC
	// Checks four years for intervals that are too long.
	for day := range 4 * 366 {
		t := time.Date(2023, 1, 1+day, 0, 0, 0, 0, time.UTC)
		if next := spec.Next(t); next.IsZero() || next.Sub(t) > maxInterval {
			return nil, fmt.Errorf("must have times that are at most %d days apart", MaxDays-1)
		}
	}
	return &Schedule{spec, zone}, nil
}

// maxShift of clocks that are set forward or back.
const maxShift = 3 * time.Hour

// Next is the first time after t.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.In(s.Zone)
	_, offset := t.Zone()
	local := t.UTC().Add(time.Duration(offset)*time.Second - maxShift)
	for {
		local = s.spec.Next(local)
		year, month, day := local.Date()
		hour, minute, second := local.Clock()
		if at := time.Date(year, month, day, hour, minute, second, 0, s.Zone); at.After(t) {
			return at
		}
	}
}

// Last is the newest time that is not after t.
func (s *Schedule) Last(t time.Time) time.Time {
	// Next never decreases with its argument, so the newest time is the least x with Next(x) after t.
	const most = int(maxInterval/time.Second) + 48*60*60
	start := t.Truncate(time.Second).Add(-time.Duration(most) * time.Second)
	back := sort.Search(most, func(i int) bool { return s.Next(start.Add(time.Duration(i) * time.Second)).After(t) })
	return start.Add(time.Duration(back) * time.Second).In(s.Zone)
}

// Due reports whether a report is due at now, if the newest one ends at reported, and its period: the last interval of
// the schedule. Earlier intervals without a report are skipped.
func (s *Schedule) Due(reported, now time.Time) (p Span, due bool) {
	if s.Next(reported).After(now) {
		return Span{}, false
	}
	p.To = s.Last(now)
	p.From, p.Zone = s.Last(p.To.Add(-time.Second)), s.Zone
	return p, true
}
