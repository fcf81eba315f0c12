package codec

import (
	"math"
	"time"

	"github.com/VictoriaMetrics/easyproto"

	"github.com/forewarm/forewarm/ingest"
)

// The field numbers of forewarm.v1.Batch (telemetry.proto).
const (
	batchStrings   = 1
	batchRequests  = 2
	batchSums      = 3
	batchReplicas  = 4
	batchAcks      = 5
	batchWatermark = 6
	batchHistories = 7
)

// wire reads one protobuf message in order, up to the first fault.
type wire struct {
	easyproto.FieldContext
	rest  []byte // after the current field
	fault ingest.Reason
	name  string // of the current member of a record
}

// next reads the next field; false at the end or at a fault. Groups are faults: proto3 has none.
func (w *wire) next() bool {
	if len(w.rest) == 0 || w.fault != "" {
		return false
	}
	rest, err := w.NextField(w.rest)
	if err != nil || w.FieldNum == 0 {
		w.fault = ingest.ReasonNotProtobuf
		return false
	}
	w.rest = rest
	return true
}

// tableEntry is one string of a batch's table: the label, or the reason of its refusal.
type tableEntry struct {
	name  string
	fault ingest.Reason
}

const labelsPerRecord = 9 // largest number of strings that a record uses

// decodeProtobuf reads a forewarm.v1.Batch, on a subject of any kind. A bad record is refused alone. If the frames
// around the records are broken, the rest of the message is refused as one. O(len(data)).
func decodeProtobuf(d *Decoder, data []byte) {
	valid, most := 0, labelsPerRecord*d.limits.BatchRecords+1 // the first string is empty
	frames := wire{rest: data}
	for frames.next() { // the table may come after the records that use it
		valid = len(data) - len(frames.rest)
		text, isString := frames.Bytes()
		if frames.FieldNum == batchStrings && isString && len(d.table) <= most {
			entry := tableEntry{fault: labelFault(text, d.limits.LabelBytes)}
			if entry.fault == "" {
				entry.name = d.names.of(text)
			}
			d.table = append(d.table, entry)
		}
	}
	if len(d.table) > most {
		d.table = d.table[:most]
		d.refuse(ingest.ReasonBatchTooLong, "the batch has more than %d strings", most)
	}
	if len(d.table) > 0 && d.table[0] != (tableEntry{}) {
		d.refuse(ingest.ReasonInconsistent, "the first of the batch's strings is not empty, but index 0 means no label")
		return
	}
	for records := (wire{rest: data[:valid]}); records.next(); {
		if number := records.FieldNum; batchRequests <= number && number <= batchHistories && d.within() {
			record, ok := records.Bytes()
			d.refusal = ingest.Refusal{}
			switch {
			case !ok:
				d.fail(ingest.ReasonWrongType, "field %d of the batch is no message", number)
			case number == batchRequests:
				protobufRecord(d, record, requestType, &d.batch.Requests)
			case number == batchSums:
				protobufRecord(d, record, sumType, &d.batch.Sums)
			case number == batchReplicas:
				protobufRecord(d, record, replicaType, &d.batch.Replicas)
			case number == batchAcks:
				protobufRecord(d, record, ackType, &d.batch.Acks)
			case number == batchHistories:
				protobufRecord(d, record, historyType, &d.batch.Histories)
			default:
				protobufRecord(d, record, watermarkType, new([]ingest.Watermark))
			}
			d.refused()
		}
	}
	if frames.fault != "" {
		d.refuse(frames.fault, "the batch breaks at byte %d of %d: what follows is lost", valid, len(data))
	} else {
		d.refuseEmpty()
	}
}

func protobufRecord[T any](d *Decoder, data []byte, t *recordType[T], list *[]T) {
	add(d, t, list, func(r *T) {
		next, w := 0, &d.record
		*w = wire{rest: data}
		for w.next() {
			if m := t.find(&next, nil, w.FieldNum); m != nil {
				w.name = m.name
				d.read(w, m.name, m.at(r))
			}
		}
		if w.fault != "" {
			d.fail(w.fault, "the record of %d bytes breaks off or breaks the wire format", len(data))
		}
	})
}

// These methods read a member of a native record from the current field.

// typed refuses the record if ok is false: the field has another type than in the schema.
func (w *wire) typed(d *Decoder, ok bool) bool {
	if !ok {
		d.fail(ingest.ReasonWrongType, "%s has not the type that the schema says", w.name)
	}
	return ok
}

func (w *wire) text(d *Decoder) []byte {
	text, ok := w.Bytes()
	w.typed(d, ok)
	return text
}

// label reads an index into the batch's table of strings; 0 is absent.
func (w *wire) label(d *Decoder, to *string) {
	index, ok := w.Uint64()
	switch {
	case !w.typed(d, ok) || index == 0:
	case index >= uint64(len(d.table)):
		d.fail(ingest.ReasonOutOfRange, "%s is string %d, the batch has %d that can be read", w.name, index, len(d.table))
	case d.table[index].fault != "":
		d.fail(d.table[index].fault, "%s is string %d of the batch, which cannot be a label", w.name, index)
	default:
		*to = d.table[index].name
	}
}

func (w *wire) number(d *Decoder) float64 {
	if f, ok := w.Double(); ok {
		return f
	}
	n, ok := w.Int64()
	w.typed(d, ok)
	return float64(n)
}

// instant reads Unix nanoseconds; 0 is unknown.
func (w *wire) instant(d *Decoder, to *time.Time) {
	if ns, ok := w.Sfixed64(); w.typed(d, ok) && ns != 0 {
		d.instant(w.name, time.Unix(0, ns).UTC(), "times are Unix nanoseconds", to)
	}
}

func (w *wire) hash(d *Decoder, to *uint64) {
	hash, ok := w.Fixed64()
	w.typed(d, ok)
	*to = hash
}

// enum reads the number of a name, which is one more than its constant; 0 is absent.
func (w *wire) enum(d *Decoder, known []string, to *uint8) {
	n, ok := w.Uint64()
	switch {
	case !w.typed(d, ok) || n == 0:
	case n > uint64(len(known)): // a negative number is a large one here, and is shown as the producer wrote it
		d.fail(ingest.ReasonBadEnum, "%s is %d, want 1 to %d", w.name, int64(n), len(known))
	default:
		*to = uint8(n - 1)
	}
}

// list appends the numbers of a history: none of them negative, NaN is unknown. A list may come in many fields.
func (w *wire) list(d *Decoder, to *amounts) {
	read, ok := len(*to), true
	*to, ok = w.UnpackDoubles(*to)
	if len(*to) > ingest.MaxHistoryMinutes {
		d.fail(ingest.ReasonBatchTooLong, "%s has more than %d numbers", w.name, ingest.MaxHistoryMinutes)
	}
	for i := read; i < len(*to); i++ {
		d.number(w.name, (*to)[i], float64(d.limits.SumTokens), &(*to)[i])
	}
	w.typed(d, ok)
}

var marshalers easyproto.MarshalerPool

// AppendProtobuf appends b as one forewarm.v1.Batch, without refusals; its content type is [ContentTypeProtobuf].
// [Decode] reads the same records back, times to the nanosecond. The hash of a session is written as session_hash. Equal
// batches give equal bytes. About 60 bytes a request. Safe for concurrent use on distinct batches.
func AppendProtobuf(dst []byte, b *ingest.Batch) []byte {
	strings, records := marshalers.Get(), marshalers.Get()
	w := protobufWriter{strings.MessageMarshaler(), records.MessageMarshaler(), map[string]uint64{}}
	w.strings.AppendString(batchStrings, "")
	appendProtobuf(&w, batchRequests, requestType, b.Requests)
	appendProtobuf(&w, batchSums, sumType, b.Sums)
	appendProtobuf(&w, batchReplicas, replicaType, b.Replicas)
	appendProtobuf(&w, batchAcks, ackType, b.Acks)
	appendProtobuf(&w, batchHistories, historyType, b.Histories)
	if b.Watermark != nil {
		appendProtobuf(&w, batchWatermark, watermarkType, []ingest.Watermark{*b.Watermark})
	}
	dst = records.Marshal(strings.Marshal(dst))
	marshalers.Put(strings)
	marshalers.Put(records)
	return dst
}

// protobufWriter writes the records of one batch, and collects the table of their strings.
type protobufWriter struct {
	strings, records *easyproto.MessageMarshaler
	table            map[string]uint64 // index of each string but ""
}

func appendProtobuf[T any](w *protobufWriter, number uint32, t *recordType[T], list []T) {
	for i := range list {
		record, r := w.records.AppendMessage(number), &list[i]
		for k := range t.members {
			w.member(record, t.members[k].number, r, t.members[k].at(r))
		}
	}
}

// member writes a member of the record of, unless it is unknown. Phase and status are not written if both are the
// defaults. The clear name of a session is never kept.
func (w *protobufWriter) member(record *easyproto.MessageMarshaler, number uint32, of, from any) {
	whole := func(n int64, known bool) {
		if known {
			record.AppendInt64(number, n)
		}
	}
	amount := func(f float64) {
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			record.AppendDouble(number, f)
		}
	}
	switch v := from.(type) {
	case *label:
		if *v != "" {
			record.AppendUint64(number, w.index(string(*v)))
		}
	case *string:
		if *v != "" {
			record.AppendString(number, *v)
		}
	case *time.Time:
		if !v.IsZero() {
			record.AppendSfixed64(number, v.UnixNano())
		}
	case *int64:
		whole(*v, *v >= 0)
	case *counter:
		whole(int64(*v), *v >= 0)
	case *int:
		whole(int64(*v), *v >= 0)
	case *attempt:
		whole(int64(*v), *v != 1)
	case *sessionHash:
		if *v != 0 {
			record.AppendFixed64(number, uint64(*v))
		}
	case *float64:
		amount(*v)
	case *seconds:
		amount(float64(*v))
	case *ratio:
		amount(float64(*v))
	case *amounts:
		record.AppendDoubles(number, *v)
	case *ingest.Phase:
		whole(int64(*v)+1, !endedWell(of))
	case *ingest.Status:
		whole(int64(*v)+1, !endedWell(of))
	case *ingest.ReplicaState:
		whole(int64(*v)+1, true)
	case *ingest.AckStage:
		whole(int64(*v)+1, true)
	}
}

func (w *protobufWriter) index(text string) uint64 {
	index, ok := w.table[text]
	if !ok {
		index = uint64(len(w.table)) + 1
		w.table[text] = index
		w.strings.AppendString(batchStrings, text)
	}
	return index
}

// endedWell reports whether phase and status of a request are the defaults.
func endedWell(of any) bool {
	r := of.(*ingest.Request)
	return r.Phase == ingest.PhaseFinished && r.Status == ingest.StatusOK
}
