package codec

import (
	"math"
	"time"
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// The readers of single fields of a protobuf record. Each refuses the record, naming the field, when the value cannot be
// used.

// protobufLabel reads an index into the batch's table of strings.
func (d *decoder) protobufLabel(index uint64, field string, to *string) {
	if index == 0 {
		return
	}
	if index >= uint64(len(d.table)) {
		d.fail(ingest.ReasonOutOfRange, "%s is string %d, the batch has %d", field, index, len(d.table))
		return
	}
	e := &d.table[index]
	if e.fault != "" {
		d.fail(e.fault, "%s is string %d of the batch, which cannot be a label", field, index)
		return
	}
	*to = e.name
}

// protobufID reads a name that does not recur.
func (d *decoder) protobufID(id []byte, field string, to *string) {
	if len(id) > d.limits.LabelBytes || !isPrintable(id) {
		if !utf8.Valid(id) {
			d.fail(ingest.ReasonInvalidUTF8, "%s is not valid UTF-8", field)
			return
		}
		if reason, detail := checkLabel(field, id, d.limits.LabelBytes); reason != "" {
			d.fail(reason, "%s", detail)
			return
		}
	}
	*to = d.texts.of(id)
}

// protobufCount reads a whole number in [0, limit].
func (d *decoder) protobufCount(n uint64, field string, limit int64, to *int64) {
	switch {
	case n <= uint64(limit):
		*to = int64(n)
	case int64(n) < 0:
		d.fail(ingest.ReasonNegativeCount, "%s is %d, a count cannot be negative", field, int64(n))
	default:
		d.fail(ingest.ReasonHugeCount, "%s is %d, the limit is %d", field, n, limit)
	}
}

// protobufAmount reads a number in [0, limit]; NaN is unknown.
func (d *decoder) protobufAmount(bits uint64, field string, limit float64, to *float64) {
	switch f := math.Float64frombits(bits); {
	case f < 0:
		d.fail(ingest.ReasonNegativeCount, "%s is %g, a count cannot be negative", field, f)
	case f > limit:
		d.fail(ingest.ReasonHugeCount, "%s is %g, the limit is %.0f", field, f, limit)
	default:
		*to = math.Abs(f) // -0 is 0
	}
}

// protobufRatio reads a number in [0, 1]; NaN is unknown.
func (d *decoder) protobufRatio(bits uint64, field string, to *float64) {
	f := math.Float64frombits(bits)
	if f < 0 || f > 1 {
		d.fail(ingest.ReasonOutOfRange, "%s is %g, want 0 to 1", field, f)
		return
	}
	*to = math.Abs(f)
}

// The bounds of every time, in Unix nanoseconds.
const (
	earliestNS = 946_684_800_000_000_000
	latestNS   = 7_258_118_400_000_000_000
)

// protobufTime reads Unix nanoseconds; 0 is unknown.
func (d *decoder) protobufTime(ns uint64, field string, to *time.Time) {
	switch {
	case ns-earliestNS < latestNS-earliestNS:
		*to = time.Unix(0, int64(ns)).UTC()
	case ns == 0:
		*to = time.Time{}
	default:
		d.fail(ingest.ReasonBadTime, "%s is %d, outside the years 2000 to 2199 (times are Unix nanoseconds)", field, int64(ns))
	}
}

// protobufEnum reads the number of a name, which is one more than its constant; 0 says nothing.
func protobufEnum[E ~uint8](d *decoder, n uint64, field string, known []string, to *E) {
	switch {
	case n == 0:
	case n <= uint64(len(known)):
		*to = E(n - 1)
	default:
		d.fail(ingest.ReasonBadEnum, "%s is %d, want 1 to %d", field, int64(n), len(known))
	}
}

// protobufOther passes over a field that the record's switch does not know: a newer one, or one of fields with another
// wire type than it should have.
func (d *decoder) protobufOther(w *wire, tag uint64, fields []string) {
	if number := tag >> 3; number > 0 && number < uint64(len(fields)) {
		d.fail(ingest.ReasonWrongType, "%s has wire type %d", fields[number], tag&7)
	}
	w.skip(tag)
}

// protobufEnd refuses a record that w could not read to its end.
func (d *decoder) protobufEnd(w *wire) {
	if w.fault != "" {
		d.fail(w.fault, "the record of %d bytes breaks off or breaks the wire format", len(w.data))
	}
}
