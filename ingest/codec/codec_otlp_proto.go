package codec

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// The field numbers are those of opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto.

// decodeOTLP reads a TracesData, or the ExportTraceServiceRequest that has the same bytes. What it does not need is never
// looked into, so that nesting costs nothing. O(len(data)).
func decodeOTLP(d *decoder, data []byte) {
	if !d.belongs() {
		return
	}
	x := export{decoder: d}
	x.proto(data, "spans", x.protoScope)
	x.close()
}

// proto reads an export of spans or logs, and calls scope with each ScopeSpans or ScopeLogs. Their resource may stand behind them, so
// it is looked for first.
func (x *export) proto(data []byte, kind string, scope func(data []byte) ingest.Reason) {
	resources := 0
	fault := eachMessage(data, 1, func(resource []byte) ingest.Reason {
		resources++
		x.resource = otlpAttrs{}
		fault := eachMessage(resource, 1, func(data []byte) ingest.Reason { return protoAttributes(data, 1, &x.resource, ofResource) })
		if fault != "" {
			return fault
		}
		return eachMessage(resource, 2, scope)
	})
	switch {
	case fault != "":
		x.refuse(nil, fault, "the export breaks within its %d bytes: what follows is lost", len(data))
	case resources == 0 && len(data) > 0:
		x.refuse(nil, ingest.ReasonUnknownFormat, "the message has no resource_%s: it is no OTLP export of %s", kind, kind)
	}
}

// eachMessage calls f for the embedded messages with a field number, until one is at fault.
func eachMessage(data []byte, number uint64, f func(data []byte) ingest.Reason) ingest.Reason {
	w := wire{data: data}
	for w.more() {
		if tag := w.varint(); tag != message(number) {
			w.skip(tag)
		} else if inner := w.bytes(); w.fault == "" {
			w.adopt(f(inner))
		}
	}
	return w.fault
}

// message is the tag of an embedded message or string with that field number; integer, fixed and small are those of a
// varint and of numbers of eight bytes.
func message(number uint64) uint64 { return number<<3 | 2 }
func varint(number uint64) uint64  { return number << 3 }
func fixed(number uint64) uint64   { return number<<3 | 1 }

// adopt ends w when what it holds is at fault.
func (w *wire) adopt(fault ingest.Reason) {
	if fault != "" && w.fault == "" {
		w.stop(fault)
	}
}

// protoScope reads a ScopeSpans.
func (x *export) protoScope(data []byte) ingest.Reason {
	x.scope, x.version = nil, nil
	fault := eachMessage(data, 1, func(scope []byte) ingest.Reason {
		_ = eachMessage(scope, 1, func(name []byte) ingest.Reason { x.scope = name; return "" })
		return eachMessage(scope, 2, func(version []byte) ingest.Reason { x.version = version; return "" })
	})
	if fault != "" {
		return fault
	}
	return eachMessage(data, 2, func(span []byte) ingest.Reason {
		if x.begin() {
			if fault := x.protoSpan(span); fault != "" {
				x.fail(fault, "it breaks within its %d bytes", len(span))
			}
			x.end()
		}
		return ""
	})
}

// protoSpan reads a Span.
func (x *export) protoSpan(data []byte) ingest.Reason {
	s := &x.span
	w := wire{data: data}
	for w.more() {
		switch tag := w.varint(); tag {
		case message(1):
			copyID(s.trace[:], w.bytes())
		case message(2):
			copyID(s.id[:], w.bytes())
		case message(4):
			copyID(s.parent[:], w.bytes())
		case fixed(7):
			s.start = w.fixed64()
		case fixed(8):
			s.end = w.fixed64()
		case message(9):
			w.adopt(protoAttribute(w.bytes(), &x.attrs, 0))
		case message(15):
			w.adopt(s.protoStatus(w.bytes()))
		default:
			w.skip(tag)
		}
	}
	return w.fault
}

// copyID takes an id of the right length; another is none.
func copyID(to, id []byte) {
	if len(id) == len(to) {
		copy(to, id)
	}
}

// statusError is the code of a span that failed.
const statusError = 2

func (s *otlpSpan) protoStatus(data []byte) ingest.Reason {
	w := wire{data: data}
	for w.more() {
		if tag := w.varint(); tag == varint(3) {
			s.failed = w.varint() == statusError
		} else {
			w.skip(tag)
		}
	}
	return w.fault
}

// protoAttributes reads the attributes of a message that holds them under a field number.
func protoAttributes(data []byte, number uint64, to *otlpAttrs, rank uint8) ingest.Reason {
	return eachMessage(data, number, func(attribute []byte) ingest.Reason { return protoAttribute(attribute, to, rank) })
}

// protoAttribute reads a KeyValue.
func protoAttribute(data []byte, to *otlpAttrs, rank uint8) ingest.Reason {
	var key, value []byte
	w := wire{data: data}
	for w.more() {
		switch tag := w.varint(); tag {
		case message(1):
			key = w.bytes()
		case message(2):
			value = w.bytes()
		default:
			w.skip(tag)
		}
	}
	name, known := otlpNames[string(key)]
	if w.fault != "" || !known {
		return w.fault
	}
	v, fault := protoValue(value, true)
	to.set(name.field, rank+name.rank, v)
	return fault
}

// protoValue reads an AnyValue; within a list only if inLists, so that it recurs once at most.
func protoValue(data []byte, inLists bool) (v otlpValue, fault ingest.Reason) {
	w := wire{data: data}
	for w.more() {
		switch tag := w.varint(); tag {
		case message(1):
			v = otlpValue{kind: otlpText, text: w.bytes()}
		case varint(3):
			v = otlpValue{kind: otlpInteger, integer: int64(w.varint())}
		case fixed(4):
			v = otlpValue{kind: otlpDouble, double: math.Float64frombits(w.fixed64())}
		case message(5):
			list := w.bytes()
			if v = (otlpValue{kind: otlpOther}); inLists {
				v, fault = protoFirst(list)
				w.adopt(fault)
			}
		default:
			v = otlpValue{kind: otlpOther}
			w.skip(tag)
		}
	}
	return v, w.fault
}

// protoFirst reads the first value of an ArrayValue.
func protoFirst(data []byte) (v otlpValue, fault ingest.Reason) {
	first := true
	fault = eachMessage(data, 1, func(data []byte) (fault ingest.Reason) {
		if first {
			v, fault = protoValue(data, false)
		}
		first = false
		return fault
	})
	return v, fault
}
