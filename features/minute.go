package features

import "time"

// minuteOf is the minute t lies in, counted from the Unix epoch.
func minuteOf(t time.Time) int64 {
	s := t.Unix()
	if s < 0 {
		s -= int64(seconds) - 1 // round down, also before 1970
	}
	return s / int64(seconds)
}

// startOf is the instant at which a minute begins.
func startOf(minute int64) time.Time { return time.Unix(minute*int64(seconds), 0).UTC() }

// minutes is d in minutes, rounded up.
func minutes(d time.Duration) int64 { return int64((d + Minute - 1) / Minute) }

// nanos and instant carry a time through a snapshot, where zero means no time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
