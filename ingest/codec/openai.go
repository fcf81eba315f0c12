package codec

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/forewarm/forewarm/ingest"
)

// Responses of OpenAI's and similar APIs, or the usage object of one: chat completions, completions, embeddings, the
// Responses API, lines of a batch's output, Anthropic's messages, and the events of a stream of any of them. A wrapper
// may add pool, class, tenant and times.
// Schemas: https://platform.openai.com/docs/api-reference, https://docs.anthropic.com/en/api/messages.
var openAIFields = newFieldTree(paths{
	fieldPool:         {"pool"},
	fieldClass:        {"class"},
	fieldTenant:       {"tenant"},
	fieldTier:         {"tier"},
	fieldFeature:      {"feature"},
	fieldRoute:        {"route"},
	fieldRegion:       {"region"},
	fieldReplica:      {"replica"},
	fieldSession:      {"session", "session_id"},
	fieldAttempt:      {"attempt"},
	fieldID:           {"request_id"},
	fieldArrivedAt:    {"arrived_at", "start_time"},
	fieldStartedAt:    {"started_at"},
	fieldFirstTokenAt: {"first_token_at"},
	fieldFinishedAt:   {"finished_at", "end_time"},
	fieldLoggedAt:     {"timestamp", "time"},
	fieldDurationS:    {"duration_s"},
	fieldDurationMS:   {"duration_ms", "latency_ms"},
	fieldTTFTS:        {"ttft_s"},
	fieldTTFTMS:       {"ttft_ms"},
	fieldPromptTokens: {"prompt_tokens", "input_tokens"},
}.or(
	responsePaths.or(usagePaths.below("usage.")).below("", "response.", "response.body.", "body.", "message.", "delta."),
	usagePaths.below("x_groq.usage.", ""), // the first in the last chunk of Groq's streams
))

// responsePaths are the members of a response without the usage.
var responsePaths = paths{
	fieldID:              {"id"},
	fieldModel:           {"model"},
	fieldTenant:          {"user"},
	fieldTier:            {"service_tier"},
	fieldSession:         {"conversation.id"},
	fieldObject:          {"type", "object"},
	fieldStatus:          {"status"},
	fieldCode:            {"status_code", "error.code", "error.type", "last_error.code"},
	fieldArrivedAt:       {"created", "created_at"},
	fieldFinishedAt:      {"completed_at"},
	fieldMaxOutputTokens: {"max_output_tokens", "max_completion_tokens", "max_tokens"},
	fieldUsage:           {"usage"},
}

// usagePaths are the members of a usage object.
var usagePaths = paths{
	fieldPromptTokens: {"prompt_tokens", "input_tokens", "tokens.input_tokens"},
	fieldCachedTokens: {
		"prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "prompt_cache_hit_tokens",
		"cached_tokens",
	},
	fieldCacheReadTokens:  {"cache_read_input_tokens"},
	fieldCacheWriteTokens: {"cache_creation_input_tokens"},
	fieldOutputTokens:     {"completion_tokens", "output_tokens", "tokens.output_tokens"},
	fieldTotalTokens:      {"total_tokens"},
}

// decodeOpenAI reads responses and usage objects. created is the arrival, as vLLM and SGLang set it. A record without
// any time ended when the stream stored the message or a listener received it, because usage is published at the end of
// a request. Without that time too it is refused.
//
// The events of a stream are one request: they are joined within a message, by id. The last value of each field counts.
func decodeOpenAI(d *decoder, data []byte) {
	s := newStreams(d)
	events, framed := eventData(data)
	d.foreign(events, func(d *decoder, r *record) {
		id := string(r.text(fieldID))
		object := r.text(fieldObject)
		switch status := string(r.text(fieldStatus)); {
		case bytes.HasPrefix(object, []byte("thread")) && string(object) != "thread.run":
			d.skip() // steps and messages of an assistant's run, which has the sum of their usage
		case framed && !r.has(fieldID) && !r.has(fieldObject) && !r.has(fieldCode) && !r.counted():
			d.skip() // Azure's content filter results of the prompt, before the response
		case framed || isEvent(r) || s.isOpen(id):
			s.add(id, r)
		case status == "queued" || status == "in_progress": // a response that clients poll
			d.skip()
		default:
			d.acceptOpenAI(r)
		}
	})
	s.close()
}

func (d *decoder) acceptOpenAI(r *record) {
	if m := &r.members[fieldArrivedAt]; strings.HasSuffix(m.name, "created") || strings.HasSuffix(m.name, "created_at") {
		if at, ok := parseEpoch(m.raw); ok && at.Before(earliest) {
			*m = value{} // seconds since the start of the server
		}
	}
	q := d.requestOf(r)
	d.inferTokens(r, &q)
	if strings.HasSuffix(r.members[fieldArrivedAt].name, "created") && !q.FinishedAt.IsZero() && q.FinishedAt.Before(q.ArrivedAt) {
		q.ArrivedAt = q.FinishedAt // rounded, or from another clock
	}
	if q.ArrivedAt.IsZero() && q.FinishedAt.IsZero() {
		if q.FinishedAt = d.batch.ReceivedAt; q.FinishedAt.IsZero() {
			d.fail(ingest.ReasonMissingField, "created is missing, and so are arrived_at, finished_at and the time at which the message was stored: add one of them")
		}
	}
	d.accept(&q)
}

// inferTokens adds cached tokens to the prompt count if they are missing, and derives the output from a total. The
// total includes the reasoning that xAI and Gemini leave out of the output. input_tokens beside cache_read_input_tokens
// or cache_creation_input_tokens, as in Anthropic's usage, excludes both: prompt = input + read + written.
func (d *decoder) inferTokens(r *record, q *ingest.Request) {
	limit := d.limits.Tokens
	total := d.looseCount(r.members[fieldTotalTokens], limit)
	read, written := d.cacheCounts(r)
	exclusive := strings.HasSuffix(r.members[fieldPromptTokens].name, "input_tokens") && q.CachedTokens == ingest.Unknown
	if total != ingest.Unknown && total == q.PromptTokens+max(q.OutputTokens, 0) {
		exclusive = false
	}
	if q.PromptTokens != ingest.Unknown && exclusive {
		d.include(q, read, written)
	}
	if q.CachedTokens == ingest.Unknown {
		q.CachedTokens = read
	}
	switch {
	case total == ingest.Unknown:
	case q.PromptTokens != ingest.Unknown:
		q.OutputTokens = max(total-q.PromptTokens, q.OutputTokens, 0) // 0 for embeddings
	case q.OutputTokens != ingest.Unknown:
		q.PromptTokens = max(total-q.OutputTokens, 0)
	}
}

// cacheCounts reads the prompt tokens read from a cache and written to it, each [Unknown] when missing.
func (d *decoder) cacheCounts(r *record) (read, written int64) {
	return d.looseCount(r.members[fieldCacheReadTokens], d.limits.Tokens), d.looseCount(r.members[fieldCacheWriteTokens], d.limits.Tokens)
}

// include adds cache tokens to a prompt count.
func (d *decoder) include(q *ingest.Request, read, written int64) {
	if q.PromptTokens += max(read, 0) + max(written, 0); q.PromptTokens > d.limits.Tokens {
		d.fail(ingest.ReasonHugeCount, "the prompt and the cached tokens beside it are %d, the limit is %d", q.PromptTokens, d.limits.Tokens)
	}
}

// eventData removes the framing of server-sent events from a recorded stream; framed reports whether there was one.
func eventData(data []byte) (events []byte, framed bool) {
	if !isEventStream(bytes.TrimSpace(data)) {
		return data, false
	}
	for line := range bytes.Lines(data) {
		if event, ok := bytes.CutPrefix(line, []byte("data:")); ok && !bytes.Equal(bytes.TrimSpace(event), []byte("[DONE]")) {
			events = append(events, bytes.TrimSpace(event)...)
			events = append(events, '\n')
		}
	}
	return events, true
}

// isEventStream reports whether data begins with a field of an event, or with a keep-alive comment (WHATWG HTML,
// section 9.2.6). No JSON begins so.
func isEventStream(data []byte) bool {
	for _, field := range [...]string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(data, []byte(field)) {
			return true
		}
	}
	return false
}

// streams joins the events of streamed responses within one message: each event adds to the response of its id, or
// without an id to the response of the event before.
type streams struct {
	d    *decoder
	open *simplelru.LRU[string, *stream] // by id
	last string                          // added to
}

type stream struct {
	events record
	count  int
}

// maxStreams bounds the open responses; beyond it the oldest is closed.
const maxStreams = 256

func newStreams(d *decoder) *streams {
	s := &streams{d: d}
	s.open, _ = simplelru.NewLRU(maxStreams, func(_ string, o *stream) { s.end(o) }) // fails only for capacity 0
	return s
}

// isEvent reports whether a record is a part of a streamed response, by its type. Events of a legacy completion have
// the type of a complete one, and a usage of null except in the last.
func isEvent(r *record) bool {
	object := r.members[fieldObject]
	if object.kind != '"' {
		return false
	}
	if string(object.raw) == "text_completion" {
		return r.has(fieldUsage)
	}
	for _, prefix := range [...]string{"chat.completion.chunk", "response.", "message_", "content_block_", "ping", "message-", "content-", "tool-", "citation-"} {
		if bytes.HasPrefix(object.raw, []byte(prefix)) {
			return true
		}
	}
	return false
}

func (s *streams) isOpen(id string) bool { return id != "" && s.open.Contains(id) }

func (s *streams) add(id string, r *record) {
	s.last = cmp.Or(id, s.last)
	if o, ok := s.open.Peek(s.last); ok { // Peek keeps the order of eviction
		o.events.add(r)
		o.count++
		return
	}
	s.open.Add(s.last, &stream{*r, 1})
}

// close ends every response.
func (s *streams) close() {
	for s.open.Len() > 0 {
		s.open.RemoveOldest()
	}
}

func (s *streams) end(o *stream) {
	d := s.d
	d.refusal = ingest.Refusal{}
	switch u := &o.events; {
	case u.counted(), forgiving(d, func() ingest.Status { return d.outcomeOf(u) }) != ingest.StatusOK:
		d.acceptOpenAI(u)
	case string(u.text(fieldStatus)) == "requires_action": // an assistant's run that continues in another stream
		d.skip()
	case o.count == 1 && u.has(fieldUsage): // each event is its own message, and another has the usage
		d.skip()
	default:
		d.fail(ingest.ReasonMissingField, "usage is missing in every event of a stream: ask for it by stream_options.include_usage")
	}
	if d.refusal.Reason != "" {
		d.refuse(nil, d.refusal.Reason, "%s", d.refusal.Detail)
		d.refusal = ingest.Refusal{} // not of the current record
	}
}
