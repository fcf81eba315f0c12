package codec

import (
	"bytes"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// foreign reads a message of a foreign format: each record of it is found by the format's fields, freed from the
// log shipper's wrapping, and handed to decode, which ends in accept or [decoder.skip].
func (d *decoder) foreign(data []byte, decode func(d *decoder, r *record)) {
	if d.meta.Kind != KindRequest {
		d.refuse(data, ingest.ReasonUnknownFormat, "records of this format belong on a request subject")
		return
	}
	d.split(data, func(d *decoder, data []byte, at found) {
		d.record(data, func(d *decoder, data []byte) {
			r := &d.found
			*r = record{}
			d.unwrap(data, r)
			if !r.has(fieldLoggedAt) {
				r.members[fieldLoggedAt] = at
			}
			if d.refusal.Reason == "" {
				decode(d, r)
			}
		})
	})
	d.found = record{} // it points into the message
}

// wrappers are the keys under which log shippers put a line that they did not parse: Vector and Fluent Bit.
var wrappers = [...]string{"message", "log"}

// unwrap finds the fields of the object in data or, when it has none of the counts, those of the object that a log
// shipper wrapped in it, as a string or as it is.
func (d *decoder) unwrap(data []byte, r *record) {
	if first := bytes.TrimLeft(data, " \t\r\n"); first[0] != '{' {
		d.fail(ingest.ReasonWrongType, "a record is a JSON object")
		return
	}
	d.find(data, d.fields, r)
	if r.counted() {
		return
	}
	if inner := d.wrapped(data, wrappers[:]); inner != nil {
		var own record
		if d.find(inner, d.fields, &own); !own.counted() && !own.has(fieldArrivedAt) && !own.has(fieldFinishedAt) {
			return // not a record, just text that happens to be JSON
		}
		for _, f := range [...]field{fieldArrivedAt, fieldFinishedAt} { // of the line, not of what it logs
			r.ranks[f], r.members[f] = 0, found{}
		}
		r.add(&own)
	}
}

// requestOf makes a request of what all foreign formats say alike. Where a record says how long something took, the
// instants follow.
func (d *decoder) requestOf(r *record) ingest.Request {
	m := &r.members
	count := func(f field) int64 { return d.looseCount(m[f], d.limits.Tokens) }
	hint := func(f field) int64 { return forgiving(d, func() int64 { return count(f) }) }
	instant := func(f field) time.Time { return forgiving(d, func() time.Time { return d.looseTime(m[f]) }) }
	q := ingest.Request{
		ID: d.looseID(m[fieldID]), Pool: d.looseLabel(m[fieldPool]), Class: d.looseLabel(m[fieldClass]), Model: d.looseLabel(m[fieldModel]),
		Tenant: d.attribute(m[fieldTenant]), Tier: d.attribute(m[fieldTier]), Feature: d.attribute(m[fieldFeature]),
		Route: d.attribute(m[fieldRoute]), Region: d.attribute(m[fieldRegion]), ReplicaName: d.attribute(m[fieldReplica]),
		Status: d.outcomeOf(r), Attempt: int(max(1, hint(fieldAttempt), min(hint(fieldRetries), d.limits.Tokens-1)+1)),
		Session:   ingest.HashSession(string(d.looseText(m[fieldSession]))),
		ArrivedAt: d.looseTime(m[fieldArrivedAt]), FinishedAt: d.looseTime(m[fieldFinishedAt]),
		StartedAt: instant(fieldStartedAt), FirstTokenAt: instant(fieldFirstTokenAt),
		PromptTokens: count(fieldPromptTokens), CachedTokens: count(fieldCachedTokens),
		OutputTokens: count(fieldOutputTokens), MaxOutputTokens: hint(fieldMaxOutputTokens),
	}
	if q.ArrivedAt.IsZero() && q.FinishedAt.IsZero() {
		q.FinishedAt = d.looseTime(m[fieldLoggedAt]) // lines are written at the end
	}
	span := func(seconds, milliseconds field) time.Duration {
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
		if wait := d.looseSpan(m[fieldQueueS], time.Second); wait >= 0 && q.StartedAt.IsZero() {
			q.StartedAt = q.ArrivedAt.Add(wait)
		}
	}
	return q
}

// attribute reads a name that only says whom or what a request belongs to: one that is too long, or no name at all, is
// left out, for it is no reason to miss the request.
func (d *decoder) attribute(v found) string {
	text := d.looseText(v)
	if reason, _ := checkLabel([]byte(v.name), text, d.limits.LabelBytes); reason != "" {
		return ""
	}
	return d.names.of(text)
}

// accept appends a request that a foreign record was read as, unless its fields do not go together.
func (d *decoder) accept(q *ingest.Request) {
	if q.Pool == "" {
		q.Pool = d.meta.Pool
	}
	if q.Pool == "" {
		q.Pool = q.Model
	}
	if q.Pool == "" {
		d.fail(ingest.ReasonMissingField, "pool is missing in the record, in the subject and in the URL, and so is model, whose name would stand in")
	}
	d.fillClass(&q.Class)
	if q.Status != ingest.StatusOK && q.PromptTokens <= 0 && q.OutputTokens <= 0 {
		q.PromptTokens = ingest.Unknown // producers write 0 where they counted nothing
	}
	if q.PromptTokens == ingest.Unknown {
		q.CachedTokens = ingest.Unknown
	}
	q.Phase = phaseOf(q.Status)
	for _, t := range [...]*time.Time{&q.StartedAt, &q.FirstTokenAt} { // clocks of different machines, or rounded ones
		if !q.FinishedAt.IsZero() && q.FinishedAt.Before(*t) {
			*t = time.Time{}
		}
	}
	if d.checkForeign(q); d.refusal.Reason == "" {
		d.batch.Requests = append(d.batch.Requests, *q)
	}
}

// checkForeign refuses a request whose times lead out of all bounds, and says where what is missing was looked for.
func (d *decoder) checkForeign(q *ingest.Request) {
	for _, t := range [...]time.Time{q.ArrivedAt, q.StartedAt, q.FirstTokenAt, q.FinishedAt} {
		if !t.IsZero() && (t.Before(earliest) || !t.Before(latest)) {
			d.fail(ingest.ReasonBadTime, "the times and durations of the record lead out of the years 2000 to 2199")
		}
	}
	switch {
	case q.PromptTokens == ingest.Unknown && q.Status == ingest.StatusOK:
		d.fail(ingest.ReasonMissingField, "prompt_tokens is missing: the record has none of %s", d.fields.paths(fieldPromptTokens))
	case q.ArrivedAt.IsZero() && q.FinishedAt.IsZero():
		d.fail(ingest.ReasonMissingField, "arrived_at is missing, and so is finished_at: the record has none of %s, %s", d.fields.paths(fieldArrivedAt), d.fields.paths(fieldFinishedAt))
	}
	d.checkRequest(q)
}

// skip passes over a record that is sound and no request: what a cache answered, a tool call, a health check.
func (d *decoder) skip() { d.batch.Ignored++ }

func phaseOf(s ingest.Status) ingest.Phase {
	switch s {
	case ingest.StatusRejected:
		return ingest.PhaseRejected
	case ingest.StatusCancelled:
		return ingest.PhaseCancelled
	}
	return ingest.PhaseFinished
}
