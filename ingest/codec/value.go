package codec

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// value is one member of a JSON object as the extractor hands it out: strings without quotes and still escaped. Its
// bytes belong to the message.
type value struct {
	key   []byte
	raw   []byte
	typ   jsonparser.ValueType
	plain bool // known to be a string of printable ASCII without escapes
}

// given says whether the record has this member.
func (v value) given() bool { return v.typ != jsonparser.NotExist }

// earliest and latest bound every time in a record; what lies outside is a wrong unit or a broken clock.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// fail marks the record at hand as unusable; the first fault counts.
func (d *decoder) fail(reason ingest.Reason, detail string, args ...any) {
	if d.refusal.Reason == "" {
		d.refusal = ingest.Refusal{Reason: reason, Detail: fmt.Sprintf(detail, args...)}
	}
}

func (d *decoder) wrongType(v value, want string) {
	d.fail(ingest.ReasonWrongType, "%s is a %s, want %s", v.key, v.typ, want)
}

// text gives the unescaped bytes of a string, valid until the message ends; half a surrogate pair becomes U+FFFD, as in encoding/json.
func (d *decoder) text(v value) (text []byte, ok bool) {
	if v.typ != jsonparser.String {
		d.wrongType(v, "a string")
		return nil, false
	}
	if v.plain {
		return v.raw, true
	}
	text, err := d.unescape(v.raw)
	if err != nil {
		d.fail(ingest.ReasonNotJSON, "%s: %v", v.key, err)
		return nil, false
	}
	return text, true
}

// unescape undoes the escapes of a string's inside.
func (d *decoder) unescape(raw []byte) (text []byte, err error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, nil
	}
	used := len(d.scratch)
	if cap(d.scratch)-used < len(raw) {
		used, d.scratch = 0, make([]byte, 0, max(scratchAtFirst, len(raw)))
	}
	if text, err = jsonparser.Unescape(raw, d.scratch[used:cap(d.scratch)]); err == nil {
		d.scratch = d.scratch[:used+len(text)]
	}
	return text, err
}

// scratchAtFirst is the least that holds unescaped strings, and keepScratch what of it is kept for the next message, in
// bytes.
const (
	scratchAtFirst = 4 << 10
	keepScratch    = 64 << 10
)

// is says whether v is the string want, which needs no escapes.
func (d *decoder) is(v value, want string) bool {
	text, ok := d.text(v)
	return ok && string(text) == want
}

// label reads a name that recurs; id reads one that does not.
func (d *decoder) label(v value, to *string) {
	if v.plain && len(v.raw) <= d.limits.LabelBytes {
		*to = d.names.of(v.raw)
	} else if text, ok := d.name(v); ok {
		*to = d.names.of(text)
	}
}

func (d *decoder) id(v value, to *string) {
	if text, ok := d.name(v); ok {
		*to = d.texts.of(text)
	}
}

func (d *decoder) name(v value) (text []byte, ok bool) {
	if text, ok = d.text(v); !ok {
		return nil, false
	}
	if v.plain && len(text) <= d.limits.LabelBytes {
		return text, true
	}
	if reason, detail := checkLabel(v.key, text, d.limits.LabelBytes); reason != "" {
		d.fail(reason, "%s", detail)
		return nil, false
	}
	return text, true
}

// enum reads a name out of a fixed list and gives its index.
func enum[E ~uint8](d *decoder, v value, known []string, to *E) {
	text, ok := d.text(v)
	if !ok {
		return
	}
	for i, name := range known {
		if name == string(text) {
			*to = E(i)
			return
		}
	}
	d.fail(ingest.ReasonBadEnum, "%s is %s, want one of %s", v.key, quoted(text), strings.Join(known, ", "))
}

// session reads the clear name of a session and keeps its hash.
func (d *decoder) session(v value, to *uint64) {
	if text, ok := d.text(v); ok {
		*to = hashSession(text)
	}
}

// sessionHash reads a hash that [AppendRequest] wrote: 16 hexadecimal digits, for JSON numbers lose bits above 2⁵³.
func (d *decoder) sessionHash(v value, to *uint64) {
	text, ok := d.text(v)
	if !ok {
		return
	}
	hash := uint64(0)
	for _, c := range text {
		if !isHex(c) || len(text) != 16 {
			d.fail(ingest.ReasonWrongType, "%s is %s, want 16 hexadecimal digits", v.key, quoted(text))
			return
		}
		hash = hash<<4 | uint64(unhex(c))
	}
	*to = hash
}

// count reads a whole number in [0, limit]. 12.0 and 1e3 are whole numbers too.
func (d *decoder) count(v value, limit int64, to *int64) {
	if v.typ != jsonparser.Number {
		d.wrongType(v, "a number")
		return
	}
	if n, ok := smallInt(v.raw); ok && n <= limit {
		*to = n
		return
	}
	var f float64
	d.number(v, float64(limit), &f)
	if f != math.Trunc(f) {
		d.fail(ingest.ReasonWrongType, "%s is %.24s, want a whole number", v.key, v.raw)
		return
	}
	*to = int64(f)
}

// number reads a number in [0, limit].
func (d *decoder) number(v value, limit float64, to *float64) {
	if v.typ != jsonparser.Number {
		d.wrongType(v, "a number")
		return
	}
	f, _ := strconv.ParseFloat(string(v.raw), 64) // out of range gives ±Inf, which the bounds refuse
	switch {
	case f < 0:
		d.fail(ingest.ReasonNegativeCount, "%s is %.24s, a count cannot be negative", v.key, v.raw)
	case f > limit:
		d.fail(ingest.ReasonHugeCount, "%s is %.24s, the limit is %.0f", v.key, v.raw, limit)
	default:
		*to = math.Abs(f) // -0 is 0
	}
}

// ratio reads a number in [0, 1].
func (d *decoder) ratio(v value, to *float64) {
	if v.typ != jsonparser.Number {
		d.wrongType(v, "a number")
		return
	}
	f, _ := strconv.ParseFloat(string(v.raw), 64)
	if f < 0 || f > 1 {
		d.fail(ingest.ReasonOutOfRange, "%s is %.24s, want 0 to 1", v.key, v.raw)
		return
	}
	*to = math.Abs(f)
}

// time reads an RFC 3339 string or a whole number of Unix milliseconds.
func (d *decoder) time(v value, to *time.Time) {
	var t time.Time
	var ok bool
	switch v.typ {
	case jsonparser.Number:
		var ms int64
		if ms, ok = wholeNumber(v.raw); !ok {
			d.fail(ingest.ReasonBadTime, "%s is %.24s, want whole Unix milliseconds", v.key, v.raw)
			return
		}
		t = time.UnixMilli(ms).UTC()
	case jsonparser.String:
		var text []byte
		if text, ok = d.text(v); !ok {
			return
		}
		if t, ok = parseRFC3339(text); !ok {
			d.fail(ingest.ReasonBadTime, "%s is %s, want RFC 3339", v.key, quoted(text))
			return
		}
	default:
		d.wrongType(v, "an RFC 3339 string or Unix milliseconds")
		return
	}
	if t.Before(earliest) || !t.Before(latest) {
		d.fail(ingest.ReasonBadTime, "%s is %s, outside the years 2000 to 2199 (numbers are Unix milliseconds)", v.key, t.Format(time.RFC3339))
		return
	}
	*to = t
}

// maxSpan bounds a duration in a record; what takes longer is a wrong unit.
const maxSpan = 31 * 24 * time.Hour

// millis reads a duration in milliseconds, with fractions; ok is false when the record has none.
func (d *decoder) millis(v value) (span time.Duration, ok bool) {
	if !v.given() {
		return 0, false
	}
	var ms float64
	d.number(v, float64(maxSpan/time.Millisecond), &ms)
	return time.Duration(ms * float64(time.Millisecond)), d.refusal.Reason == ""
}

// after sets to to the instant v milliseconds after from, if both are known.
func (d *decoder) after(from time.Time, v value, to *time.Time) {
	span, ok := d.millis(v)
	if !ok || from.IsZero() {
		return
	}
	if *to = from.Add(span); !to.Before(latest) {
		d.fail(ingest.ReasonBadTime, "%s ends beyond the year 2199", v.key)
	}
}

// wholeNumber parses a whole number up to 2⁵³, as digits or as what writers make of it that know only floats: 1.5e3, 1500.0.
func wholeNumber(raw []byte) (n int64, ok bool) {
	if n, ok = smallInt(raw); ok {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || !(math.Abs(f) <= 1<<53) {
		return 0, false
	}
	return int64(f), true
}

// smallInt parses a run of at most 18 digits, which no int64 overflows.
func smallInt(raw []byte) (n int64, ok bool) {
	if len(raw) == 0 || len(raw) > 18 {
		return 0, false
	}
	for _, c := range raw {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
