// Package codec decodes the messages that producers publish into records of package ingest, and encodes such records.
//
// It is pure: no clock, no I/O, no logging, no goroutine. A decoder never panics and never keeps a slice of its input.
// A bad record does not affect the others. Prompt text is never kept, not even of a refused record.
package codec

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

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
	{name: "ndjson", contentType: ContentTypeNDJSON, decode: func(d *Decoder, data []byte) { d.lines(data, decodeJSON) }, anyKind: true},
	{name: "protobuf", contentType: ContentTypeProtobuf, decode: decodeProtobuf, binary: true, anyKind: true},
	{name: "sum", contentType: ContentTypeSum, decode: decodeSumJSON},
	{name: "sum-ndjson", contentType: ContentTypeSumNDJSON, decode: func(d *Decoder, data []byte) { d.lines(data, decodeSumJSON) }},
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
	for i := range formats {
		if formats[i].name == name {
			return formats[i].contentType, true
		}
	}
	return "", false
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
	// These are of the current message. The first two stay, because the next message mostly has the same.
	meta    Meta
	limits  ingest.Limits
	batch   *ingest.Batch
	records int            // so far, also those beyond the limit
	binary  bool           // not JSON
	foreign *foreign       // format of the current record
	service string         // pool of a record that names neither a pool nor a model; "" for none
	refusal ingest.Refusal // why the current record is refused; Reason "" while it is not

	// These are reused for the next message.
	member     value  // of a record in JSON
	record     wire   // a native record in protobuf
	found      record // of a foreign format
	names      names
	compressed bytes.Reader
	gzip       gzip.Reader
	plain      []byte       // the current message, decompressed
	scratch    []byte       // its unescaped strings
	table      []tableEntry // of the current protobuf batch
}

// Decode appends the records of one message and its refusals to b. It never fails as a whole: an unusable record is
// refused with a reason, the others stay. Nothing in b aliases data. O(len(data)).
func (d *Decoder) Decode(m Meta, data []byte, lim ingest.Limits, b *ingest.Batch) {
	d.batch, d.records, d.refusal = b, 0, ingest.Refusal{}
	if m != d.meta || lim != d.limits { // otherwise its names have been checked
		d.meta, d.limits = m, lim
		d.checkNames()
	}
	f, plain := d.open(data)
	if !d.refused() {
		f.decode(d, plain)
	}
	if over := d.records - lim.BatchRecords; over > 0 {
		d.refuse(ingest.ReasonBatchTooLong, "%d records beyond the limit of %d", over, lim.BatchRecords)
	}
	const kept = 64 << 10 // bytes, or strings
	d.plain, d.scratch, d.table = ingest.Emptied(d.plain, kept), ingest.Emptied(d.scratch, kept), ingest.Emptied(d.table, kept)
	d.batch, d.foreign = nil, nil
}

// checkNames checks the names in the subject and the headers. An invalid one refuses the message, and is removed.
func (d *Decoder) checkNames() {
	for _, name := range [...]*string{&d.meta.Pool, &d.meta.Class, &d.meta.Replica, &d.meta.Source} {
		if *name != "" {
			*name = d.label("a name in the subject or a header", []byte(*name))
		}
	}
}

// open finds the format of a message and decompresses it. It refuses the message if it cannot.
func (d *Decoder) open(data []byte) (f *format, plain []byte) {
	if len(data) > d.limits.MessageBytes {
		d.fail(ingest.ReasonTooLarge, "message has %d bytes, the limit is %d", len(data), d.limits.MessageBytes)
		return nil, nil
	}
	d.batch.Source = d.meta.Source
	f = formatOf(d.meta.ContentType)
	switch {
	case f == nil:
		d.fail(ingest.ReasonUnknownFormat, "content type %.64q is not known", d.meta.ContentType)
		return nil, nil
	case !f.anyKind && d.meta.Kind != KindRequest:
		d.fail(ingest.ReasonUnknownFormat, "records of format %s belong on a request subject", f.name)
	}
	d.binary, d.foreign = f.binary, f.foreign
	if plain = d.inflate(data); !f.binary {
		plain = bytes.TrimPrefix(plain, byteOrderMark)
	}
	return f, plain
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

// within counts a record, and reports whether it is within the limit of a message.
func (d *Decoder) within() bool {
	d.records++
	return d.records <= d.limits.BatchRecords
}

func (d *Decoder) refuseEmpty() {
	if d.records == 0 {
		d.refuse(ingest.ReasonEmpty, "the batch has no record")
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
	d.batch.Refused = append(d.batch.Refused, ingest.Refusal{
		Reason: reason, Detail: fmt.Sprintf(detail, args...),
		Producer: cmp.Or(d.meta.Source, d.meta.Replica), Pool: d.meta.Pool,
	})
}
