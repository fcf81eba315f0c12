package codec

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// Kind is what a message is about; adapters derive it from the subject.
type Kind uint8

// The kinds of message on the telemetry stream.
const (
	KindRequest Kind = iota
	KindReplica
	KindWatermark
	KindAck
	KindHistory
)

// Meta is what an adapter knows of a message beside its bytes. Pool, Class and Replica come from the subject and fill
// fields that the record leaves out.
type Meta struct {
	Kind        Kind
	ContentType string // "" means application/json; parameters such as charset are ignored
	Encoding    string // how the bytes are compressed: [EncodingGzip], [EncodingZstd], or "" for not at all
	Pool, Class string
	Replica     string
	// Source names the producer that published the message, for clocks differ from producer to producer; "" when it does
	// not say. Adapters take it from the header [HeaderSource].
	Source string
	// Fields are the names that users gave to what foreign formats say; nil leaves it at those which the formats know.
	Fields *FieldMap
}

// HeaderSource is the message header in which a producer names itself.
const HeaderSource = "Forewarm-Source"

// format is one encoding of telemetry. decode appends what data holds to d.batch, and refuses the rest.
type format struct {
	name        string // as configurations call it
	contentType string // as messages call it
	decode      func(d *decoder, data []byte)
	binary      bool       // not JSON: nothing of a refused record is kept
	fields      *fieldTree // where a foreign format keeps what requests need; nil for the others
}

// The content types of the native formats.
const (
	ContentTypeJSON      = "application/json"
	ContentTypeProtobuf  = "application/vnd.forewarm.v1+protobuf"
	ContentTypeNDJSON    = "application/x-ndjson"
	ContentTypeSum       = "application/vnd.forewarm.sum+json"
	ContentTypeSumNDJSON = "application/vnd.forewarm.sum+x-ndjson"
)

// The content types of formats that others write; most of their producers set none, and are known by their subject.
const (
	ContentTypeDynamo  = "application/vnd.dynamo.request.trace.v1+json"
	ContentTypeLiteLLM = "application/vnd.forewarm.litellm+json"
	ContentTypeOpenAI  = "application/vnd.forewarm.openai+json"
	ContentTypeEnvoy   = "application/vnd.forewarm.envoy+json"
	ContentTypeSGLang  = "application/vnd.forewarm.sglang+json"
	ContentTypeKong    = "application/vnd.forewarm.kong+json"
)

// formats lists every format; the first is that of messages which name none.
var formats = [...]format{
	{name: "json", contentType: ContentTypeJSON, decode: decodeJSON},
	{name: "ndjson", contentType: ContentTypeNDJSON, decode: decodeNDJSON},
	{name: "protobuf", contentType: ContentTypeProtobuf, decode: decodeProtobuf, binary: true},
	{name: "sum", contentType: ContentTypeSum, decode: decodeSumJSON},
	{name: "sum-ndjson", contentType: ContentTypeSumNDJSON, decode: decodeSumNDJSON},
	{name: "otlp", contentType: ContentTypeOTLP, decode: decodeOTLP, binary: true},
	{name: "otlp-json", contentType: ContentTypeOTLPJSON, decode: decodeOTLPJSON},
	{name: "otlp-logs", contentType: ContentTypeOTLPLogs, decode: decodeOTLPLogs, binary: true},
	{name: "otlp-logs-json", contentType: ContentTypeOTLPLogsJSON, decode: decodeOTLPLogsJSON},
	{name: "dynamo", contentType: ContentTypeDynamo, decode: decodeDynamo},
	{name: "litellm", contentType: ContentTypeLiteLLM, decode: decodeLiteLLM, fields: liteLLMFields},
	{name: "openai", contentType: ContentTypeOpenAI, decode: decodeOpenAI, fields: openAIFields},
	{name: "envoy", contentType: ContentTypeEnvoy, decode: decodeEnvoy, fields: envoyFields},
	{name: "sglang", contentType: ContentTypeSGLang, decode: decodeSGLang, fields: sglangFields},
	{name: "kong", contentType: ContentTypeKong, decode: decodeKong, fields: kongFields},
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

// TypeHoldsPrompts is HoldsPrompts for a content type.
func TypeHoldsPrompts(contentType string) bool {
	f := formatOf(contentType)
	return f != nil && HoldsPrompts(f.name)
}

// HoldsPrompts says whether messages of the format of that name may hold what users wrote, by its schema. NVIDIA Dynamo's
// traces do not, unless they are asked for payloads.
func HoldsPrompts(name string) bool {
	switch name {
	case "litellm", "openai", "envoy", "sglang", "kong", "otlp", "otlp-json", "otlp-logs", "otlp-logs-json":
		return true
	}
	return false
}

// Decode appends to b what one message carries, and its refusals. It never fails as a whole: a record that cannot be
// used is refused with a reason, the other records of the message stay. Nothing in b aliases data. O(len(data)).
func Decode(m Meta, data []byte, lim ingest.Limits, b *ingest.Batch) {
	d := decoders.Get().(*Decoder)
	d.Decode(m, data, lim, b)
	decoders.Put(d)
}

var decoders = sync.Pool{New: func() any { return new(Decoder) }}

// Decoder decodes many messages of one goroutine. It gives a label that comes again as the same string in memory, which
// allocates nothing, and by which whoever folds the records finds its class without a look at the name. The zero value is
// ready for use.
type Decoder struct{ decoder decoder }

// Decode decodes one message as the function [Decode] does.
func (x *Decoder) Decode(m Meta, data []byte, lim ingest.Limits, b *ingest.Batch) {
	d := &x.decoder
	d.meta, d.limits, d.batch = m, lim, b
	d.message(data)
	d.inflater.release()
	if d.scratch = d.scratch[:0]; cap(d.scratch) > keepScratch {
		d.scratch = nil
	}
	if cap(d.table) > keepTable {
		d.table = nil
	}
	d.meta, d.batch, d.binary, d.fields = Meta{}, nil, false, nil
}

// decoder is the state of one call of [Decoder.Decode].
type decoder struct {
	meta    Meta
	limits  ingest.Limits
	batch   *ingest.Batch
	binary  bool           // not JSON: nothing of a refused record is kept
	fields  *fieldTree     // of a foreign format, with the names that users gave
	service string         // names the pool of a record that nothing else gives one; "" for none
	refusal ingest.Refusal // why the record at hand is unusable; Reason "" while it is not

	// These outlive the call, for reuse.
	found    record // of a foreign format
	names    names
	texts    texts
	inflater inflater
	scratch  []byte       // unescaped strings of the message at hand
	table    []tableEntry // of the protobuf batch at hand
}

func (d *decoder) message(data []byte) {
	f := formatOf(d.meta.ContentType)
	d.binary = f != nil && f.binary
	if len(data) > d.limits.MessageBytes {
		d.refuse(data, ingest.ReasonTooLarge, "message has %d bytes, the limit is %d", len(data), d.limits.MessageBytes)
		return
	}
	for _, name := range [...]string{d.meta.Pool, d.meta.Class, d.meta.Replica, d.meta.Source} {
		if isPrintable([]byte(name)) && len(name) <= d.limits.LabelBytes {
			continue
		}
		if !utf8.ValidString(name) {
			d.refuse(data, ingest.ReasonInvalidUTF8, "a name in the subject or a header is not valid UTF-8")
			return
		}
		if reason, detail := checkLabel("a name in the subject or a header", name, d.limits.LabelBytes); reason != "" {
			d.refuse(data, reason, "%s", detail)
			return
		}
	}
	d.meta.Pool, d.meta.Class = d.again(d.meta.Pool), d.again(d.meta.Class)
	d.batch.Source = d.meta.Source
	if f == nil {
		d.refuse(data, ingest.ReasonUnknownFormat, "content type %.64q is not known", d.meta.ContentType)
		return
	}
	plain, reason, detail := d.inflater.inflate(d.meta.Encoding, data, d.limits.MessageBytes)
	if reason != "" {
		d.refuse(data, reason, "%s", detail)
		return
	}
	if !f.binary {
		plain = bytes.TrimPrefix(plain, byteOrderMark)
	}
	d.fields = d.meta.Fields.of(f)
	f.decode(d, plain)
}

// again is a label as it was given last: of a subject, which is another string with each message.
func (d *decoder) again(label string) string {
	d.scratch = append(d.scratch[:0], label...)
	return d.names.of(d.scratch)
}

// byteOrderMark begins what some Windows software writes; a reader of JSON may pass over it (RFC 8259, section 8.1).
var byteOrderMark = []byte("\xef\xbb\xbf")

func formatOf(contentType string) *format {
	if contentType == "" {
		return &formats[0]
	}
	for i := range formats {
		if contentType == formats[i].contentType {
			return &formats[i]
		}
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.TrimSpace(mediaType)
	for i := range formats {
		if strings.EqualFold(mediaType, formats[i].contentType) {
			return &formats[i]
		}
	}
	return nil
}

// refuse books record as unusable, and keeps what [Redact] leaves of it for people to look at.
func (d *decoder) refuse(record []byte, reason ingest.Reason, detail string, args ...any) {
	r := ingest.Refusal{Reason: reason, Detail: fmt.Sprintf(detail, args...), Producer: cmp.Or(d.meta.Source, d.meta.Replica), Pool: d.meta.Pool}
	if !d.binary {
		r.Record = Redact(record, d.limits.RefusedBytes)
	}
	d.batch.Refused = append(d.batch.Refused, r)
}
