package report

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones must not depend on the machine

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/alerting"
)

func schedule(t testing.TB, expression, zone string) *Schedule {
	t.Helper()
	z, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSchedule(expression, z)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScheduleOverDaylightSaving: times of schedules on the days of clock changes.
func TestScheduleOverDaylightSaving(t *testing.T) {
	for _, c := range []struct {
		name, expression, zone, from string
		want                         []string
	}{
		{"Berlin forward: a time that does not exist is an hour later", "30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00+01:00",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"Berlin back: one of two times", "30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00+02:00",
			[]string{"2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"}},
		{"Berlin back, from between the two", "30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00",
			[]string{"2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"}},
		{"Berlin forward: a time in the gap and its end are one", "0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"Berlin, the usual Monday", "0 7 * * 1", "Europe/Berlin", "2026-03-16T07:00:00+01:00",
			[]string{"2026-03-23T07:00:00+01:00", "2026-03-30T07:00:00+02:00"}},
		{"Berlin, the Monday after clocks went back", "0 7 * * 1", "Europe/Berlin", "2026-10-19T07:00:00+02:00",
			[]string{"2026-10-26T07:00:00+01:00", "2026-11-02T07:00:00+01:00"}},
		{"Berlin, Sunday night of next spring", "30 2 * * 0", "Europe/Berlin", "2027-03-21T02:30:00+01:00",
			[]string{"2027-03-28T03:30:00+02:00", "2027-04-04T02:30:00+02:00"}},
		{"Berlin back, hourly: two hours are one period", "0 * * * *", "Europe/Berlin", "2026-10-25T01:00:00+02:00",
			[]string{"2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"New York forward", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T01:30:00-05:00", "2026-03-09T02:30:00-04:00"}},
		{"New York back", "30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"Lord Howe forward by half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00+10:30",
			[]string{"2026-10-03T02:15:00+10:30", "2026-10-04T02:45:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"Lord Howe back by half an hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00+11:00",
			[]string{"2026-04-04T01:45:00+11:00", "2026-04-05T01:45:00+10:30", "2026-04-06T01:45:00+10:30"}},
		{"midnight that does not exist", "0 0 * * *", "America/Santiago", "2026-09-05T12:00:00-04:00",
			[]string{"2026-09-05T23:00:00-04:00", "2026-09-07T00:00:00-03:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := schedule(t, c.expression, c.zone)
			at, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range c.want {
				at = s.Next(at)
				got = append(got, at.Format(time.RFC3339))
				if last := s.Last(at.Add(time.Second)); !last.Equal(at) {
					t.Errorf("the newest time after %s is %s", at, last)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("times, −want +got:\n%s", diff)
			}
		})
	}
}

func TestScheduleDue(t *testing.T) {
	weekly := schedule(t, "30 2 * * 0", "Europe/Berlin") // in the hour of clock changes
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		name, reported, now string
		from, to            string // "" when none is due
	}{
		{"not yet", "2026-03-22T01:30:00Z", "2026-03-29T01:29:59Z", "", ""},
		{"forward: on time", "2026-03-22T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-22T01:30:00Z", "2026-03-29T01:30:00Z"},
		{"already reported", "2026-03-29T01:30:00Z", "2026-03-29T01:30:01Z", "", ""},
		{"the next week", "2026-03-29T01:30:00Z", "2026-04-05T00:30:00Z", "2026-03-29T01:30:00Z", "2026-04-05T00:30:00Z"},
		{"back: not at the first of two", "2026-10-18T00:30:00Z", "2026-10-25T00:30:00Z", "", ""},
		{"back: at the second", "2026-10-18T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-18T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"no report for four weeks: only the newest", "2026-09-27T00:30:00Z", "2026-10-27T12:00:00Z", "2026-10-18T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"the clock was set back", "2026-10-25T00:30:00Z", "2026-10-01T12:00:00Z", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, due := weekly.Due(at(c.reported), at(c.now))
			if due != (c.from != "") {
				t.Fatalf("due %v", due)
			}
			if due && (!p.From.Equal(at(c.from)) || !p.To.Equal(at(c.to))) {
				t.Errorf("period %s to %s", p.From.UTC(), p.To.UTC())
			}
		})
	}
}

// TestWeeksOfClockChanges: a week with a clock change is an hour shorter or longer. Its title has its begin and end.
func TestWeeksOfClockChanges(t *testing.T) {
	for _, c := range []struct {
		expression, now string
		hours           float64
		title           string
	}{
		{"0 7 * * 1", "2026-10-26T07:00:00+01:00", 169, "19 Oct 2026 07:00 to 26 Oct 2026 07:00 Europe/Berlin"},
		{"0 7 * * 1", "2027-03-29T07:00:00+02:00", 167, "22 Mar 2027 07:00 to 29 Mar 2027 07:00 Europe/Berlin"},
		{"0 0 * * 1", "2027-03-29T00:00:00+02:00", 167, "22 Mar 2027 to 29 Mar 2027 Europe/Berlin"},
		{"30 2 * * 0", "2026-10-25T02:30:00+01:00", 169, "18 Oct 2026 02:30 to 25 Oct 2026 02:30 Europe/Berlin"},
		{"30 2 * * 0", "2026-11-01T02:30:00+01:00", 168, "25 Oct 2026 02:30 to 1 Nov 2026 02:30 Europe/Berlin"},
		{"30 2 * * 0", "2027-03-28T03:30:00+02:00", 168, "21 Mar 2027 02:30 to 28 Mar 2027 03:30 Europe/Berlin"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		p, due := schedule(t, c.expression, "Europe/Berlin").Due(now.AddDate(0, 0, -6), now)
		if !due || p.To.Sub(p.From).Hours() != c.hours {
			t.Errorf("%s at %s: %v, due %v", c.expression, c.now, p, due)
		}
		if got := alerting.Period(p.From, p.To, "2 Jan 2006"); got != c.title {
			t.Errorf("%s at %s: %s", c.expression, c.now, got)
		}
	}
}

// TestPeriodsAreAdjacent makes reports at random times. Each period begins where another ends, and none is reported
// twice.
func TestPeriodsAreAdjacent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSchedule(rapid.SampledFrom([]string{"30 2 * * *", "0 7 * * 1", "*/20 1,2,3 * * *", "15 * * * *", "0 0 1 * *", "@hourly"}).Draw(t, "schedule"), zone)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(t, "start"), 0)
		reported := now
		for range 20 {
			now = now.Add(time.Duration(rapid.Int64Range(0, 40*24*3600).Draw(t, "seconds")) * time.Second)
			p, due := s.Due(reported, now)
			if !due {
				if next := s.Next(reported); !next.After(now) {
					t.Fatalf("nothing is due at %s, though %s is after %s", now, next, reported)
				}
				continue
			}
			if p.To.After(now) || !p.From.Before(p.To) || !s.Next(p.From).Equal(p.To) || !s.Last(p.To).Equal(p.To) {
				t.Fatalf("at %s period %s to %s", now, p.From, p.To)
			}
			if s.Next(reported).Equal(p.To) && p.From.After(reported) {
				t.Fatalf("the time from %s to %s is in no period", reported, p.From)
			}
			if reported = p.To; now.Before(reported) {
				t.Fatal("a period is reported before its end")
			}
		}
	})
}

func TestNewScheduleRefuses(t *testing.T) {
	for expression, want := range map[string]string{
		"CRON_TZ=UTC 0 7 * * 1": "time zone",
		"@every 24h":            "must name times",
		"0 7 1 1 *":             "92 days apart",
		"0 0 31 2 *":            "92 days apart",
		"0 7 * *":               "cron expression",
	} {
		if _, err := NewSchedule(expression, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", expression, err)
		}
	}
	for _, expression := range []string{"* * * * *", "0 7 * * 1", "@weekly", "0 7 1 */3 *"} {
		if _, err := NewSchedule(expression, time.UTC); err != nil {
			t.Errorf("%q: %v", expression, err)
		}
	}
}
