package codec

import (
	"math"
	"time"
	"unicode/utf8"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// decodeJSON reads one native record of the kind that the subject names: forewarm.request.v1, forewarm.replica.v1, an
// acknowledgement, a watermark or a history. Fields that are null count as absent, fields that are not known are ignored.
func decodeJSON(d *decoder, data []byte) {
	switch d.meta.Kind {
	case KindReplica:
		d.native(data, decodeReplica)
	case KindAck:
		d.native(data, decodeAck)
	case KindWatermark:
		d.native(data, decodeWatermark)
	case KindHistory:
		d.native(data, decodeHistory)
	default:
		d.native(data, decodeRequest)
	}
}

// decodeSumJSON reads one [Sum].
func decodeSumJSON(d *decoder, data []byte) {
	if d.meta.Kind != KindRequest {
		d.refuse(data, ingest.ReasonUnknownFormat, "sums belong on a request subject")
		return
	}
	d.native(data, decodeSum)
}

// native hands data to decode, which reads it by [decoder.object] and so finds whether it is one sound JSON object, and
// refuses it when decode failed: for what is wrong with the whole before what is wrong with a part. decode appends to the
// batch only after the last thing that can fail.
func (d *decoder) native(data []byte, decode func(d *decoder, data []byte)) {
	d.refusal = ingest.Refusal{}
	decode(d, data)
	if part := d.refusal; part.Reason != "" {
		if d.refusal = (ingest.Refusal{}); d.sound(data) {
			d.refusal = part
		}
		d.refuse(data, d.refusal.Reason, "%s", d.refusal.Detail)
	}
}

// record is native for a decode that relies on data being sound JSON.
func (d *decoder) record(data []byte, decode func(d *decoder, data []byte)) {
	d.refusal = ingest.Refusal{}
	if d.sound(data) {
		decode(d, data)
	}
	if d.refusal.Reason != "" {
		d.refuse(data, d.refusal.Reason, "%s", d.refusal.Detail)
	}
}

// sound checks that data is one JSON text.
func (d *decoder) sound(data []byte) bool {
	if reason, at := scan(data, d.limits.Depth); reason != "" {
		d.fail(reason, "at byte %d of %d", at, len(data))
	} else if !utf8.Valid(data) {
		d.fail(ingest.ReasonInvalidUTF8, "a string is not valid UTF-8")
	}
	return d.refusal.Reason == ""
}

// member is object for a member of a record.
func (d *decoder) member(v value, field func(v value)) bool {
	if v.typ != jsonparser.Object {
		d.wrongType(v, "an object")
		return false
	}
	return d.object(v.raw, field)
}

// emptyRequest is a request of which nothing is known yet.
var emptyRequest = ingest.Request{
	Phase: phaseCount, Status: statusCount, Attempt: 1,
	PromptTokens: ingest.Unknown, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
}

// completeRequest fills in what the record leaves out and follows from the subject or its other fields, and refuses a
// request that cannot be used.
func (d *decoder) completeRequest(r *ingest.Request) {
	d.fillPool(&r.Pool)
	d.fillClass(&r.Class)
	r.Phase, r.Status = completeOutcome(r.Phase, r.Status)
	d.checkRequest(r)
}

// fillPool takes from the subject the pool that the record leaves out; fillClass does so for the class.
func (d *decoder) fillPool(pool *string) {
	if *pool == "" {
		*pool = d.meta.Pool
	}
	if *pool == "" {
		d.fail(ingest.ReasonMissingField, "pool is missing in the record and in the subject")
	}
}

func (d *decoder) fillClass(class *string) {
	if *class == "" {
		*class = d.meta.Class
	}
}

// completeOutcome derives the one of phase and status that a record leaves out from the other.
func completeOutcome(p ingest.Phase, s ingest.Status) (ingest.Phase, ingest.Status) {
	switch {
	case p == phaseCount && s == statusCount:
		return ingest.PhaseFinished, ingest.StatusOK
	case s == statusCount:
		return p, impliedStatus(p)
	case p == phaseCount && s == ingest.StatusRejected:
		return ingest.PhaseRejected, s
	case p == phaseCount && s == ingest.StatusCancelled:
		return ingest.PhaseCancelled, s
	case p == phaseCount:
		return ingest.PhaseFinished, s
	}
	return p, s
}

func impliedStatus(p ingest.Phase) ingest.Status {
	switch p {
	case ingest.PhaseRejected:
		return ingest.StatusRejected
	case ingest.PhaseCancelled:
		return ingest.StatusCancelled
	}
	return ingest.StatusOK
}

// checkRequest refuses a request whose fields do not go together. One that was not served may leave its prompt unknown:
// who turns a request away need not count its tokens.
func (d *decoder) checkRequest(r *ingest.Request) {
	switch {
	case r.Attempt < 1:
		d.fail(ingest.ReasonOutOfRange, "attempt is 0, the first try is 1")
	case r.PromptTokens == ingest.Unknown && r.Status == ingest.StatusOK:
		d.fail(ingest.ReasonMissingField, "prompt_tokens is missing")
	case r.ArrivedAt.IsZero() && r.FinishedAt.IsZero():
		d.fail(ingest.ReasonMissingField, "arrived_at is missing, and so is finished_at")
	case r.CachedTokens > r.PromptTokens:
		d.fail(ingest.ReasonInconsistent, "cached_tokens is %d, more than the %d of prompt_tokens that it is part of", r.CachedTokens, r.PromptTokens)
	}
	if r.FinishedAt.IsZero() {
		return
	}
	for _, t := range [...]time.Time{r.ArrivedAt, r.StartedAt, r.FirstTokenAt} {
		if r.FinishedAt.Before(t) {
			d.fail(ingest.ReasonInconsistent, "finished_at is %s before another time of the request", t.Sub(r.FinishedAt))
		}
	}
}

func decodeSum(d *decoder, data []byte) {
	s := emptySum
	limit := float64(d.limits.SumTokens)
	ok := d.object(data, func(v value) {
		switch string(v.key) {
		case "pool":
			d.label(v, &s.Pool)
		case "class":
			d.label(v, &s.Class)
		case "start":
			d.time(v, &s.Start)
		case "requests":
			d.number(v, limit, &s.Requests)
		case "prompt_tokens":
			d.number(v, limit, &s.PromptTokens)
		case "cached_tokens":
			d.number(v, limit, &s.CachedTokens)
		case "output_tokens":
			d.number(v, limit, &s.OutputTokens)
		}
	})
	if !ok {
		return
	}
	if d.completeSum(&s); d.refusal.Reason == "" {
		d.batch.Sums = append(d.batch.Sums, s)
	}
}

// emptySum is a sum of which nothing is known yet.
var emptySum = ingest.Sum{Requests: math.NaN(), PromptTokens: math.NaN(), CachedTokens: math.NaN(), OutputTokens: math.NaN()}

// completeSum does for a sum what completeRequest does for a request.
func (d *decoder) completeSum(s *ingest.Sum) {
	d.fillPool(&s.Pool)
	d.fillClass(&s.Class)
	switch {
	case s.Start.IsZero():
		d.fail(ingest.ReasonMissingField, "start is missing")
	case math.IsNaN(s.Requests) && math.IsNaN(s.PromptTokens) && math.IsNaN(s.CachedTokens) && math.IsNaN(s.OutputTokens):
		d.fail(ingest.ReasonMissingField, "a sum needs one of requests, prompt_tokens, cached_tokens, output_tokens")
	case s.CachedTokens > s.PromptTokens:
		d.fail(ingest.ReasonInconsistent, "cached_tokens is %g, more than the %g of prompt_tokens that it is part of", s.CachedTokens, s.PromptTokens)
	}
}
