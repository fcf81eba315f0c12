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

// Schedule says when reports are due: a cron expression, read as times of day in one zone. It is safe for concurrent use.
//
// robfig/cron leaves out what a clock that is set forward jumps over, and gives twice what one that is set back passes
// twice. Here each time of day comes once a day, as with the cron of Debian: what is jumped over comes when the clock has
// jumped, what is passed twice comes the first time. A schedule for every hour is left as it is: it goes on by the hour.
type Schedule struct {
	spec   *cron.SpecSchedule // in UTC, which has no jumps: it is asked about times of day as if they were UTC
	zone   *time.Location
	hourly bool
}

// Period is the time between two times of a schedule, [From, To).
type Period struct{ From, To time.Time }

// allHours are the bits of a schedule for every hour.
const allHours = 1<<24 - 1

// rarest is how far apart the times of a schedule may be: by the clock one day less than a report can span, for a day may
// have 25 hours.
const rarest = (MaxDays - 1) * 24 * time.Hour

// NewSchedule reads an expression: minute hour day-of-month month day-of-week, or @hourly, @daily, @weekly, @monthly.
// Errors say what is wrong with it and the mend.
func NewSchedule(expression string, zone *time.Location) (*Schedule, error) {
	if strings.Contains(expression, "TZ=") { // a dialect that would compete with the zone
		return nil, errors.New("must not carry a time zone; set report.timezone")
	}
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, fmt.Errorf("must be a cron expression (%w)", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok { // @every counts from when the process began
		return nil, errors.New("must name times, for a period begins where the last one ended; write such as \"0 */6 * * *\"")
	}
	spec.Location = time.UTC
	s := &Schedule{spec: spec, zone: zone, hourly: bits.OnesCount64(spec.Hour&allHours) == 24}
	// A look at each day of four years finds what is too far apart, or never comes.
	for day := range 4 * 366 {
		t := time.Date(2023, 1, 1+day, 0, 0, 0, 0, time.UTC)
		if next := spec.Next(t); next.IsZero() || next.Sub(t) > rarest {
			return nil, fmt.Errorf("must have times that are at most %d days apart", MaxDays-1)
		}
	}
	return s, nil
}

// Next is the first time after t. Cost O(1), but for the calendar days that are passed over.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.In(s.zone)
	_, offset := t.Zone()
	from := naiveAt(t, offset) // times of day after this one are looked for
	if begin, _ := t.ZoneBounds(); !s.hourly && !begin.IsZero() {
		_, before := begin.Add(-time.Second).Zone()
		if was := naiveAt(begin, before).Add(-time.Second); from.Before(was) { // set back: these times of day were there already
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
		// The clock jumps first.
		_, after := jump.Zone()
		before := naiveAt(jump, offset)
		begin := naiveAt(jump, after)
		switch {
		case s.hourly:
			from = begin.Add(-time.Second)
		case begin.After(before): // forward: what is jumped over comes now
			if next.Before(begin) {
				return jump.In(s.zone)
			}
			from = begin.Add(-time.Second)
		default: // back: what was there already does not come again
			from = before.Add(-time.Second)
		}
		t = jump.In(s.zone)
	}
}

// Zone is by whose clock times of day are.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Last is the newest time that is not after t.
func (s *Schedule) Last(t time.Time) time.Time {
	// The time after x is not before any time that it is after for an earlier x: the newest one is the least x whose
	// next time is after t.
	const most = int(rarest/time.Second) + 48*60*60
	start := t.Truncate(time.Second).Add(-time.Duration(most) * time.Second)
	back := sort.Search(most, func(i int) bool { return s.Next(start.Add(time.Duration(i) * time.Second)).After(t) })
	return start.Add(time.Duration(back) * time.Second).In(s.zone)
}

// Due says whether a report is due at now, when the newest one that was made ends at reported, and of which period: from
// the time before to the newest one. Periods before that one are not made up for; missed counts them, up to a hundred.
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

// naiveAt is what a clock that is offset seconds ahead of UTC shows, as if it were UTC.
func naiveAt(t time.Time, offset int) time.Time {
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// instant is when a clock that is offset seconds ahead of UTC shows what a naive time says.
func instant(naive time.Time, offset int) time.Time {
	return naive.Add(-time.Duration(offset) * time.Second)
}
