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
// acknowledgement, a watermark, a history, or the keys of a pool. Null members count as absent,
// unknown ones are ignored.
func decodeJSON(d *Decoder, data []byte) {
	switch d.meta.Kind {
	case KindReplica:
		native(d, data, replicaType, &d.batch.Replicas)
	case KindAck:
		native(d, data, ackType, &d.batch.Acks)
	case KindWatermark:
		native(d, data, watermarkType, new([]ingest.Watermark))
	case KindHistory:
		native(d, data, historyType, &d.batch.Histories)
	case KindDefinition:
		decodeDefinition(d, data)
	default:
		native(d, data, requestType, &d.batch.Requests)
	}
}

// decodeDefinition keeps the keys of a pool; the configuration parses them.
func decodeDefinition(d *Decoder, data []byte) {
	switch {
	case d.meta.Pool == "":
		d.refuse(ingest.ReasonMissingField, "the subject names no pool")
	case len(data) > ingest.MaxDefinitionBytes:
		d.refuse(ingest.ReasonTooLarge, "the definition has %d bytes, the limit is %d", len(data), ingest.MaxDefinitionBytes)
	case d.batch.Definition != nil:
		d.refuse(ingest.ReasonBatchTooLong, "a message carries one definition")
	default:
		d.batch.Definition = &ingest.Definition{Pool: d.meta.Pool, Keys: bytes.Clone(data)}
	}
}

// decodeSumJSON reads one [ingest.Sum].
func decodeSumJSON(d *Decoder, data []byte) {
	native(d, data, sumType, &d.batch.Sums)
}

// native reads one record into list, or refuses it.
func native[T any](d *Decoder, data []byte, t *recordType[T], list *[]T) {
	add(d, t, list, func(r *T) {
		next, v := 0, &d.member
		d.object(data, d.limits.Depth, v, func(key []byte) {
			if m := t.find(&next, key, 0); m != nil && v.kind != 'n' {
				v.name = m.name
				d.text(v)
				d.read(v, m.name, m.at(r))
			}
		})
	})
	d.refused()
}

// decodeNDJSON reads a batch: one native JSON record a line. It skips blank lines. A bad line is refused alone; the
// lines beyond Limits.BatchRecords are refused together.
func decodeNDJSON(d *Decoder, data []byte) { d.lines(data, decodeJSON) }

// decodeSumNDJSON reads a batch of sums.
func decodeSumNDJSON(d *Decoder, data []byte) { d.lines(data, decodeSumJSON) }

func (d *Decoder) lines(data []byte, decode func(d *Decoder, line []byte)) {
	records := 0
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSuffix(line, newline); len(bytes.Trim(line, " \t\r")) == 0 {
			continue
		}
		if records++; records <= d.limits.BatchRecords {
			decode(d, line)
		}
	}
	d.refuseBeyond(records)
	if records == 0 {
		d.refuse(ingest.ReasonTruncated, "the batch has no record")
	}
}

var newline = []byte{'\n'}

// These methods read a member of a native record from JSON.

func (v *value) text(d *Decoder) ([]byte, bool) {
	return v.raw, d.isA(v.name, v.kind, '"')
}

func (v *value) label(d *Decoder) (string, bool) {
	text, ok := v.text(d)
	if !ok {
		return "", false
	}
	return d.label(v.name, text), true
}

func (v *value) number(d *Decoder) (float64, bool) {
	return parseNumber(v.raw), d.isA(v.name, v.kind, '0')
}

// instant reads an RFC 3339 string or a whole number of Unix milliseconds.
func (v *value) instant(d *Decoder) (t time.Time, ok bool) {
	switch v.kind {
	case '0':
		ms := parseNumber(v.raw)
		if ms != math.Trunc(ms) || math.Abs(ms) > 1<<53 {
			d.fail(ingest.ReasonBadTime, "%s is %.24s, want whole Unix milliseconds", v.name, v.raw)
			return t, false
		}
		t = time.UnixMilli(int64(ms)).UTC()
	case '"':
		if t.UnmarshalText(v.raw) != nil && t.UnmarshalText(bytes.ToUpper(v.raw)) != nil { // T and Z may be in lower case
			d.fail(ingest.ReasonBadTime, "%s is %s, want RFC 3339", v.name, quoted(v.raw))
			return t, false
		}
		t = t.UTC()
	default:
		d.fail(ingest.ReasonWrongType, "%s is %s, want an RFC 3339 string or Unix milliseconds", v.name, kindNames[v.kind])
		return t, false
	}
	return t, d.checkTime(v.name, t, "numbers are Unix milliseconds")
}

// hash reads 16 hexadecimal digits, because JSON numbers lose bits above 2⁵³.
func (v *value) hash(d *Decoder) (uint64, bool) {
	text, ok := v.text(d)
	if !ok {
		return 0, false
	}
	hash, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		d.fail(ingest.ReasonWrongType, "%s is %s, want 16 hexadecimal digits", v.name, quoted(text))
		return 0, false
	}
	return hash, true
}

func (v *value) enum(d *Decoder, known []string) (uint8, bool) {
	text, ok := v.text(d)
	if !ok {
		return 0, false
	}
	i := slices.Index(known, string(text))
	if i < 0 {
		d.fail(ingest.ReasonBadEnum, "%s is %s, want one of %s", v.name, quoted(text), strings.Join(known, ", "))
	}
	return uint8(max(i, 0)), i >= 0
}

// amounts reads a list of numbers that are not negative; null is unknown.
func (v *value) amounts(d *Decoder) (all []float64) {
	if !d.isA(v.name, v.kind, '[') {
		return nil
	}
	element := value{name: v.name}
	d.each(v.raw, 0, &element, func([]byte) {
		x := math.NaN()
		if len(all) == ingest.MaxHistoryMinutes {
			d.fail(ingest.ReasonBatchTooLong, "%s has more than %d numbers", v.name, ingest.MaxHistoryMinutes)
			return
		}
		if element.kind != 'n' {
			d.readNumber(&element, v.name, float64(d.limits.SumTokens), &x)
		}
		all = append(all, x)
	})
	return all
}
