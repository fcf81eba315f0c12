package report

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is the times of reports: a cron expression in one time zone. It is safe for concurrent use.
//
// robfig/cron skips times that do not exist when the clock is set forward, and repeats times when it is set back. Here
// each time comes once a day, as with the cron of Debian: a skipped time comes right after the change, a repeated one
// the first time. An hourly schedule is left as it is.
type Schedule struct {
	spec   *cron.SpecSchedule // in UTC, for local times without changes of the clock
	zone   *time.Location
	hourly bool
}

// Period is the interval between two times of a schedule, [From, To).
type Period struct{ From, To time.Time }

// allHours are the bits of a schedule for every hour.
const allHours = 1<<24 - 1

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
	s := &Schedule{spec: spec, zone: zone, hourly: bits.OnesCount64(spec.Hour&allHours) == 24}
	// Checks four years for intervals that are too long.
	for day := range 4 * 366 {
		t := time.Date(2023, 1, 1+day, 0, 0, 0, 0, time.UTC)
		if next := spec.Next(t); next.IsZero() || next.Sub(t) > maxInterval {
			return nil, fmt.Errorf("must have times that are at most %d days apart", MaxDays-1)
		}
	}
	return s, nil
}

// Next is the first time after t. O(1) per calendar day skipped.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.In(s.zone)
	_, offset := t.Zone()
	from := naiveAt(t, offset) // the next local time is after this one
	if begin, _ := t.ZoneBounds(); !s.hourly && !begin.IsZero() {
		_, before := begin.Add(-time.Second).Zone()
		if was := naiveAt(begin, before).Add(-time.Second); from.Before(was) { // set back: these local times have been
			from = was
		}
	}
	for {
		_, offset := t.Zone()
		_, jump := t.ZoneBounds()
		next := s.spec.Next(from)
		at := instant(next, offset)
		if jump.IsZero() || at.Before(jump) {
			return at.In(s.zone)
		}
		// The clock changes first.
		_, after := jump.Zone()
		before := naiveAt(jump, offset)
		begin := naiveAt(jump, after)
		switch {
		case s.hourly:
			from = begin.Add(-time.Second)
		case begin.After(before): // forward: a skipped time comes now
			if next.Before(begin) {
				return jump.In(s.zone)
			}
			from = begin.Add(-time.Second)
		default: // back: these local times have been
			from = before.Add(-time.Second)
		}
		t = jump.In(s.zone)
	}
}

// Zone is the time zone of the expression.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Last is the newest time that is not after t.
func (s *Schedule) Last(t time.Time) time.Time {
	// Next never decreases with its argument, so the newest time is the least x with Next(x) after t.
	const most = int(maxInterval/time.Second) + 48*60*60
	start := t.Truncate(time.Second).Add(-time.Duration(most) * time.Second)
	back := sort.Search(most, func(i int) bool { return s.Next(start.Add(time.Duration(i) * time.Second)).After(t) })
	return start.Add(time.Duration(back) * time.Second).In(s.zone)
}

// Due reports whether a report is due at now, if the newest one ends at reported, and its period: the last interval of
// the schedule. Earlier intervals without a report are skipped; missed is their number, at most 100.
func (s *Schedule) Due(reported, now time.Time) (p Period, missed int, due bool) {
	p.To = s.Last(now)
	if !p.To.After(reported) {
		return Period{}, 0, false
	}
	p.From = s.Last(p.To.Add(-time.Second))
	for t := s.Next(reported); t.Before(p.To) && missed < 100; t = s.Next(t) {
		missed++
	}
	return p, missed, true
}

// naiveAt is local time at an offset, in seconds ahead of UTC, as if it were UTC.
func naiveAt(t time.Time, offset int) time.Time {
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// instant is the inverse of naiveAt.
func instant(naive time.Time, offset int) time.Time {
	return naive.Add(-time.Duration(offset) * time.Second)
}
