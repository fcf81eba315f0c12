package codec

import (
	"bytes"
	"time"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// decodeDynamo reads the request traces of NVIDIA Dynamo, schema dynamo.request.trace.v1, as its NATS and file sinks
// write them: one row, one a line, or an array; a row may be wrapped as the member event of another object. Numbers may be
// strings, as pipelines write those of 64 bits.
//
// Rows of requests with session headers tell all. Those without are compact: output, arrival, and of the prompt its
// length and the hashes of its blocks. Rows of any other event type are ignored; of request_payload, which holds prompts
// and answers, nothing is read but its type. Cached tokens are what the row says, else the router's hit rate of the
// prompt; where it gives neither, the hashes are handed on as [Request.Blocks].
func decodeDynamo(d *decoder, data []byte) {
	if d.meta.Kind != KindRequest {
		d.refuse(data, ingest.ReasonUnknownFormat, "request traces belong on a request subject")
		return
	}
	d.split(data, func(d *decoder, row []byte, _ found) { d.record(row, decodeDynamoRow) })
}

const dynamoSchema = "dynamo.request.trace.v1"

func decodeDynamoRow(d *decoder, data []byte) { d.dynamoRow(data, false) }

func (d *decoder) dynamoRow(data []byte, wrapped bool) {
	var schema, kind, at, agent, request, event value
	ok := d.object(data, func(v value) {
		switch string(v.key) {
		case "schema":
			schema = v
		case "event_type":
			kind = v
		case "event_time_unix_ms":
			at = unquoted(v)
		case "agent_context":
			agent = v
		case "request":
			request = v
		case "event":
			event = v
		}
	})
	switch {
	case !ok:
	case event.given() && !wrapped:
		if event.typ == jsonparser.Object {
			d.dynamoRow(event.raw, true)
		} else {
			d.batch.Ignored++ // the trace's own readers pass over it too
		}
	case !kind.given():
		d.fail(ingest.ReasonMissingField, "event_type is missing")
	case !d.is(kind, "request_end"):
		if d.refusal.Reason == "" {
			d.batch.Ignored++
		}
	case !schema.given():
		d.fail(ingest.ReasonMissingField, "schema is missing")
	case !d.is(schema, dynamoSchema):
		d.fail(ingest.ReasonUnknownFormat, "schema is %s, want %s", quoted(schema.raw), dynamoSchema)
	case !request.given():
		d.fail(ingest.ReasonMissingField, "request is missing")
	default:
		d.dynamoRequest(at, agent, request)
	}
}

// dynamoTrace is what is needed of the members of request before any of it can be used.
type dynamoTrace struct {
	received, wait, ttft, total value
	rate                        value
	length, blockTokens         int64
	hashes                      value
	status                      ingest.Status
}

func (d *decoder) dynamoRequest(at, agent, request value) {
	r := ingest.Request{
		Class: d.meta.Class, Attempt: 1,
		PromptTokens: ingest.Unknown, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
	}
	t := dynamoTrace{length: ingest.Unknown}
	if agent.given() {
		d.member(agent, func(v value) {
			if string(v.key) == "session_id" {
				r.Session = hashSession(d.looseText(found{"session_id", v.raw, v.typ}))
			}
		})
	}
	ok := d.member(request, func(v value) {
		switch string(v.key) {
		case "request_id":
			d.id(v, &r.ID)
		case "model":
			d.label(v, &r.Model)
		case "input_tokens":
			d.count(unquoted(v), d.limits.Tokens, &r.PromptTokens)
		case "output_tokens":
			d.count(unquoted(v), d.limits.Tokens, &r.OutputTokens)
		case "cached_tokens":
			d.count(unquoted(v), d.limits.Tokens, &r.CachedTokens)
		case "request_received_ms":
			t.received = unquoted(v)
		case "prefill_wait_time_ms":
			t.wait = unquoted(v)
		case "ttft_ms":
			t.ttft = unquoted(v)
		case "total_time_ms":
			t.total = unquoted(v)
		case "kv_hit_rate":
			t.rate = unquoted(v)
		case "replay":
			d.dynamoReplay(v, &t)
		case "finish_reason_metadata":
			d.dynamoFinish(v, &t.status)
		}
	})
	if !ok {
		return
	}
	if r.Pool = d.meta.Pool; r.Pool == "" {
		r.Pool = r.Model
	}
	if r.Pool == "" {
		r.Pool = d.service
	}
	if r.Pool == "" {
		d.fail(ingest.ReasonMissingField, "pool is missing: name it for this subject, because rows without a session name no model")
	}
	r.Phase, r.Status = completeOutcome(phaseCount, t.status)
	d.dynamoTimes(&r, &t, at)
	d.dynamoTokens(&r, &t)
	if d.checkRequest(&r); d.refusal.Reason == "" {
		d.batch.Requests = append(d.batch.Requests, r)
	}
}

func (d *decoder) dynamoReplay(v value, t *dynamoTrace) {
	d.member(v, func(v value) {
		switch string(v.key) {
		case "trace_block_size":
			d.count(unquoted(v), d.limits.Tokens, &t.blockTokens)
		case "input_length":
			d.count(unquoted(v), d.limits.Tokens, &t.length)
		case "input_sequence_hashes":
			t.hashes = v
		}
	})
}

// unquoted takes a string of decimal digits for the number that it spells.
func unquoted(v value) value {
	if v.typ != jsonparser.String {
		return v
	}
	whole, fraction, _ := bytes.Cut(v.raw, []byte{'.'})
	if len(whole) > 0 && allDigits(whole) && allDigits(fraction) {
		v.typ = jsonparser.Number
	}
	return v
}

// dynamoFinish reads how the request ended. The engine's own reason tells of errors and cancelled requests, for which
// the API's has no word.
func (d *decoder) dynamoFinish(v value, status *ingest.Status) {
	d.member(v, func(v value) {
		switch string(v.key) {
		case "finish_reason", "backend_finish_reason":
			switch reason := v.raw; {
			case v.typ != jsonparser.String:
			case bytes.HasPrefix(reason, []byte("error")):
				*status = ingest.StatusError
			case bytes.HasPrefix(reason, []byte("cancel")), string(reason) == "abort":
				*status = ingest.StatusCancelled
			}
		}
	})
}

// dynamoTimes sets the times of r. Dynamo dates an event of unknown end at the arrival.
func (d *decoder) dynamoTimes(r *ingest.Request, t *dynamoTrace, at value) {
	var event time.Time
	if at.given() {
		d.time(at, &event)
	}
	if t.received.given() {
		d.time(t.received, &r.ArrivedAt)
	} else if total, ok := d.millis(t.total); ok && !event.IsZero() {
		r.ArrivedAt = event.Add(-total)
	}
	d.after(r.ArrivedAt, t.total, &r.FinishedAt)
	for _, hint := range [...]struct {
		span value
		to   *time.Time
	}{{t.wait, &r.StartedAt}, {t.ttft, &r.FirstTokenAt}} { // estimates of other clocks, which a request can do without
		forgiving(d, func() any { d.after(r.ArrivedAt, hint.span, hint.to); return nil })
		if !r.FinishedAt.IsZero() && r.FinishedAt.Before(*hint.to) {
			*hint.to = time.Time{}
		}
	}
	if r.FinishedAt.IsZero() && event.After(r.ArrivedAt) {
		r.FinishedAt = event
		if early := r.FirstTokenAt.Sub(event); early > 0 && early < time.Millisecond { // event times are whole ones
			r.FinishedAt = r.FirstTokenAt
		}
	}
}

// dynamoTokens sets the prompt and what is known of its cached part. Dynamo reports an input of 0 where it only knows
// the cached tokens.
func (d *decoder) dynamoTokens(r *ingest.Request, t *dynamoTrace) {
	if r.PromptTokens <= 0 && t.length > r.PromptTokens {
		r.PromptTokens = t.length
	}
	if r.CachedTokens == ingest.Unknown && t.rate.given() && r.PromptTokens >= 0 {
		rate := 0.0
		d.ratio(t.rate, &rate)
		r.CachedTokens = int64(rate*float64(r.PromptTokens) + 0.5)
	}
	if t.hashes.given() && t.blockTokens > 0 && r.PromptTokens > 0 {
		most := (r.PromptTokens + t.blockTokens - 1) / t.blockTokens // the last block may be a part of one
		r.Blocks, r.BlockTokens = d.hashes(t.hashes, most), t.blockTokens
	}
}
