package codec

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// The native format is strict. Readers of foreign formats are lenient: they accept a count as a number or a string, a
// time in any unit, and a dash, an empty string, null or Python's None for an unknown value.

func (v value) missing() bool {
	switch v.kind {
	case 0, 'n':
		return true
	case '"':
		switch string(v.raw) {
		case "", "-", "null", "None", "undefined":
			return true
		}
	}
	return false
}

// looseCount reads a whole number in [0, limit], or a string of one; [ingest.Unknown] when it is missing.
func (d *Decoder) looseCount(v value, limit int64) int64 {
	n := ingest.Unknown
	if f, ok := d.looseNumber(v); ok {
		count(d, v.name, f, limit, &n)
	}
	return n
}

// looseNumber reads a number; ok is false when it is missing.
func (d *Decoder) looseNumber(v value) (f float64, ok bool) {
	switch {
	case v.missing():
		return 0, false
	case v.kind != '0' && v.kind != '"':
		d.fail(ingest.ReasonWrongType, "%s is %s, want a number", v.name, kindNames[v.kind])
		return 0, false
	}
	if f = parseNumber(v.raw); math.IsNaN(f) {
		d.fail(ingest.ReasonWrongType, "%s is a string that is not a number", v.name)
		return 0, false
	}
	return f, true
}

// forgiving reads an optional member: an invalid value counts as missing. So a limit of -1 tokens, or a time since the
// start of the machine, does not refuse the request.
func forgiving[T any](d *Decoder, read func() T) T {
	before := d.refusal
	v := read()
	d.refusal = before
	return v
}

// looseSpan reads a span of time counted in units, at most a day; negative when it is missing or cannot be read.
func (d *Decoder) looseSpan(v value, unit time.Duration) time.Duration {
	return forgiving(d, func() time.Duration {
		f, ok := d.looseNumber(v)
		if !ok || !(f >= 0 && f <= float64(24*time.Hour/unit)) {
			return -1
		}
		return time.Duration(math.Round(f * float64(unit)))
	})
}

// looseTime reads a time: a date and time in a layout of [looseLayouts], or a number since the epoch, which may be a
// string. The number's size determines its unit: the years 2000 to 2199 are 9·10⁸ to 7·10⁹ seconds, so units do not
// overlap. The precision is a nanosecond. It returns the zero time for a missing value, 0 seconds and Go's
// 0001-01-01T00:00:00Z.
func (d *Decoder) looseTime(v value) time.Time {
	if v.missing() {
		return time.Time{}
	}
	var t time.Time
	ok := false
	if v.kind == '0' || v.kind == '"' {
		if t, ok = parseEpoch(v.raw); !ok {
			t, ok = parseDate(v.raw)
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

// looseLayouts are the accepted dates. Without a zone they are UTC. UTC is the only zone name: package time would read
// any other one as UTC.
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

// parseEpoch reads a number as time since the epoch.
func parseEpoch(raw []byte) (time.Time, bool) {
	f := parseNumber(raw)
	if math.IsNaN(f) {
		return time.Time{}, false
	}
	if bytes.ContainsAny(raw, "eE") {
		raw = strconv.AppendFloat(nil, math.Trunc(f), 'f', -1, 64)
	}
	unit := "ns"
	switch {
	case f < 1e11:
		unit = "s"
	case f < 1e14:
		unit = "ms"
	case f < 1e17:
		unit = "us"
	}
	since, err := time.ParseDuration(string(raw) + unit) // exact, as no float64 is
	return time.Unix(0, 0).Add(since).UTC(), err == nil
}

// looseLabel reads a name that recurs. A number is a name too; "" when it is missing.
func (d *Decoder) looseLabel(v value) string { return d.label(v.name, d.looseText(v)) }

// attribute reads an optional name. An invalid or too long one is left out and does not refuse the request.
func (d *Decoder) attribute(v value) string {
	return forgiving(d, func() string { return d.looseLabel(v) })
}

// looseText returns the text of a string, the digits of a number, true or false; nil when it is missing.
func (d *Decoder) looseText(v value) []byte {
	switch {
	case v.missing():
		return nil
	case v.kind == '{' || v.kind == '[':
		d.fail(ingest.ReasonWrongType, "%s is %s, want a string", v.name, kindNames[v.kind])
		return nil
	}
	return v.raw
}

// outcome reads how the request of a record ended: by a word, or an HTTP status. Codes of a busy server are rejections,
// because the request was not served. An unknown word does not refuse a request with counted tokens: they were served.
func (d *Decoder) outcome(r *record) ingest.Status {
	word := r.members[fieldStatus]
	status, known := wordOutcome(d.looseText(word))
	if !known && !word.missing() && !r.counted() {
		d.fail(ingest.ReasonBadEnum, "%s is %s, want a status such as ok, error, rejected, cancelled or an HTTP code", word.name, quoted(word.raw))
	}
	code := r.members[fieldCode]
	if text := d.looseText(code); len(text) > 0 {
		s, known := wordOutcome(text)
		if !known {
			s = ingest.StatusError // the name of an error
		}
		if status == ingest.StatusCancelled && s != ingest.StatusOK {
			return s // an engine that aborts a request gives a reason; a client that leaves does not
		}
		status = max(status, s)
	}
	return status
}

// outcomes are parts of the words for the end of a request and of the names of errors. The first that fits counts.
var outcomes = []struct {
	status ingest.Status
	parts  []string
}{
	{ingest.StatusCancelled, []string{"cancel", "abort", "disconnect"}},
	{ingest.StatusRejected, []string{"reject", "ratelimit", "rate_limit", "throttl", "overload", "exhausted", "unavailable"}},
	{ingest.StatusError, []string{"error", "fail", "timeout", "expired"}},
}

var goodEnds = bytes.Fields([]byte("ok success succeeded completed finished stop length incomplete eos tool_calls content_filter"))

// wordOutcome reads a word for the end of a request, the name of an error, or an HTTP status.
func wordOutcome(text []byte) (status ingest.Status, known bool) {
	if status, known = codeOutcome(text); known {
		return status, true
	}
	if len(text) == 0 || slices.ContainsFunc(goodEnds, func(end []byte) bool { return bytes.EqualFold(end, text) }) {
		return ingest.StatusOK, len(text) > 0
	}
	word := strings.ToLower(string(text))
	for _, o := range outcomes {
		if slices.ContainsFunc(o.parts, func(part string) bool { return strings.Contains(word, part) }) {
			return o.status, true
		}
	}
	return ingest.StatusOK, false
}

// codeOutcome reads an HTTP status. Proxies log 0 for a client that left before there was one; nginx logs 499.
func codeOutcome(text []byte) (ingest.Status, bool) {
	code, ok := smallInt(text)
	switch {
	case !ok || code > 599 || code > 0 && code < 100:
		return ingest.StatusOK, false
	case code == 0 || code == 499:
		return ingest.StatusCancelled, true
	case code == 429 || code == 503 || code == 529:
		return ingest.StatusRejected, true
	case code >= 400:
		return ingest.StatusError, true
	}
	return ingest.StatusOK, true
}
