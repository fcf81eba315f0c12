package report

import (
	"testing"
	"time"
)

// TestSpan: days begin at midnight in the time zone, and a week has seven of them.
func TestSpan(t *testing.T) {
	for _, c := range []struct{ from, to, zone, start, end string }{
		{"2026-10-19", "2026-10-26", "Europe/Berlin", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"", "2026-10-26", "Europe/Berlin", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"", "2026-03-30T05:00:00Z", "Europe/Berlin", "2026-03-23T06:00:00Z", "2026-03-30T05:00:00Z"},
		{"2026-10-19", "2026-10-26", "", "2026-10-19T00:00:00Z", "2026-10-26T00:00:00Z"},
		{"2026-10-19T07:00:00+02:00", "2026-10-26T07:00:00+01:00", "America/New_York", "2026-10-19T05:00:00Z", "2026-10-26T06:00:00Z"},
	} {
		p, err := ParseSpan(c.from, c.to, c.zone, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if got := []string{p.From.UTC().Format(time.RFC3339), p.To.UTC().Format(time.RFC3339)}; got[0] != c.start || got[1] != c.end {
			t.Errorf("%q to %q in %q: %v", c.from, c.to, c.zone, got)
		}
	}
}

// TestSpanBounds: a period has a whole minute at least, and 93 days of the calendar at most.
func TestSpanBounds(t *testing.T) {
	for _, c := range []struct {
		from, to, zone string
		ok             bool
	}{
		{"2026-10-19T00:00:10Z", "2026-10-19T00:00:50Z", "", false},
		{"2026-10-19T00:00:50Z", "2026-10-19T00:01:10Z", "", true},
		{"2026-08-01", "2026-11-02", "Europe/Berlin", true}, // one hour longer than 93 times 24 hours
		{"2026-08-01", "2026-11-03", "Europe/Berlin", false},
		{"2026-10-19", "2026-10-20", "Local", false},
	} {
		if _, err := ParseSpan(c.from, c.to, c.zone, time.Time{}); (err == nil) != c.ok {
			t.Errorf("%q to %q in %q: %v", c.from, c.to, c.zone, err)
		}
	}
}
