package ingest

import "math"

// The field numbers are those of opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto.

// decodeOTLP reads a TracesData, or the ExportTraceServiceRequest that has the same bytes. What it does not need is never
// looked into, so that nesting costs nothing. O(len(data)).
func decodeOTLP(d *decoder, data []byte) {
	if !d.belongs() {
		return
	}
	x, resources := export{decoder: d}, 0
	w := wire{data: data}
	for w.more() {
		if tag := w.varint(); tag == message(1) {
			resources++
			w.adopt(x.protoResource(w.bytes()))
		} else {
			w.skip(tag)
		}
	}
	switch {
	case w.fault != "":
		d.refuse(nil, w.fault, "the export breaks within its %d bytes: what follows is lost", len(data))
	case resources == 0 && len(data) > 0:
		d.refuse(nil, ReasonUnknownFormat, "the message has no resource_spans: it is no OTLP trace export")
	}
	x.close()
}

// message is the tag of an embedded message or string with that field number; integer, fixed and small are those of a
// varint and of numbers of eight bytes.
func message(number uint64) uint64 { return number<<3 | 2 }
func varint(number uint64) uint64  { return number << 3 }
func fixed(number uint64) uint64   { return number<<3 | 1 }

// adopt ends w when what it holds is at fault.
func (w *wire) adopt(fault Reason) {
	if fault != "" && w.fault == "" {
		w.stop(fault)
	}
}

// protoResource reads a ResourceSpans. Its resource may stand behind the spans, so it is looked for first.
func (x *export) protoResource(data []byte) Reason {
	x.resource = otlpAttrs{}
	w := wire{data: data}
	for w.more() {
		if tag := w.varint(); tag == message(1) {
			w.adopt(protoAttributes(w.bytes(), message(1), &x.resource, ofResource))
		} else {
			w.skip(tag)
		}
	}
	if w.fault != "" {
		return w.fault
	}
	w = wire{data: data}
	for w.more() {
		if tag := w.varint(); tag == message(2) {
			w.adopt(x.protoScope(w.bytes()))
		} else {
			w.skip(tag)
		}
	}
	return w.fault
}

// protoScope reads a ScopeSpans.
func (x *export) protoScope(data []byte) Reason {
	x.scope, x.version = nil, nil
	fault := eachMessage(data, 1, func(scope []byte) Reason {
		_ = eachMessage(scope, 1, func(name []byte) Reason { x.scope = name; return "" })
		return eachMessage(scope, 2, func(version []byte) Reason { x.version = version; return "" })
	})
	if fault != "" {
		return fault
	}
	w := wire{data: data}
	for w.more() {
		tag := w.varint()
		if tag != message(2) {
			w.skip(tag)
			continue
		}
		span := w.bytes()
		if w.fault != "" || !x.begin() {
			continue
		}
		if fault := x.protoSpan(span); fault != "" {
			x.fail(fault, "it breaks within its %d bytes", len(span))
		}
		x.end()
	}
	return w.fault
}

// protoSpan reads a Span.
func (x *export) protoSpan(data []byte) Reason {
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

func (s *otlpSpan) protoStatus(data []byte) Reason {
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

// protoAttributes reads the attributes of a message that holds them under tag.
func protoAttributes(data []byte, tag uint64, to *otlpAttrs, rank uint8) Reason {
	w := wire{data: data}
	for w.more() {
		if t := w.varint(); t == tag {
			w.adopt(protoAttribute(w.bytes(), to, rank))
		} else {
			w.skip(t)
		}
	}
	return w.fault
}

// protoAttribute reads a KeyValue.
func protoAttribute(data []byte, to *otlpAttrs, rank uint8) Reason {
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
func protoValue(data []byte, inLists bool) (v otlpValue, fault Reason) {
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
func protoFirst(data []byte) (v otlpValue, fault Reason) {
	w := wire{data: data}
	for w.more() {
		if tag := w.varint(); tag == message(1) {
			return protoValue(w.bytes(), false)
		} else {
			w.skip(tag)
		}
	}
	return otlpValue{}, w.fault
}
