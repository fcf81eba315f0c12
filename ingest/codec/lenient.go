package codec

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// The native format is strict. Formats of other software are not ours to be strict about: their readers take a count as
// a number or as a string, an instant in any unit, and a dash, an empty string or null for what is not known.

// found is one member of a foreign record: its bytes belong to the message, strings without quotes and still escaped.
// The zero value is a member that the record does not have.
type found struct {
	name string // as the format's table has it; for people
	raw  []byte
	typ  jsonparser.ValueType
}

// missing says whether the record leaves the member out: it is not there, null, "" or "-", as Envoy writes.
func (v found) missing() bool {
	switch v.typ {
	case jsonparser.NotExist, jsonparser.Null:
		return true
	case jsonparser.String:
		return len(v.raw) == 0 || len(v.raw) == 1 && v.raw[0] == '-'
	}
	return false
}

// looseCount reads a whole number in [0, limit], or a string of one; [Unknown] when it is missing.
func (d *decoder) looseCount(v found, limit int64) int64 {
	f, ok := d.looseNumber(v, float64(limit))
	if !ok {
		return ingest.Unknown
	}
	if f != math.Trunc(f) {
		d.fail(ingest.ReasonWrongType, "%s is not a whole number", v.name)
		return ingest.Unknown
	}
	return int64(f)
}

func (d *decoder) looseNumber(v found, limit float64) (f float64, ok bool) {
	if v.missing() {
		return 0, false
	}
	if v.typ != jsonparser.Number && v.typ != jsonparser.String {
		d.fail(ingest.ReasonWrongType, "%s is a %s, want a number", v.name, v.typ)
		return 0, false
	}
	if n, small := smallInt(v.raw); small {
		f = float64(n)
	} else {
		var err error
		f, err = strconv.ParseFloat(string(v.raw), 64)
		if math.IsNaN(f) || err != nil && !math.IsInf(f, 0) {
			d.fail(ingest.ReasonWrongType, "%s is a string that is not a number", v.name)
			return 0, false
		}
	}
	switch {
	case f < 0:
		d.fail(ingest.ReasonNegativeCount, "%s is negative", v.name)
		return 0, false
	case f > limit:
		d.fail(ingest.ReasonHugeCount, "%s is %g, the limit is %.0f", v.name, f, limit)
		return 0, false
	}
	return math.Abs(f), true // -0 is 0
}

// forgiving reads what a request can do without: what cannot be read is as good as missing. So a limit of -1 tokens, or
// an instant of a clock that started with the machine, is no reason to miss the request.
func forgiving[T any](d *decoder, read func() T) T {
	before := d.refusal
	v := read()
	d.refusal = before
	return v
}

// looseSpan reads a span of time counted in units, at most a day; negative when it is missing or cannot be read.
func (d *decoder) looseSpan(v found, unit time.Duration) time.Duration {
	return forgiving(d, func() time.Duration {
		f, ok := d.looseNumber(v, float64(24*time.Hour/unit))
		if !ok {
			return -1
		}
		return time.Duration(math.Round(f * float64(unit)))
	})
}

// looseTime reads an instant: a date and time in a layout of [looseLayouts], or a number, or a string of one, since the
// epoch. The number's size tells its unit, for the years 2000 to 2199 are 9·10⁸ to 7·10⁹ seconds, and no two units share
// a number. Digits are kept to the nanosecond. The zero time when it is missing: 0 seconds, and Go's 0001-01-01T00:00:00Z,
// stand for a time that was never set.
func (d *decoder) looseTime(v found) time.Time {
	if v.missing() {
		return time.Time{}
	}
	var t time.Time
	ok := false
	if v.typ == jsonparser.Number || v.typ == jsonparser.String {
		if t, ok = parseEpoch(v.raw); !ok && v.typ == jsonparser.String {
			text, _ := unescape(v.raw) // some writers escape / and +
			t, ok = parseDate(text)
		}
	}
	if ok && (t.IsZero() || t.Equal(time.Unix(0, 0))) {
		return time.Time{}
	}
	if !ok || t.Before(earliest) || !t.Before(latest) {
		d.fail(ingest.ReasonBadTime, "%s is neither a date and time (ISO 8601) nor seconds, ms, µs or ns since 1970, in the years 2000 to 2199", v.name)
		return time.Time{}
	}
	return t
}

// looseLayouts are the dates that are understood. Without a zone they are UTC. Of zones by name only UTC is known: package
// time would take any other for it.
var looseLayouts = [...]string{
	time.RFC3339, // with or without a fraction, as all of them
	"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700",
	"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 UTC",
	"2006-01-02 15:04:05 -0700 MST",                                                 // with both, as Go prints them, the offset counts
	"2006/01/02 15:04:05", "2006/01/02T15:04:05Z0700", "02/Jan/2006:15:04:05 -0700", // of servers' logs
}

func parseDate(raw []byte) (time.Time, bool) {
	if len(raw) < len("2006-01-02T15:04:05") || len(raw) > len("2006-01-02 15:04:05.000000000 +0000 +0000") {
		return time.Time{}, false
	}
	text := strings.ToUpper(string(raw)) // RFC 3339 allows t and z
	for _, layout := range looseLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// parseEpoch reads decimal digits with an optional fraction, or failing that any number, as time since the epoch.
func parseEpoch(raw []byte) (time.Time, bool) {
	whole, fraction, _ := bytes.Cut(raw, []byte{'.'})
	n, ok := wholeDigits(whole)
	if !ok || !allDigits(fraction) {
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || !(math.Abs(f) < math.MaxInt64) {
			return time.Time{}, false
		}
		n, fraction = int64(f), nil
	}
	var unit time.Duration
	switch {
	case n < 1e11:
		unit = time.Second
	case n < 1e14:
		unit = time.Millisecond
	case n < 1e17:
		unit = time.Microsecond
	default:
		unit = time.Nanosecond
	}
	perSecond := int64(time.Second / unit)
	at := time.Unix(n/perSecond, n%perSecond*int64(unit))
	for scale := unit / 10; len(fraction) > 0 && scale > 0; fraction, scale = fraction[1:], scale/10 {
		at = at.Add(time.Duration(fraction[0]-'0') * scale)
	}
	return at.UTC(), true
}

// wholeDigits parses a run of at most 19 digits that an int64 holds.
func wholeDigits(raw []byte) (n int64, ok bool) {
	if n, ok = smallInt(raw); ok || len(raw) != 19 || !allDigits(raw) {
		return n, ok
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

func allDigits(raw []byte) bool {
	for _, c := range raw {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// looseLabel reads a name that recurs; looseID reads one that does not. A number is a name too; "" when it is missing.
func (d *decoder) looseLabel(v found) string { return d.names.of(d.looseName(v)) }

func (d *decoder) looseID(v found) string { return d.texts.of(d.looseName(v)) }

func (d *decoder) looseName(v found) []byte {
	text := d.looseText(v)
	if reason, detail := checkLabel([]byte(v.name), text, d.limits.LabelBytes); reason != "" {
		d.fail(reason, "%s", detail)
		return nil
	}
	return text
}

// looseText gives the unescaped bytes of a string, the digits of a number, true or false; nil when it is missing.
func (d *decoder) looseText(v found) []byte {
	if v.missing() {
		return nil
	}
	switch v.typ {
	case jsonparser.String:
		text, err := unescape(v.raw)
		if err != nil {
			d.fail(ingest.ReasonNotJSON, "%s: %v", v.name, err)
		}
		return text
	case jsonparser.Number, jsonparser.Boolean:
		return v.raw
	}
	d.fail(ingest.ReasonWrongType, "%s is a %s, want a string", v.name, v.typ)
	return nil
}

func unescape(raw []byte) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, nil
	}
	return jsonparser.Unescape(raw, nil)
}

// looseFlag reads true, "true", "True", 1 or "1" as true and all else as false.
func looseFlag(v found) bool {
	return bytes.EqualFold(v.raw, []byte("true")) || string(v.raw) == "1"
}
