package codec

import (
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// decodeProtobuf reads a forewarm.v1.Batch (telemetrypb/telemetry.proto), whatever the kind of the subject. A record that
// cannot be used refuses only itself. Where the frames around the records break, the rest of the message is refused as
// one. No allocation for a record in steady state, two passes over the frames and one over the records: O(len(data)).
func decodeProtobuf(d *decoder, data []byte) {
	records, sound, fault := d.frames(data)
	if len(d.table) > 0 && (d.table[0].name != "" || d.table[0].fault != "") {
		d.refuse(data, ingest.ReasonInconsistent, "the first of the batch's strings is not empty, but index 0 stands for no label")
		return
	}
	d.records(data[:sound], records)
	switch {
	case fault != "":
		d.refuse(data[sound:], fault, "the batch breaks at byte %d of %d: what follows is lost", sound, len(data))
	case records == 0:
		d.refuse(data, ingest.ReasonTruncated, "the batch has no record")
	}
}

// The tags of forewarm.v1.Batch: field number<<3 | wire type.
const (
	batchStrings   = 1<<3 | 2
	batchRequests  = 2<<3 | 2
	batchSums      = 3<<3 | 2
	batchReplicas  = 4<<3 | 2
	batchAcks      = 5<<3 | 2
	batchWatermark = 6<<3 | 2
)

// isRecord says whether tag is of a field that holds records, be it of the right wire type or not.
func isRecord(tag uint64) bool { return batchRequests>>3 <= tag>>3 && tag>>3 <= batchWatermark>>3 }

// frames walks over the fields of a batch, fills the table of strings, which may come after the records that use it, and
// counts the records. It says how many bytes are sound, and what is wrong behind them.
func (d *decoder) frames(data []byte) (records, sound int, fault ingest.Reason) {
	d.table = d.table[:0]
	w := wire{data: data}
	for w.more() {
		sound = w.at
		switch tag := w.tag(); tag {
		case batchStrings:
			if s := w.bytes(); w.fault == "" && len(d.table) <= labelsPerRecord*d.limits.BatchRecords {
				d.table = append(d.table, d.entry(s))
			}
		case batchRequests, batchSums, batchReplicas, batchAcks, batchWatermark:
			if w.bytes(); w.fault == "" {
				records++
			}
		default:
			if isRecord(tag) {
				records++
			}
			w.skip(tag)
		}
	}
	if w.fault == "" {
		sound = len(data)
	}
	return records, sound, w.fault
}

// records decodes the records of sound frames, in their order; there are count of them.
func (d *decoder) records(data []byte, count int) {
	w := wire{data: data}
	for n := 0; w.more(); {
		start := w.at
		tag := w.tag()
		if !isRecord(tag) {
			w.skip(tag)
			continue
		}
		if n++; n > d.limits.BatchRecords {
			d.refuse(data[start:], ingest.ReasonBatchTooLong, "%d records beyond the limit of %d", count-d.limits.BatchRecords, d.limits.BatchRecords)
			return
		}
		d.refusal = ingest.Refusal{}
		if tag&7 != 2 {
			w.skip(tag)
			d.refuse(nil, ingest.ReasonWrongType, "field %d of the batch has wire type %d", tag>>3, tag&7)
			continue
		}
		record := w.bytes()
		switch tag {
		case batchRequests:
			d.protobufRequest(record)
		case batchSums:
			d.protobufSum(record)
		case batchReplicas:
			d.protobufReplica(record)
		case batchAcks:
			d.protobufAck(record)
		case batchWatermark:
			d.protobufWatermark(record)
		}
		if d.refusal.Reason != "" {
			d.refuse(record, d.refusal.Reason, "%s", d.refusal.Detail)
		}
	}
}

// tableEntry is one string of a batch's table: the label, or why it cannot be one.
type tableEntry struct {
	name  string
	fault ingest.Reason
}

const (
	labelsPerRecord = 9    // more strings than that for each record no batch can use
	keepTable       = 4096 // bounds the table that a decoder keeps for its next message
)

func (d *decoder) entry(s []byte) tableEntry {
	if len(s) > d.limits.LabelBytes || !isPrintable(s) {
		if !utf8.Valid(s) {
			return tableEntry{fault: ingest.ReasonInvalidUTF8}
		}
		if reason := labelFault(s, d.limits.LabelBytes); reason != "" {
			return tableEntry{fault: reason}
		}
	}
	return tableEntry{name: d.names.of(s)}
}
