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
// acknowledgement, a watermark or a history. Members that are null count as absent, members that are not known are ignored.
func decodeJSON(d *decoder, data []byte) {
	switch d.meta.Kind {
	case KindReplica:
		native(d, data, replicaType, &d.batch.Replicas)
	case KindAck:
		native(d, data, ackType, &d.batch.Acks)
	case KindWatermark:
		native(d, data, watermarkType, new([]ingest.Watermark))
	case KindHistory:
		native(d, data, historyType, &d.batch.Histories)
	default:
		native(d, data, requestType, &d.batch.Requests)
	}
}

// decodeSumJSON reads one [ingest.Sum].
func decodeSumJSON(d *decoder, data []byte) {
	if d.meta.Kind != KindRequest {
		d.refuse(data, ingest.ReasonUnknownFormat, "sums belong on a request subject")
		return
	}
	native(d, data, sumType, &d.batch.Sums)
}

// native reads one record into list, or refuses it.
func native[T any](d *decoder, data []byte, t *recordType[T], list *[]T) {
	add(d, t, list, func(r *T) {
		j := &d.json
		d.document(data, j, d.limits.Depth, func() {
			d.object(j, "a record, of which a batch has one a line,", func(key []byte) {
				if i, known := t.byName[string(key)]; known {
					d.jsonMember(d.value(j, t.members[i].name), t.members[i].at(r))
				} else {
					j.skip()
				}
			})
		})
	})
	if d.refusal.Reason != "" {
		d.refuse(data, d.refusal.Reason, "%s", d.refusal.Detail)
	}
}

// decodeNDJSON reads a batch: one native JSON record a line. Blank lines are skipped. A bad line, such as a last one that
// was cut, refuses itself only; the lines beyond Limits.BatchRecords are refused together.
func decodeNDJSON(d *decoder, data []byte) { d.lines(data, decodeJSON) }

// decodeSumNDJSON reads a batch of sums.
func decodeSumNDJSON(d *decoder, data []byte) { d.lines(data, decodeSumJSON) }

func (d *decoder) lines(data []byte, decode func(d *decoder, line []byte)) {
	records := 0
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSuffix(line, newline); len(bytes.Trim(line, " \t\r")) == 0 {
			continue
		}
		if records++; records <= d.limits.BatchRecords {
			decode(d, line)
		}
	}
	if over := records - d.limits.BatchRecords; over > 0 {
		d.refuse(nil, ingest.ReasonBatchTooLong, "%d records beyond the limit of %d", over, d.limits.BatchRecords)
	}
	if records == 0 {
		d.refuse(data, ingest.ReasonTruncated, "the batch has no record")
	}
}

var newline = []byte{'\n'}

// jsonMember reads a member of a native record.
func (d *decoder) jsonMember(v value, to any) {
	if v.kind == 'n' {
		return
	}
	switch to := to.(type) {
	case *label:
		if d.isString(v) {
			*to = label(d.label(v.name, v.raw))
		}
	case *string:
		if d.isString(v) && d.checkLabel(v.name, v.raw) {
			*to = string(v.raw)
		}
	case *time.Time:
		d.jsonTime(v, to)
	case *int64:
		d.jsonCount(v, d.limits.Tokens, to)
	case *counter:
		d.jsonCount(v, counterLimit, (*int64)(to))
	case *int:
		*to = int(d.jsonInt(v))
	case *attempt:
		*to = attempt(d.jsonInt(v))
	case *float64:
		d.jsonNumber(v, float64(d.limits.SumTokens), to)
	case *seconds:
		d.jsonNumber(v, maxStartupSeconds, (*float64)(to))
	case *ratio:
		if d.isNumber(v) {
			d.ratio(v.name, parseNumber(v.raw), (*float64)(to))
		}
	case *session:
		if d.isString(v) {
			*to = session(hashSession(v.raw))
		}
	case *sessionHash:
		d.jsonHash(v, (*uint64)(to))
	case *ingest.Phase:
		jsonEnum(d, v, phaseNames, to)
	case *ingest.Status:
		jsonEnum(d, v, statusNames, to)
	case *ingest.ReplicaState:
		jsonEnum(d, v, replicaStateNames, to)
	case *ingest.AckStage:
		jsonEnum(d, v, ackStageNames, to)
	case *amounts:
		d.jsonAmounts(v, to)
	}
}

func (d *decoder) isString(v value) bool {
	if v.kind != '"' {
		d.fail(ingest.ReasonWrongType, "%s is a %s, want a string", v.name, kindNames[v.kind])
	}
	return v.kind == '"'
}

func (d *decoder) isNumber(v value) bool {
	if v.kind != '0' {
		d.fail(ingest.ReasonWrongType, "%s is a %s, want a number", v.name, kindNames[v.kind])
	}
	return v.kind == '0'
}

func (d *decoder) jsonNumber(v value, limit float64, to *float64) {
	if d.isNumber(v) {
		d.number(v.name, parseNumber(v.raw), limit, to)
	}
}

func (d *decoder) jsonCount(v value, limit int64, to *int64) {
	if d.isNumber(v) {
		d.count(v.name, parseNumber(v.raw), limit, to)
	}
}

func (d *decoder) jsonInt(v value) int64 {
	n := ingest.Unknown
	d.jsonCount(v, d.limits.Tokens, &n)
	return n
}

// jsonTime reads an RFC 3339 string or a whole number of Unix milliseconds.
func (d *decoder) jsonTime(v value, to *time.Time) {
	var t time.Time
	switch v.kind {
	case '0':
		ms := parseNumber(v.raw)
		if ms != math.Trunc(ms) || math.Abs(ms) > 1<<53 {
			d.fail(ingest.ReasonBadTime, "%s is %.24s, want whole Unix milliseconds", v.name, v.raw)
			return
		}
		t = time.UnixMilli(int64(ms)).UTC()
	case '"':
		if t.UnmarshalText(v.raw) != nil && t.UnmarshalText(bytes.ToUpper(v.raw)) != nil { // t and z may be in lower case
			d.fail(ingest.ReasonBadTime, "%s is %s, want RFC 3339", v.name, quoted(v.raw))
			return
		}
		t = t.UTC()
	default:
		d.fail(ingest.ReasonWrongType, "%s is a %s, want an RFC 3339 string or Unix milliseconds", v.name, kindNames[v.kind])
		return
	}
	if t.Before(earliest) || !t.Before(latest) {
		d.fail(ingest.ReasonBadTime, "%s is %s, outside the years 2000 to 2199 (numbers are Unix milliseconds)", v.name, t.Format(time.RFC3339))
		return
	}
	*to = t
}

// jsonHash reads what appendMember wrote: 16 hexadecimal digits, for JSON numbers lose bits above 2⁵³.
func (d *decoder) jsonHash(v value, to *uint64) {
	if !d.isString(v) {
		return
	}
	hash, err := strconv.ParseUint(string(v.raw), 16, 64)
	if err != nil || len(v.raw) != 16 {
		d.fail(ingest.ReasonWrongType, "%s is %s, want 16 hexadecimal digits", v.name, quoted(v.raw))
		return
	}
	*to = hash
}

func jsonEnum[E ~uint8](d *decoder, v value, known []string, to *E) {
	if !d.isString(v) {
		return
	}
	i := slices.Index(known, string(v.raw))
	if i < 0 {
		d.fail(ingest.ReasonBadEnum, "%s is %s, want one of %s", v.name, quoted(v.raw), strings.Join(known, ", "))
		return
	}
	*to = E(i)
}

// jsonAmounts reads a list of numbers that are not negative; null is not known.
func (d *decoder) jsonAmounts(v value, to *amounts) {
	var j jsonReader
	j.reset(v.raw)
	*to = nil
	d.list(&j, v.name, func() {
		x, v := math.NaN(), d.value(&j, v.name)
		if len(*to) == ingest.MaxHistoryMinutes {
			d.fail(ingest.ReasonBatchTooLong, "%s has more than %d numbers", v.name, ingest.MaxHistoryMinutes)
			return
		}
		if v.kind != 'n' {
			d.jsonNumber(v, float64(d.limits.SumTokens), &x)
		}
		*to = append(*to, x)
	})
}
