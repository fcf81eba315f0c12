package model

import (
	"sort"
	"time"
)

// Calendar is the local time that daily and weekly seasons follow: a day is 23 or 25 hours long when the clock changes.
// A nil Calendar is UTC. It is immutable and may be shared.
type Calendar struct {
	from   []int64 // minutes since 1970 at which offsets begin, ascending; the first is the start of time
	offset []int64 // of local time, minutes
}

// calendarEnd bounds the known changes of the clock; the last offset holds from then on.
var calendarEnd = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// NewCalendar reads a time zone's changes from 1970 to 2100; nil is UTC. Some 260 entries for a zone with summer time.
func NewCalendar(zone *time.Location) *Calendar {
	if zone == nil || zone == time.UTC {
		return nil
	}
	c := &Calendar{}
	for t := time.Unix(0, 0).In(zone); t.Before(calendarEnd); {
		_, seconds := t.Zone()
		if offset := int64(seconds) / 60; len(c.from) == 0 || offset != c.offset[len(c.offset)-1] {
			c.from, c.offset = append(c.from, t.Unix()/60), append(c.offset, offset)
		}
		_, next := t.ZoneBounds()
		if next.IsZero() {
			break
		}
		if !next.After(t) {
			next = t.Add(time.Hour) // at the end of some leap years ZoneBounds returns an end that is not after t
		}
		t = next
	}
	return c
}

// offsetAt is the offset of local time in minute m.
func (c *Calendar) offsetAt(m int64) int64 {
	if c == nil {
		return 0
	}
	i := sort.Search(len(c.from), func(i int) bool { return c.from[i] > m })
	return c.offset[max(i-1, 0)]
}

// Local is minute m (since 1970 in UTC) in local time: modulo 1,440 it is the time of day, divided by 1,440 the number
// of days since Thursday, 1 January 1970. O(log changes).
func (c *Calendar) Local(m int64) int64 { return m + c.offsetAt(m) }

// DaysBefore is the minute with the same local time that many days before minute m: 1,440 minutes a day, and an hour
// less or more across a change. A local time that was skipped is taken an hour later; of one that came twice, either.
func (c *Calendar) DaysBefore(m int64, days int) int64 {
	then := m - day*int64(days)
	return then + c.offsetAt(m) - c.offsetAt(then)
}
