// Package codec decodes the messages that producers publish into records of package ingest, and encodes such records.
//
// It is pure: no clock, no I/O, no logging, no goroutine. A decoder never panics and never keeps a slice of its input.
// A bad record does not affect the others. Prompt text is never kept, not even of a refused record.
package codec

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/forewarm/forewarm/ingest"
)

// format is one encoding of telemetry. decode appends the records of data to d.batch, and refuses invalid ones.
type format struct {
	name        string // in configurations
	contentType string // in messages
	decode      func(d *Decoder, data []byte)
	foreign     *foreign // for decodeForeign, else nil
	binary      bool     // not JSON
	prompts     bool     // by its schema, messages may hold users' text
	anyKind     bool     // allowed on all telemetry subjects; false: on those of requests only
}

// The content types of the native formats.
const (
	ContentTypeJSON      = "application/json"
	ContentTypeProtobuf  = "application/vnd.forewarm.v1+protobuf"
	ContentTypeNDJSON    = "application/x-ndjson"
	ContentTypeSum       = "application/vnd.forewarm.sum+json"
	ContentTypeSumNDJSON = "application/vnd.forewarm.sum+x-ndjson"
)

// Content types of foreign formats. Most of their producers set none; their subject determines the format.
const (
	ContentTypeDynamo = "application/vnd.dynamo.request.trace.v1+json"
	ContentTypeOpenAI = "application/vnd.forewarm.openai+json"
)

// formats lists every format; the first is the default.
var formats = [...]format{
	{name: "json", contentType: ContentTypeJSON, decode: decodeJSON, anyKind: true},
	{name: "ndjson", contentType: ContentTypeNDJSON, decode: decodeNDJSON, anyKind: true},
	{name: "protobuf", contentType: ContentTypeProtobuf, decode: decodeProtobuf, binary: true, anyKind: true},
	{name: "sum", contentType: ContentTypeSum, decode: decodeSumJSON},
	{name: "sum-ndjson", contentType: ContentTypeSumNDJSON, decode: decodeSumNDJSON},
	{name: "otlp", contentType: ContentTypeOTLP, decode: decodeOTLP(false, false), binary: true, prompts: true},
	{name: "otlp-json", contentType: ContentTypeOTLPJSON, decode: decodeOTLP(true, false), prompts: true},
	{name: "otlp-logs", contentType: ContentTypeOTLPLogs, decode: decodeOTLP(false, true), binary: true, prompts: true},
	{name: "otlp-logs-json", contentType: ContentTypeOTLPLogsJSON, decode: decodeOTLP(true, true), prompts: true},
	{name: "dynamo", contentType: ContentTypeDynamo, decode: decodeForeign, foreign: dynamo},
	{name: "litellm", contentType: "application/vnd.forewarm.litellm+json", decode: decodeForeign, foreign: liteLLM, prompts: true},
	{name: "openai", contentType: ContentTypeOpenAI, decode: decodeForeign, foreign: openAI, prompts: true},
	{name: "envoy", contentType: "application/vnd.forewarm.envoy+json", decode: decodeForeign, foreign: envoy, prompts: true},
	{name: "sglang", contentType: "application/vnd.forewarm.sglang+json", decode: decodeForeign, foreign: sglang, prompts: true},
	{name: "kong", contentType: "application/vnd.forewarm.kong+json", decode: decodeForeign, foreign: kong, prompts: true},
}

// Formats lists the names of the formats, as configurations write them.
func Formats() []string {
	names := make([]string, len(formats))
	for i := range formats {
		names[i] = formats[i].name
	}
	return names
}

// ContentTypeOf is the content type of the format of that name; ok is false when there is none.
func ContentTypeOf(name string) (contentType string, ok bool) {
	i := slices.IndexFunc(formats[:], func(f format) bool { return f.name == name })
	if i < 0 {
		return "", false
	}
	return formats[i].contentType, true
}

// HoldsPrompts reports whether, by the schema, messages of that content type may hold users' text. NVIDIA Dynamo's
// traces do not, unless payloads are enabled.
func HoldsPrompts(contentType string) bool {
	f := formatOf(contentType)
	return f != nil && f.prompts
}

// Decode is [Decoder.Decode] for callers that keep no Decoder.
func Decode(m Meta, data []byte, lim ingest.Limits, b *ingest.Batch) {
	d := decoders.Get().(*Decoder)
	d.Decode(m, data, lim, b)
	decoders.Put(d)
}

var decoders = sync.Pool{New: func() any { return new(Decoder) }}

// Decoder decodes many messages of one goroutine. It returns a repeated label as the same string in memory. That saves
// allocations, and the aggregation finds its class faster. The zero value is ready for use.
type Decoder struct {
	// These are of the current message.
	meta    Meta
	limits  ingest.Limits
	batch   *ingest.Batch
	binary  bool           // not JSON
	foreign *foreign       // format of the current record
	service string         // pool of a record that names neither a pool nor a model; "" for none
	refusal ingest.Refusal // why the current record is refused; Reason "" while it is not

	// These are reused for the next message.
	member   value  // of a native record in JSON
	record   wire   // a native record in protobuf
	found    record // of a foreign format
	names    names
	inflater inflater
	scratch  []byte       // unescaped strings of the current message
	table    []tableEntry // of the current protobuf batch
}

// Decode appends the records of one message and its refusals to b. It never fails as a whole: an unusable record is
// refused with a reason, the others stay. Nothing in b aliases data. O(len(data)).
func (d *Decoder) Decode(m Meta, data []byte, lim ingest.Limits, b *ingest.Batch) {
	d.meta, d.limits, d.batch = m, lim, b
	d.message(data)
	d.inflater.release()
	if d.scratch = d.scratch[:0]; cap(d.scratch) > keepScratch {
		d.scratch = nil
	}
	if cap(d.table) > keepTable {
		d.table = nil
	}
	d.meta, d.batch, d.binary, d.foreign = Meta{}, nil, false, nil
}

// keepScratch is the most memory for unescaped strings that a Decoder keeps for its next message, in bytes.
const keepScratch = 64 << 10

func (d *Decoder) message(data []byte) {
	f := formatOf(d.meta.ContentType)
	d.binary = f != nil && f.binary
	if len(data) > d.limits.MessageBytes {
		d.refuse(ingest.ReasonTooLarge, "message has %d bytes, the limit is %d", len(data), d.limits.MessageBytes)
		return
	}
	for _, name := range [...]*string{&d.meta.Pool, &d.meta.Class, &d.meta.Replica, &d.meta.Source} {
		if *name == "" {
			continue
		}
		d.refusal = ingest.Refusal{}
		d.scratch = append(d.scratch[:0], *name...)
		if *name = d.label("a name in the subject or a header", d.scratch); d.refused() {
			return
		}
	}
	d.scratch, d.batch.Source = d.scratch[:0], d.meta.Source
	if f == nil {
		d.refuse(ingest.ReasonUnknownFormat, "content type %.64q is not known", d.meta.ContentType)
		return
	}
	if !f.anyKind && d.meta.Kind != KindRequest {
		d.refuse(ingest.ReasonUnknownFormat, "records of format %s belong on a request subject", f.name)
		return
	}
	plain, reason, detail := d.inflater.inflate(d.meta.Encoding, data, d.limits.MessageBytes)
	if reason != "" {
		d.refuse(reason, "%s", detail)
		return
	}
	if !f.binary {
		plain = bytes.TrimPrefix(plain, byteOrderMark)
	}
	d.foreign = f.foreign
	f.decode(d, plain)
}

// byteOrderMark precedes JSON of some Windows software; readers may ignore it (RFC 8259, section 8.1).
var byteOrderMark = []byte("\xef\xbb\xbf")

func formatOf(contentType string) *format {
	if contentType == "" {
		return &formats[0]
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = cmp.Or(strings.TrimSpace(mediaType), ContentTypeJSON)
	for i := range formats {
		if strings.EqualFold(mediaType, formats[i].contentType) {
			return &formats[i]
		}
	}
	return nil
}

// refuseBeyond refuses the records of a message beyond the limit as one.
func (d *Decoder) refuseBeyond(records int) {
	if over := records - d.limits.BatchRecords; over > 0 {
		d.refuse(ingest.ReasonBatchTooLong, "%d records beyond the limit of %d", over, d.limits.BatchRecords)
	}
}

// refused reports whether the current record is unusable, and then refuses it.
func (d *Decoder) refused() bool {
	if d.refusal.Reason == "" {
		return false
	}
	d.refuse(d.refusal.Reason, "%s", d.refusal.Detail)
	return true
}

// refuse adds a refusal. Nothing of the record is kept, because it may hold a prompt.
func (d *Decoder) refuse(reason ingest.Reason, detail string, args ...any) {
	r := ingest.Refusal{Reason: reason, Detail: fmt.Sprintf(detail, args...), Producer: cmp.Or(d.meta.Source, d.meta.Replica), Pool: d.meta.Pool}
	d.batch.Refused = append(d.batch.Refused, r)
}
