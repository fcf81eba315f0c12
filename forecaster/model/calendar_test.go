package model

import (
	"testing"
	"time"
	_ "time/tzdata"
)

// DaysBefore returns the same local time, for every hour of years with and without clock changes.
func TestDaysBefore(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		h := History{Zone: zone}
		for _, year := range []int{1970, 2024, 2026, 2071} {
			for at := time.Date(year, 1, 8, 0, 30, 0, 0, time.UTC); at.Year() == year; at = at.Add(time.Hour) {
				for _, days := range []int{1, 7} {
					local := at.In(zone)
					want := time.Date(local.Year(), local.Month(), local.Day()-days, local.Hour(), local.Minute(), 0, 0, zone)
					then := time.Unix(60*h.DaysBefore(at.Unix()/60, days), 0).In(zone)
					// In the hour of a clock change a local time may not exist, or exist twice.
					if then.Hour() != local.Hour() && want.Hour() == local.Hour() || then.Sub(want).Abs() > time.Hour {
						t.Fatalf("%s: %d days before %v is %v, want %v", name, days, local, then, want)
					}
				}
			}
		}
	}
}
