package codec

import (
	"cmp"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// foreign is a JSON format of other software: where the fields of a request are, and what makes a request of them. read
// ends in accept or [Decoder.skip].
type foreign struct {
	fields *fieldTable
	read   func(d *Decoder, r *record)
}

// ownPaths are the names of Forewarm, which users may add to records of other software.
var ownPaths = paths{
	fieldPool: {"pool"}, fieldClass: {"class"}, fieldTenant: {"tenant"}, fieldTier: {"tier"}, fieldFeature: {"feature"},
}

func decodeForeign(d *Decoder, data []byte) {
	d.split(data, func(record []byte) {
		if d.within() {
			d.foreignRecord(record)
		}
	})
}

func (d *Decoder) foreignRecord(data []byte) {
	d.refusal = ingest.Refusal{}
	r, s := &d.found, d.scan(data, d.limits.Depth)
	var path [64]byte
	d.find(&s, d.foreign.fields, path[:0], r)
	d.finish(&s, d.limits.Depth)
	if d.refusal.Reason == "" {
		d.foreign.read(d, r)
	}
	d.refused()
	*r = record{} // release the message
}

// requestOf makes a request from the fields common to all foreign formats. It computes missing times from durations.
func (d *Decoder) requestOf(r *record) ingest.Request {
	m := &r.members
	count := func(f field) int64 { return d.looseCount(m[f], d.limits.Tokens) }
	hint := func(f field) int64 { return forgiving(d, func() int64 { return count(f) }) }
	instant := func(f field) time.Time { return forgiving(d, func() time.Time { return d.looseTime(m[f]) }) }
	id := d.looseText(m[fieldID])
	d.checkLabel(m[fieldID].name, id)
	q := ingest.Request{
		ID: string(id), Pool: d.looseLabel(m[fieldPool]), Class: d.looseLabel(m[fieldClass]), Model: d.looseLabel(m[fieldModel]),
		Tenant: d.attribute(m[fieldTenant]), Tier: d.attribute(m[fieldTier]), Feature: d.attribute(m[fieldFeature]),
		Route: d.attribute(m[fieldRoute]), Region: d.attribute(m[fieldRegion]), ReplicaName: d.attribute(m[fieldReplica]),
		Status: d.outcome(r), Attempt: int(max(1, hint(fieldAttempt), min(hint(fieldRetries), d.limits.Tokens-1)+1)),
		Session:   ingest.HashSession(d.looseText(m[fieldSession])),
		ArrivedAt: d.looseTime(m[fieldArrivedAt]), FinishedAt: d.looseTime(m[fieldFinishedAt]),
		StartedAt: instant(fieldStartedAt), FirstTokenAt: instant(fieldFirstTokenAt),
		PromptTokens: count(fieldPromptTokens), CachedTokens: count(fieldCachedTokens),
		OutputTokens: count(fieldOutputTokens), MaxOutputTokens: hint(fieldMaxOutputTokens),
	}
	if q.ArrivedAt.IsZero() && q.FinishedAt.IsZero() {
		q.FinishedAt = d.looseTime(m[fieldLoggedAt]) // lines are written at the end
	}
	span := func(seconds, milliseconds field) time.Duration { // negative when it is missing
		if t := d.looseSpan(m[seconds], time.Second); t >= 0 {
			return t
		}
		return d.looseSpan(m[milliseconds], time.Millisecond)
	}
	if took := span(fieldDurationS, fieldDurationMS); took >= 0 {
		switch {
		case q.FinishedAt.IsZero() && !q.ArrivedAt.IsZero():
			q.FinishedAt = q.ArrivedAt.Add(took)
		case q.ArrivedAt.IsZero() && !q.FinishedAt.IsZero():
			q.ArrivedAt = q.FinishedAt.Add(-took)
		}
	}
	if !q.ArrivedAt.IsZero() {
		if wait := span(fieldTTFTS, fieldTTFTMS); wait >= 0 && q.FirstTokenAt.IsZero() {
			q.FirstTokenAt = q.ArrivedAt.Add(wait)
		}
		if wait := span(fieldQueueS, fieldQueueMS); wait >= 0 && q.StartedAt.IsZero() {
			q.StartedAt = q.ArrivedAt.Add(wait)
		}
	}
	return q
}

// accept appends the request of a foreign record, unless its fields are inconsistent.
func (d *Decoder) accept(q *ingest.Request) {
	if q.Pool = cmp.Or(q.Pool, d.meta.Pool, q.Model, d.service); q.Pool == "" {
		d.fail(ingest.ReasonMissingField, "pool is missing in the record, in the subject and in the URL, and so is model, whose name would be used")
	}
	settle(q)
	d.checkForeign(q)
	if d.completeRequest(q); d.refusal.Reason == "" {
		d.batch.Requests = append(d.batch.Requests, *q)
	}
}

// settle sets the phase, and removes values that producers write for unknown.
func settle(q *ingest.Request) {
	if q.Status != ingest.StatusOK && q.PromptTokens <= 0 && q.OutputTokens <= 0 {
		q.PromptTokens = ingest.Unknown
	}
	if q.PromptTokens == ingest.Unknown {
		q.CachedTokens = ingest.Unknown
	}
	q.Phase = phaseOf[q.Status]
	dropLate(q)
}

// dropLate removes times after the end, which come from different clocks or rounding.
func dropLate(q *ingest.Request) {
	for _, t := range [...]*time.Time{&q.StartedAt, &q.FirstTokenAt} {
		if !q.FinishedAt.IsZero() && q.FinishedAt.Before(*t) {
			*t = time.Time{}
		}
	}
}

// checkForeign refuses a request with times out of bounds or missing fields, and names the paths of these.
func (d *Decoder) checkForeign(q *ingest.Request) {
	for _, t := range [...]time.Time{q.ArrivedAt, q.StartedAt, q.FirstTokenAt, q.FinishedAt} {
		if !t.IsZero() && (t.Before(earliest) || !t.Before(latest)) {
			d.fail(ingest.ReasonBadTime, "the times and durations of the record lead out of the years 2000 to 2199")
		}
	}
	switch {
	case q.PromptTokens == ingest.Unknown && q.Status == ingest.StatusOK:
		d.fail(ingest.ReasonMissingField, "prompt_tokens is missing: the record has no %s", d.foreign.fields.names(fieldPromptTokens))
	case q.ArrivedAt.IsZero() && q.FinishedAt.IsZero():
		known := d.foreign.fields
		d.fail(ingest.ReasonMissingField, "arrived_at and finished_at are missing: the record has no %s, nor %s",
			known.names(fieldArrivedAt), known.names(fieldFinishedAt))
	}
}

// inferTokens completes the counts of q. Tokens read from a cache or written to it are added to a prompt that leaves them
// out: one that is smaller, or input_tokens beside cache_read_input_tokens or cache_creation_input_tokens, as in
// Anthropic's usage. By the convention of OpenTelemetry, input_tokens has them. The prompt or the output also follows
// from the total. A total beyond prompt and output has cached tokens, if it is by as many or the provider counts so. Else
// it has the reasoning that xAI and Gemini leave out of the output.
func (d *Decoder) inferTokens(r *record, q *ingest.Request, convention bool) {
	count := func(f field) int64 { return d.looseCount(r.members[f], d.limits.Tokens) }
	total, read, written := count(fieldTotalTokens), count(fieldCacheReadTokens), count(fieldCacheWriteTokens)
	more := total - q.PromptTokens - max(q.OutputTokens, 0) // if total and prompt are known
	apart := max(read, 0) + max(written, 0)
	exclusive := q.PromptTokens < apart ||
		!convention && strings.HasSuffix(r.members[fieldPromptTokens].name, "input_tokens") && q.CachedTokens == ingest.Unknown && more != 0
	if q.CachedTokens == ingest.Unknown {
		q.CachedTokens = read
	}
	cached := max(q.CachedTokens, 0) + max(written, 0)
	switch {
	case q.PromptTokens == ingest.Unknown:
		if q.OutputTokens != ingest.Unknown && total >= q.OutputTokens {
			q.PromptTokens = total - q.OutputTokens
		}
	case exclusive && cached > 0:
		q.PromptTokens += cached
	case total == ingest.Unknown || more < 0:
	case more > 0 && (more == cached || r.contains(fieldProvider, "anthropic", "aws", "bedrock")):
		q.PromptTokens += more
	default:
		q.OutputTokens = max(q.OutputTokens, 0) + more // 0 for embeddings
	}
	if q.PromptTokens > d.limits.Tokens {
		d.fail(ingest.ReasonHugeCount, "the prompt and the cached tokens beside it are %d, the limit is %d", q.PromptTokens, d.limits.Tokens)
	}
}

// skip ignores a valid record that is no request: an answer from a cache, a tool call, a health check.
func (d *Decoder) skip() { d.batch.Ignored++ }
