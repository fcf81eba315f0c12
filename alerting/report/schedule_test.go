package report

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones must not depend on the machine

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

func TestScheduleDue(t *testing.T) {
	weekly := schedule(t, "30 3 * * 0", "Europe/Berlin") // just after clock changes
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
		{"not yet", "2026-03-22T02:30:00Z", "2026-03-29T01:29:59Z", "", ""},
		{"forward: an hour less", "2026-03-22T02:30:00Z", "2026-03-29T01:30:00Z", "2026-03-22T02:30:00Z", "2026-03-29T01:30:00Z"},
		{"already reported", "2026-03-29T01:30:00Z", "2026-03-29T01:30:01Z", "", ""},
		{"the next week", "2026-03-29T01:30:00Z", "2026-04-05T01:30:00Z", "2026-03-29T01:30:00Z", "2026-04-05T01:30:00Z"},
		{"back: not an hour before", "2026-10-18T01:30:00Z", "2026-10-25T01:30:00Z", "", ""},
		{"back: an hour more", "2026-10-18T01:30:00Z", "2026-10-25T02:30:00Z", "2026-10-18T01:30:00Z", "2026-10-25T02:30:00Z"},
		{"no report for four weeks: only the newest", "2026-09-27T01:30:00Z", "2026-10-27T12:00:00Z", "2026-10-18T01:30:00Z", "2026-10-25T02:30:00Z"},
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
		{"0 7 1 1 *", "2027-01-01T07:00:00+01:00", 93 * 24, "30 Sep 2026 08:00 to 1 Jan 2027 07:00 Europe/Berlin"}, // the longest
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
		for range 5 {
			now = now.Add(time.Duration(rapid.Int64Range(0, 40*24*3600).Draw(t, "seconds")) * time.Second)
			p, due := s.Due(reported, now)
			if !due {
				if next := s.Next(reported); !next.After(now) {
					t.Fatalf("nothing is due at %s, though %s is after %s", now, next, reported)
				}
				continue
			}
			if p.To.After(now) || !p.From.Before(p.To) || !s.Next(p.From).Equal(p.To) || !s.Next(p.To).After(now) {
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
		"0 0 31 2 *":            "days that exist",
		"0 7 * *":               "cron expression",
	} {
		if _, err := NewSchedule(expression, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", expression, err)
		}
	}
	for _, expression := range []string{"* * * * *", "0 7 * * 1", "@weekly", "0 7 1 1 *"} {
		if _, err := NewSchedule(expression, time.UTC); err != nil {
			t.Errorf("%q: %v", expression, err)
		}
	}
}
