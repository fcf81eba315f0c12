package codec

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// earliest and latest bound every time in a record; others have a wrong unit or come from a broken clock.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

const (
	counterLimit      = 1 << 53      // integers up to it are exact in every JSON reader
	maxStartupSeconds = 24 * 60 * 60 // a longer one has a wrong unit
)

// fail marks the current record as unusable; the first fault counts.
func (d *Decoder) fail(reason ingest.Reason, detail string, args ...any) {
	if d.refusal.Reason == "" {
		d.replace(reason, detail, args...)
	}
}

// replace is fail for a fault that matters more than earlier ones.
func (d *Decoder) replace(reason ingest.Reason, detail string, args ...any) {
	d.refusal = ingest.Refusal{Reason: reason, Detail: fmt.Sprintf(detail, args...)}
}

// number stores a number in [0, limit]; NaN is unknown.
func (d *Decoder) number(name string, f, limit float64, to *float64) {
	switch {
	case f < 0:
		d.fail(ingest.ReasonNegativeCount, "%s is %g, a count cannot be negative", name, f)
	case f > limit:
		d.fail(ingest.ReasonHugeCount, "%s is %g, the limit is %.0f", name, f, limit)
	default:
		*to = math.Abs(f) // -0 is 0
	}
}

// count stores a whole number in [0, limit]; NaN is none. 12.0 and 1e3 are whole numbers too.
func count[T ~int | ~int64](d *Decoder, name string, f float64, limit int64, to *T) {
	whole := float64(*to) // stays, if f is refused
	d.number(name, f, float64(limit), &whole)
	if whole != math.Trunc(whole) {
		d.fail(ingest.ReasonWrongType, "%s is %g, want a whole number", name, f)
		return
	}
	*to = T(whole)
}

// ratio stores a number in [0, 1]; NaN is unknown.
func (d *Decoder) ratio(name string, f float64, to *float64) {
	if f < 0 || f > 1 {
		d.fail(ingest.ReasonOutOfRange, "%s is %g, want 0 to 1", name, f)
		return
	}
	*to = math.Abs(f)
}

// instant stores a time within the bounds; unit is the assumed unit of numbers.
func (d *Decoder) instant(name string, t time.Time, unit string, to *time.Time) {
	if t.Before(earliest) || !t.Before(latest) {
		d.fail(ingest.ReasonBadTime, "%s is %s, outside the years 2000 to 2199 (%s)", name, t.Format(time.RFC3339), unit)
	}
	*to = t
}

// parseNumber parses a number that [strconv.ParseFloat] accepts: NaN if it is none, ±Inf if it is out of range.
func parseNumber(raw []byte) float64 {
	if n, ok := smallInt(raw); ok {
		return float64(n)
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !math.IsInf(f, 0) {
		return math.NaN()
	}
	return f
}

// smallInt parses a run of at most 18 digits, which cannot overflow an int64.
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

func isDigit(c byte) bool { return c-'0' <= 9 }

// label returns a name that recurs, as one string in memory; "" if it is invalid.
func (d *Decoder) label(name string, text []byte) string {
	if known, ok := d.names[string(text)]; ok && len(known) <= d.limits.LabelBytes {
		return known
	}
	if !d.checkLabel(name, text) {
		return ""
	}
	return d.names.of(text)
}

// checkLabel refuses the record if text cannot be a label or an id.
func (d *Decoder) checkLabel(name string, text []byte) bool {
	reason := labelFault(text, d.limits.LabelBytes)
	if reason != "" {
		d.fail(reason, "%s has %d bytes: want at most %d, valid UTF-8 without control characters", name, len(text), d.limits.LabelBytes)
	}
	return reason == ""
}

// labelFault returns why text is no valid label: it is too long, is not UTF-8, or has control characters (Unicode's
// category Cc: U+0000 to U+001F and U+007F to U+009F); "" if it is valid.
func labelFault(text []byte, limit int) ingest.Reason {
	switch {
	case len(text) > limit:
		return ingest.ReasonLabelTooLong
	case !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' }): // printable ASCII, as almost all are
	case !utf8.Valid(text):
		return ingest.ReasonInvalidUTF8
	case bytes.ContainsFunc(text, unicode.IsControl):
		return ingest.ReasonBadLabel
	}
	return ""
}

// maxNames bounds the names that a Decoder remembers.
const maxNames = 1 << 16

// names converts recurring bytes such as labels to strings. It returns known strings again without an allocation. When
// it has maxNames, it drops all.
type names map[string]string

func (n *names) of(b []byte) string {
	if text, ok := (*n)[string(b)]; ok {
		return text
	}
	if *n == nil || len(*n) >= maxNames {
		*n = names{"": ""}
	}
	text := string(b)
	(*n)[text] = text
	return text
}

// quoted formats a value of a message for a Detail, if it is as short as that of an enumeration, or is a number or a time.
// Of others it gives only the length, because they may be users' text.
func quoted(text []byte) string {
	if plain.Match(text) {
		return strconv.Quote(string(text))
	}
	return fmt.Sprintf("a string of %d bytes", len(text))
}

var plain = regexp.MustCompile(`^([-._:/@+=0-9A-Za-z]{0,11}|[-+.:0-9 TZe]{0,40})$`)
