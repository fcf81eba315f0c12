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

// decodeJSON reads one native record of the kind that the subject names: forewarm.request.v1, forewarm.replica.v1, an
// acknowledgement or a watermark. Null members count as absent, unknown ones are ignored.
func decodeJSON(d *Decoder, data []byte) {
	switch d.meta.Kind {
	case KindReplica:
		native(d, data, replicaType, &d.batch.Replicas)
	case KindAck:
		native(d, data, ackType, &d.batch.Acks)
	case KindWatermark:
		native(d, data, watermarkType, new([]ingest.Watermark))
	default:
		native(d, data, requestType, &d.batch.Requests)
	}
}

func decodeSumJSON(d *Decoder, data []byte) {
	native(d, data, sumType, &d.batch.Sums)
}

func native[T any](d *Decoder, data []byte, t *recordType[T], list *[]T) {
	add(d, t, list, func(r *T) {
		next, v, s := 0, &d.member, d.scan(data, d.limits.Depth)
		for s.open('{'); s.more('}'); {
			m := t.find(&next, s.key, 0)
			if s.value(v) && m != nil && v.kind != 'n' {
				v.name = m.name
				d.text(v)
				d.read(v, m.name, m.at(r))
			}
		}
		d.finish(&s, d.limits.Depth)
	})
	d.refused()
}

// lines reads a batch with one record a line. It skips blank lines. A bad line is refused alone.
func (d *Decoder) lines(data []byte, decode func(d *Decoder, line []byte)) {
	for line := range bytes.Lines(data) {
		if line = bytes.Trim(line, whiteSpace); len(line) > 0 && d.within() {
			decode(d, line)
		}
	}
	d.refuseEmpty()
}

// These methods read a member of a native record from JSON.

func (v *value) text(d *Decoder) []byte {
	d.isA(v.name, v.kind, '"')
	return v.raw
}

func (v *value) label(d *Decoder, to *string) { *to = d.label(v.name, v.text(d)) }

func (v *value) number(d *Decoder) float64 {
	if !d.isA(v.name, v.kind, '0') {
		return math.NaN()
	}
	return v.amount
}

// instant reads an RFC 3339 string or a whole number of Unix milliseconds.
func (v *value) instant(d *Decoder, to *time.Time) {
	var t time.Time
	switch v.kind {
	case '0':
		ms := v.amount
		if ms != math.Trunc(ms) || math.Abs(ms) > 1<<53 {
			d.fail(ingest.ReasonBadTime, "%s is %.24s, want whole Unix milliseconds", v.name, v.raw)
			return
		}
		t = time.UnixMilli(int64(ms))
	case '"':
		if t.UnmarshalText(v.raw) != nil && t.UnmarshalText(bytes.ToUpper(v.raw)) != nil { // T and Z may be in lower case
			d.fail(ingest.ReasonBadTime, "%s is %s, want RFC 3339", v.name, quoted(v.raw))
			return
		}
	default:
		d.fail(ingest.ReasonWrongType, "%s is %s, want an RFC 3339 string or Unix milliseconds", v.name, kindNames[v.kind])
		return
	}
	d.instant(v.name, t.UTC(), "numbers are Unix milliseconds", to)
}

// hash reads 16 hexadecimal digits, because JSON numbers lose bits above 2⁵³.
func (v *value) hash(d *Decoder, to *uint64) {
	text := v.text(d)
	hash, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		d.fail(ingest.ReasonWrongType, "%s is %s, want 16 hexadecimal digits", v.name, quoted(text))
	}
	*to = hash
}

func (v *value) enum(d *Decoder, known []string, to *uint8) {
	text := v.text(d)
	i := slices.Index(known, string(text))
	if i < 0 {
		d.fail(ingest.ReasonBadEnum, "%s is %s, want one of %s", v.name, quoted(text), strings.Join(known, ", "))
		return
	}
	*to = uint8(i)
}
