package ingest

import (
	"bytes"
	"time"
)

// parseRFC3339 reads a date and time as [time.Time.UnmarshalText] does, and with t and z in lower case, which the standard
// allows (RFC 3339, section 5.6), in UTC. What has the usual form is read here, in a quarter of the time; all else is left
// to the standard library.
func parseRFC3339(text []byte) (t time.Time, ok bool) {
	if t, ok = parseUsualRFC3339(text); ok {
		return t, true
	}
	err := t.UnmarshalText(bytes.ToUpper(text))
	return t.UTC(), err == nil
}

// parseUsualRFC3339 reads "2006-01-02T15:04:05", a fraction of up to nine digits, and "Z" or an offset, of a time that
// exists.
func parseUsualRFC3339(text []byte) (t time.Time, ok bool) {
	const layout = "2006-01-02T15:04:05"
	if len(text) <= len(layout) || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return time.Time{}, false
	}
	century, year, month, day := twoDigits(text, 0), twoDigits(text, 2), twoDigits(text, 5), twoDigits(text, 8)
	hour, minute, second := twoDigits(text, 11), twoDigits(text, 14), twoDigits(text, 17)
	if century < 0 || year < 0 || month < 1 || month > 12 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return time.Time{}, false
	}
	year += 100 * century
	if day < 1 || day > daysIn(year, month) {
		return time.Time{}, false
	}
	nanos, zone := fraction(text[len(layout):])
	offset, ok := zoneSeconds(zone)
	if !ok {
		return time.Time{}, false
	}
	unix := ((unixDay(year, month, day)*24+int64(hour))*60+int64(minute))*60 + int64(second) - int64(offset)
	return time.Unix(unix, nanos).UTC(), true
}

// twoDigits reads text[at:at+2] as a number; it is negative when they are no digits.
func twoDigits(text []byte, at int) int {
	tens, ones := text[at]-'0', text[at+1]-'0'
	if tens > 9 || ones > 9 {
		return -1 << 16
	}
	return int(tens)*10 + int(ones)
}

// fraction reads a fraction of a second, if there is one of at most nine digits, and gives what follows.
func fraction(text []byte) (nanos int64, rest []byte) {
	if text[0] != '.' {
		return 0, text
	}
	at := 1
	for ; at < len(text) && at <= 9 && isDigit(text[at]); at++ {
		nanos = nanos*10 + int64(text[at]-'0')
	}
	if at == 1 {
		return 0, text
	}
	return nanos * powersOfTen[10-at], text[at:]
}

var powersOfTen = [...]int64{1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000}

// zoneSeconds reads "Z" or an offset such as "+01:00".
func zoneSeconds(zone []byte) (seconds int, ok bool) {
	if len(zone) == 1 && zone[0] == 'Z' {
		return 0, true
	}
	if len(zone) != 6 || zone[0] != '+' && zone[0] != '-' || zone[3] != ':' {
		return 0, false
	}
	hours, minutes := twoDigits(zone, 1), twoDigits(zone, 4)
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	if seconds = (hours*60 + minutes) * 60; zone[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

var monthDays = [...]int{1: 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func daysIn(year, month int) int {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return monthDays[month]
}

// unixDay counts the days from 1970-01-01 to a date of the Gregorian calendar, in years that begin in March, so that the
// day that leap years add is their last (Howard Hinnant, "chrono-compatible low-level date algorithms", days_from_civil).
// year is at least 0.
func unixDay(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	leapDays := floorDiv(year, 4) - floorDiv(year, 100) + floorDiv(year, 400)
	return int64(365*year+leapDays+dayOfYear) - 719_468
}

func floorDiv(a, b int) int {
	if a < 0 {
		return (a+1)/b - 1
	}
	return a / b
}
