package codec

import (
	"cmp"
	"math"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// member is one member of a native record: its name in JSON, its number in protobuf, and a pointer to its value. The
// type of the pointer that at returns determines how the member is read and written.
type member[T any] struct {
	name   string
	number uint32
	at     func(*T) any
}

// The types of members, in addition to string (which does not recur), time.Time, int64 (a count of tokens), float64 (an
// amount) and the enumerations.
type (
	label       string  // recurs
	attempt     int     // 1 is the first
	counter     int64   // grows over the life of a process
	ratio       float64 // 0 to 1
	seconds     float64 // at most a day
	session     uint64  // hash of a clear name in the record
	sessionHash uint64
	amounts     []float64 // only in protobuf
)

// recordType describes one kind of native record. complete fills in values from the subject or from other members, and
// refuses an unusable record.
type recordType[T any] struct {
	empty    T // a record with all values unknown
	complete func(d *Decoder, r *T)
	members  []member[T]
}

// find returns the member with a name, or else a number; nil without one. It starts at next, because most records have
// their members in the order of the table, and the rare ones are at its end.
func (t *recordType[T]) find(next *int, name []byte, number uint32) *member[T] {
	at := *next
	for range t.members {
		if at == len(t.members) {
			at = 0
		}
		m := &t.members[at]
		at++
		if number > 0 && m.number == number || number == 0 && m.name == string(name) {
			*next = at
			return m
		}
	}
	return nil
}

var requestType = &recordType[ingest.Request]{ingest.Request{
	Phase: phaseAbsent, Status: statusAbsent, Attempt: 1,
	PromptTokens: ingest.Unknown, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
}, (*Decoder).completeRequest, []member[ingest.Request]{
	{"id", 1, func(r *ingest.Request) any { return &r.ID }},
	{"pool", 2, func(r *ingest.Request) any { return (*label)(&r.Pool) }},
	{"class", 3, func(r *ingest.Request) any { return (*label)(&r.Class) }},
	{"model", 4, func(r *ingest.Request) any { return (*label)(&r.Model) }},
	{"tenant", 5, func(r *ingest.Request) any { return (*label)(&r.Tenant) }},
	{"arrived_at", 7, func(r *ingest.Request) any { return &r.ArrivedAt }},
	{"started_at", 8, func(r *ingest.Request) any { return &r.StartedAt }},
	{"first_token_at", 9, func(r *ingest.Request) any { return &r.FirstTokenAt }},
	{"finished_at", 10, func(r *ingest.Request) any { return &r.FinishedAt }},
	{"prompt_tokens", 11, func(r *ingest.Request) any { return &r.PromptTokens }},
	{"cached_tokens", 12, func(r *ingest.Request) any { return &r.CachedTokens }},
	{"output_tokens", 13, func(r *ingest.Request) any { return &r.OutputTokens }},
	{"tier", 18, func(r *ingest.Request) any { return (*label)(&r.Tier) }},
	{"feature", 19, func(r *ingest.Request) any { return (*label)(&r.Feature) }},
	{"route", 20, func(r *ingest.Request) any { return (*label)(&r.Route) }},
	{"region", 21, func(r *ingest.Request) any { return (*label)(&r.Region) }},
	{"replica", 22, func(r *ingest.Request) any { return (*label)(&r.ReplicaName) }},
	{"phase", 16, func(r *ingest.Request) any { return &r.Phase }},
	{"status", 17, func(r *ingest.Request) any { return &r.Status }},
	{"attempt", 15, func(r *ingest.Request) any { return (*attempt)(&r.Attempt) }},
	{"session", 23, func(r *ingest.Request) any { return (*session)(&r.Session) }},
	{"session_hash", 6, func(r *ingest.Request) any { return (*sessionHash)(&r.Session) }},
	{"max_output_tokens", 14, func(r *ingest.Request) any { return &r.MaxOutputTokens }},
}}

var sumType = &recordType[ingest.Sum]{ingest.Sum{
	Requests: math.NaN(), PromptTokens: math.NaN(), CachedTokens: math.NaN(), OutputTokens: math.NaN(),
}, (*Decoder).completeSum, []member[ingest.Sum]{
	{"pool", 1, func(s *ingest.Sum) any { return (*label)(&s.Pool) }},
	{"class", 2, func(s *ingest.Sum) any { return (*label)(&s.Class) }},
	{"start", 3, func(s *ingest.Sum) any { return &s.Start }},
	{"requests", 4, func(s *ingest.Sum) any { return &s.Requests }},
	{"prompt_tokens", 5, func(s *ingest.Sum) any { return &s.PromptTokens }},
	{"cached_tokens", 6, func(s *ingest.Sum) any { return &s.CachedTokens }},
	{"output_tokens", 7, func(s *ingest.Sum) any { return &s.OutputTokens }},
}}

var replicaType = &recordType[ingest.Replica]{ingest.Replica{
	State: replicaStateAbsent, KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: math.NaN(),
	Running: ingest.Unknown, Waiting: ingest.Unknown, PreemptionsTotal: ingest.Unknown,
	PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
	StartupSeconds: math.NaN(),
}, (*Decoder).completeReplica, []member[ingest.Replica]{
	{"pool", 1, func(r *ingest.Replica) any { return (*label)(&r.Pool) }},
	{"replica", 2, func(r *ingest.Replica) any { return (*label)(&r.Name) }},
	{"at", 3, func(r *ingest.Replica) any { return &r.At }},
	{"state", 4, func(r *ingest.Replica) any { return &r.State }},
	{"kv_capacity_tokens", 5, func(r *ingest.Replica) any { return &r.KVCapacityTokens }},
	{"kv_used_tokens", 6, func(r *ingest.Replica) any { return &r.KVUsedTokens }},
	{"kv_used_ratio", 7, func(r *ingest.Replica) any { return (*ratio)(&r.KVUsedRatio) }},
	{"running", 8, func(r *ingest.Replica) any { return &r.Running }},
	{"waiting", 9, func(r *ingest.Replica) any { return &r.Waiting }},
	{"preemptions_total", 10, func(r *ingest.Replica) any { return (*counter)(&r.PreemptionsTotal) }},
	{"prefix_hits_total", 11, func(r *ingest.Replica) any { return (*counter)(&r.PrefixHitsTotal) }},
	{"prefix_queries_total", 12, func(r *ingest.Replica) any { return (*counter)(&r.PrefixQueryTotal) }},
	{"started_at", 13, func(r *ingest.Replica) any { return &r.StartedAt }},
	{"startup_seconds", 14, func(r *ingest.Replica) any { return (*seconds)(&r.StartupSeconds) }},
}}

var ackType = &recordType[ingest.Ack]{ingest.Ack{
	Generation: ingest.Unknown, Stage: ackStageAbsent, Replicas: -1,
}, (*Decoder).completeAck, []member[ingest.Ack]{
	{"pool", 1, func(a *ingest.Ack) any { return (*label)(&a.Pool) }},
	{"event_id", 2, func(a *ingest.Ack) any { return &a.EventID }},
	{"generation", 3, func(a *ingest.Ack) any { return (*counter)(&a.Generation) }},
	{"stage", 4, func(a *ingest.Ack) any { return &a.Stage }},
	{"at", 5, func(a *ingest.Ack) any { return &a.At }},
	{"replicas", 6, func(a *ingest.Ack) any { return &a.Replicas }},
}}

var watermarkType = &recordType[ingest.Watermark]{ingest.Watermark{}, (*Decoder).completeWatermark, []member[ingest.Watermark]{
	{"pool", 1, func(w *ingest.Watermark) any { return (*label)(&w.Pool) }},
	{"at", 2, func(w *ingest.Watermark) any { return &w.At }},
}}

var historyType = &recordType[ingest.History]{ingest.History{}, (*Decoder).completeHistory, []member[ingest.History]{
	{"pool", 1, func(h *ingest.History) any { return (*label)(&h.Pool) }},
	{"class", 2, func(h *ingest.History) any { return (*label)(&h.Class) }},
	{"dimension", 3, func(h *ingest.History) any { return (*label)(&h.Dimension) }},
	{"start", 4, func(h *ingest.History) any { return &h.Start }},
	{"values", 5, func(h *ingest.History) any { return (*amounts)(&h.Values) }},
}}

// add calls read with an empty record and appends it to list, unless it is refused.
func add[T any](d *Decoder, t *recordType[T], list *[]T, read func(r *T)) {
	d.refusal = ingest.Refusal{}
	*list = append(*list, t.empty)
	last := len(*list) - 1
	r := &(*list)[last]
	read(r)
	if d.refusal.Reason == "" {
		t.complete(d, r)
	}
	if d.refusal.Reason != "" {
		*list = (*list)[:last]
	}
}

// source is a member of a record in either encoding. What cannot be read refuses the record.
type source interface {
	text(d *Decoder) []byte
	label(d *Decoder, to *string)
	number(d *Decoder) float64 // NaN when it is none
	instant(d *Decoder, to *time.Time)
	hash(d *Decoder, to *uint64)
	enum(d *Decoder, known []string, to *uint8)
}

func (d *Decoder) read(s source, name string, to any) {
	switch to := to.(type) {
	case *label:
		s.label(d, (*string)(to))
	case *string:
		if text := s.text(d); d.checkLabel(name, text) {
			*to = string(text)
		}
	case *time.Time:
		s.instant(d, to)
	case *int64:
		count(d, name, s.number(d), d.limits.Tokens, to)
	case *counter:
		count(d, name, s.number(d), counterLimit, to)
	case *int:
		count(d, name, s.number(d), d.limits.Tokens, to)
	case *attempt:
		count(d, name, s.number(d), d.limits.Tokens, to)
	case *float64:
		d.number(name, s.number(d), float64(d.limits.SumTokens), to)
	case *seconds:
		d.number(name, s.number(d), maxStartupSeconds, (*float64)(to))
	case *ratio:
		d.ratio(name, s.number(d), (*float64)(to))
	case *session:
		*to = session(ingest.HashSession(s.text(d)))
	case *sessionHash:
		s.hash(d, (*uint64)(to))
	case *ingest.Phase:
		s.enum(d, ingest.PhaseNames, (*uint8)(to))
	case *ingest.Status:
		s.enum(d, ingest.StatusNames, (*uint8)(to))
	case *ingest.ReplicaState:
		s.enum(d, ingest.ReplicaStateNames, (*uint8)(to))
	case *ingest.AckStage:
		s.enum(d, ingest.AckStageNames, (*uint8)(to))
	case *amounts:
		if w, ok := s.(*wire); ok && d.refusal.Reason == "" { // a refused list grows no further
			w.list(d, to)
		}
	}
}

// completeRequest also derives a missing phase from the status, and a missing status from the phase.
func (d *Decoder) completeRequest(r *ingest.Request) {
	d.fillNames(&r.Pool, &r.Class)
	if r.Phase == phaseAbsent {
		r.Phase = phaseOf[r.Status]
	}
	if r.Status == statusAbsent {
		r.Status = statusOf[r.Phase]
	}
	if r.PromptTokens == ingest.Unknown {
		r.CachedTokens = ingest.Unknown // it says nothing without the prompt
	}
	if d.binary && r.Attempt == 0 { // absent in proto3
		r.Attempt = 1
	}
	d.checkRequest(r)
}

// phaseOf is the phase at which a request that ended with a status was recorded; statusOf is the status of a request whose
// record has only the phase. All other entries are zero: PhaseFinished and StatusOK.
var (
	phaseOf  = [256]ingest.Phase{ingest.StatusRejected: ingest.PhaseRejected, ingest.StatusCancelled: ingest.PhaseCancelled}
	statusOf = [256]ingest.Status{ingest.PhaseRejected: ingest.StatusRejected, ingest.PhaseCancelled: ingest.StatusCancelled}
)

// fillNames fills in a missing pool and class from the subject.
func (d *Decoder) fillNames(pool, class *string) {
	d.fillPool(pool)
	*class = cmp.Or(*class, d.meta.Class)
}

// fillPool fills in a missing pool from the subject. A record needs one.
func (d *Decoder) fillPool(pool *string) {
	*pool = cmp.Or(*pool, d.meta.Pool)
	d.require("pool (of the record or the subject)", *pool != "")
}

func (d *Decoder) require(name string, known bool) {
	if !known {
		d.fail(ingest.ReasonMissingField, "%s is missing", name)
	}
}

// checkRequest refuses a request with inconsistent fields. One that was not served may have an unknown prompt: a
// producer that turns a request away need not count its tokens.
func (d *Decoder) checkRequest(r *ingest.Request) {
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

func (d *Decoder) completeSum(s *ingest.Sum) {
	d.fillNames(&s.Pool, &s.Class)
	d.require("start", !s.Start.IsZero())
	switch {
	case math.IsNaN(s.Requests) && math.IsNaN(s.PromptTokens) && math.IsNaN(s.OutputTokens): // cached tokens alone count nowhere
		d.fail(ingest.ReasonMissingField, "a sum needs one of requests, prompt_tokens, output_tokens")
	case s.CachedTokens > s.PromptTokens:
		d.fail(ingest.ReasonInconsistent, "cached_tokens is %g, more than the %g of prompt_tokens that it is part of", s.CachedTokens, s.PromptTokens)
	}
}

func (d *Decoder) completeReplica(r *ingest.Replica) {
	d.fillPool(&r.Pool)
	r.Name = cmp.Or(r.Name, d.meta.Replica)
	d.require("replica (of the record or the subject)", r.Name != "")
	d.require("at", !r.At.IsZero())
	d.require("state", r.State != replicaStateAbsent)
	if r.KVCapacityTokens >= 0 && r.KVUsedTokens > r.KVCapacityTokens {
		d.fail(ingest.ReasonInconsistent, "kv_used_tokens is %d, more than the %d of kv_capacity_tokens", r.KVUsedTokens, r.KVCapacityTokens)
	}
}

func (d *Decoder) completeAck(a *ingest.Ack) {
	d.fillPool(&a.Pool)
	d.require("event_id", a.EventID != "")
	d.require("stage", a.Stage != ackStageAbsent)
	d.require("at", !a.At.IsZero())
}

// completeWatermark sets the watermark of the batch; a message has one.
func (d *Decoder) completeWatermark(w *ingest.Watermark) {
	w.Pool = cmp.Or(w.Pool, d.meta.Pool)
	switch {
	case w.At.IsZero():
		d.fail(ingest.ReasonMissingField, "at is missing")
	case d.batch.Watermark != nil:
		d.fail(ingest.ReasonBatchTooLong, "a message carries one watermark")
	case w.Pool == "" && d.meta.Kind != KindWatermark:
		d.fail(ingest.ReasonMissingField, "the watermark names no pool: only one on the subject of watermarks may leave it out")
	default:
		d.batch.Watermark = w
	}
}

func (d *Decoder) completeHistory(h *ingest.History) {
	d.fillNames(&h.Pool, &h.Class)
	d.require("class", h.Class != "") // * is the pool's total
	d.require("dimension", h.Dimension != "")
	d.require("start", !h.Start.IsZero())
	d.require("values", len(h.Values) > 0)
}

// The values for "absent" while a record is decoded.
var (
	phaseAbsent        = ingest.Phase(len(ingest.PhaseNames))
	statusAbsent       = ingest.Status(len(ingest.StatusNames))
	replicaStateAbsent = ingest.ReplicaState(len(ingest.ReplicaStateNames))
	ackStageAbsent     = ingest.AckStage(len(ingest.AckStageNames))
)
