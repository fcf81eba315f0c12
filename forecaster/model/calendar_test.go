package model

import (
	"math"
	"testing"
	"time"
	_ "time/tzdata"
)

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// Days before have the same local time, in every hour of years with and without changes of the clock.
func TestDaysBeforeKeepLocalTime(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"} {
		zone := location(t, name)
		h := History{Zone: zone}
		for _, year := range []int{1970, 2024, 2026, 2071} {
			for at := time.Date(year, 1, 8, 0, 30, 0, 0, time.UTC); at.Year() == year; at = at.Add(time.Hour) {
				for _, days := range []int{1, 7} {
					local := at.In(zone)
					want := time.Date(local.Year(), local.Month(), local.Day()-days, local.Hour(), local.Minute(), 0, 0, zone)
					then := time.Unix(60*h.DaysBefore(at.Unix()/60, days), 0).In(zone)
					// Around the change itself a time may not exist, or exist twice.
					if then.Hour() != local.Hour() && want.Hour() == local.Hour() || then.Sub(want).Abs() > time.Hour {
						t.Fatalf("%s: %d days before %v is %v, want %v", name, days, local, then, want)
					}
				}
			}
		}
	}
}

// Across the change of the clock yesterday is 23 or 25 hours ago, and last week an hour less or more than a week.
func TestSeasonsFollowTheLocalClock(t *testing.T) {
	zone := location(t, "Europe/Berlin")
	for _, tc := range []struct {
		name      string
		now       time.Time
		day, week int64
	}{
		{"summer time begins", time.Date(2026, 3, 29, 15, 0, 0, 0, zone), 23 * 60, 7*day - 60},
		{"summer time ends", time.Date(2026, 10, 25, 15, 0, 0, 0, zone), 25 * 60, 7*day + 60},
		{"the day after that", time.Date(2026, 10, 26, 15, 0, 0, 0, zone), 24 * 60, 7*day + 60},
	} {
		h := NewHistory()
		h.Zone = zone
		newest := tc.now.Unix() / 60
		first := newest - 8*day + 1
		// Each value names its minute.
		feed(h, first, repeat(8*day, func(i int) float64 { return float64(i) }))
		at := func(m int64) float64 { return float64(m - first) }
		if got, want := h.At(h.DaysBefore(newest, 1)), at(newest-tc.day); math.Abs(got-want) > 10 {
			t.Errorf("%s: yesterday is %v minutes ago, want about %v", tc.name, at(newest)-got, tc.day)
		}
		if got, want := h.Around(h.DaysBefore(newest, 7)), at(newest-tc.week); math.Abs(got-want) > 10 {
			t.Errorf("%s: last week is %v minutes ago, want about %v", tc.name, at(newest)-got, tc.week)
		}
	}
}
