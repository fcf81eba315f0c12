package codec

import (
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/forewarm/forewarm/ingest"
)

// wire reads one message of the protobuf wire format (protobuf.dev/programming-guides/encoding) front to back. The first
// fault ends it: fault says what is wrong, [ReasonTruncated] or [ReasonNotProtobuf], and every later read gives zero.
// What it gives out belongs to data. No allocation.
type wire struct {
	data  []byte
	at    int
	fault ingest.Reason
}

// more says whether another field follows.
func (w *wire) more() bool { return w.at < len(w.data) }

func (w *wire) stop(reason ingest.Reason) {
	w.fault, w.at = reason, len(w.data)
}

// tag reads what a field begins with, field number<<3 | wire type; there must be more.
func (w *wire) tag() (tag uint64) {
	tag = uint64(w.data[w.at])
	if w.at++; tag > 0x7f {
		tag = w.longTag()
	}
	return tag
}

//go:noinline
func (w *wire) longTag() uint64 { // not inlined, so that tag is
	w.at--
	return w.longVarint()
}

// varint reads a base-128 integer.
func (w *wire) varint() uint64 {
	if w.at < len(w.data) && w.data[w.at] < 0x80 {
		w.at++
		return uint64(w.data[w.at-1])
	}
	return w.longVarint()
}

func (w *wire) longVarint() uint64 {
	if rest := w.data[w.at:]; len(rest) > 1 && rest[1] < 0x80 { // most token counts
		w.at += 2
		return uint64(rest[0]&0x7f) | uint64(rest[1])<<7
	}
	n, size := protowire.ConsumeVarint(w.data[w.at:])
	if size < 0 {
		w.parseError(size)
		return 0
	}
	w.at += size
	return n
}

func (w *wire) fixed64() uint64 {
	if len(w.data)-w.at < 8 {
		w.stop(ingest.ReasonTruncated)
		return 0
	}
	n := binary.LittleEndian.Uint64(w.data[w.at:])
	w.at += 8
	return n
}

// bytes reads a string, an embedded message or a packed list.
func (w *wire) bytes() []byte {
	size := w.varint()
	if size > uint64(len(w.data)-w.at) {
		w.stop(ingest.ReasonTruncated)
		return nil
	}
	b := w.data[w.at : w.at+int(size)]
	w.at += int(size)
	return b
}

// skip passes over the value of a field that is not known. Groups, which nest and which proto3 does not have, are faults.
func (w *wire) skip(tag uint64) {
	number, typ := protowire.DecodeTag(tag)
	if !number.IsValid() || typ == protowire.StartGroupType || typ == protowire.EndGroupType {
		w.stop(ingest.ReasonNotProtobuf)
		return
	}
	size := protowire.ConsumeFieldValue(number, typ, w.data[w.at:])
	if size < 0 {
		w.parseError(size)
		return
	}
	w.at += size
}

// parseError takes the negative sizes of protowire.
func (w *wire) parseError(size int) {
	if errors.Is(protowire.ParseError(size), io.ErrUnexpectedEOF) {
		w.stop(ingest.ReasonTruncated)
	} else {
		w.stop(ingest.ReasonNotProtobuf)
	}
}
