package codec

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// member is one member of a native record: its name, and a pointer to its value. The type of the pointer that at returns
// determines how the member is read and written.
type member[T any] struct {
	name string
	at   func(*T) any
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
	blockHashes []uint64
	blockTokens int64 // 0 when there are no blocks
	amounts     []float64
)

// recordType describes one kind of native record.
type recordType[T any] struct {
	members  []member[T]
	empty    T // a record with all values unknown
	complete func(d *decoder, r *T)

	byName map[string]int // index of a member
}

// newRecordType makes a recordType. complete fills in values from the subject or from other members, and refuses an
// unusable record.
func newRecordType[T any](empty T, complete func(d *decoder, r *T), members []member[T]) *recordType[T] {
	t := &recordType[T]{members: members, empty: empty, complete: complete, byName: map[string]int{}}
	for i, m := range members {
		t.byName[m.name] = i
	}
	return t
}

var requestType = newRecordType(ingest.Request{
	Phase: phaseCount, Status: statusCount, Attempt: 1,
	PromptTokens: ingest.Unknown, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
}, (*decoder).completeRequest, []member[ingest.Request]{
	{"id", func(r *ingest.Request) any { return &r.ID }},
	{"pool", func(r *ingest.Request) any { return (*label)(&r.Pool) }},
	{"class", func(r *ingest.Request) any { return (*label)(&r.Class) }},
	{"model", func(r *ingest.Request) any { return (*label)(&r.Model) }},
	{"tenant", func(r *ingest.Request) any { return (*label)(&r.Tenant) }},
	{"tier", func(r *ingest.Request) any { return (*label)(&r.Tier) }},
	{"feature", func(r *ingest.Request) any { return (*label)(&r.Feature) }},
	{"route", func(r *ingest.Request) any { return (*label)(&r.Route) }},
	{"region", func(r *ingest.Request) any { return (*label)(&r.Region) }},
	{"replica", func(r *ingest.Request) any { return (*label)(&r.ReplicaName) }},
	{"phase", func(r *ingest.Request) any { return &r.Phase }},
	{"status", func(r *ingest.Request) any { return &r.Status }},
	{"attempt", func(r *ingest.Request) any { return (*attempt)(&r.Attempt) }},
	{"session", func(r *ingest.Request) any { return (*session)(&r.Session) }},
	{"session_hash", func(r *ingest.Request) any { return (*sessionHash)(&r.Session) }},
	{"arrived_at", func(r *ingest.Request) any { return &r.ArrivedAt }},
	{"started_at", func(r *ingest.Request) any { return &r.StartedAt }},
	{"first_token_at", func(r *ingest.Request) any { return &r.FirstTokenAt }},
	{"finished_at", func(r *ingest.Request) any { return &r.FinishedAt }},
	{"prompt_tokens", func(r *ingest.Request) any { return &r.PromptTokens }},
	{"cached_tokens", func(r *ingest.Request) any { return &r.CachedTokens }},
	{"output_tokens", func(r *ingest.Request) any { return &r.OutputTokens }},
	{"max_output_tokens", func(r *ingest.Request) any { return &r.MaxOutputTokens }},
	{"blocks", func(r *ingest.Request) any { return (*blockHashes)(&r.Blocks) }},
	{"block_tokens", func(r *ingest.Request) any { return (*blockTokens)(&r.BlockTokens) }},
})

var sumType = newRecordType(ingest.Sum{
	Requests: math.NaN(), PromptTokens: math.NaN(), CachedTokens: math.NaN(), OutputTokens: math.NaN(),
}, (*decoder).completeSum, []member[ingest.Sum]{
	{"pool", func(s *ingest.Sum) any { return (*label)(&s.Pool) }},
	{"class", func(s *ingest.Sum) any { return (*label)(&s.Class) }},
	{"start", func(s *ingest.Sum) any { return &s.Start }},
	{"requests", func(s *ingest.Sum) any { return &s.Requests }},
	{"prompt_tokens", func(s *ingest.Sum) any { return &s.PromptTokens }},
	{"cached_tokens", func(s *ingest.Sum) any { return &s.CachedTokens }},
	{"output_tokens", func(s *ingest.Sum) any { return &s.OutputTokens }},
})

var replicaType = newRecordType(ingest.Replica{
	State: replicaStateCount, KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: math.NaN(),
	Running: ingest.Unknown, Waiting: ingest.Unknown, PreemptionsTotal: ingest.Unknown, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
	StartupSeconds: math.NaN(),
}, (*decoder).completeReplica, []member[ingest.Replica]{
	{"pool", func(r *ingest.Replica) any { return (*label)(&r.Pool) }},
	{"replica", func(r *ingest.Replica) any { return (*label)(&r.Name) }},
	{"at", func(r *ingest.Replica) any { return &r.At }},
	{"state", func(r *ingest.Replica) any { return &r.State }},
	{"kv_capacity_tokens", func(r *ingest.Replica) any { return &r.KVCapacityTokens }},
	{"kv_used_tokens", func(r *ingest.Replica) any { return &r.KVUsedTokens }},
	{"kv_used_ratio", func(r *ingest.Replica) any { return (*ratio)(&r.KVUsedRatio) }},
	{"running", func(r *ingest.Replica) any { return &r.Running }},
	{"waiting", func(r *ingest.Replica) any { return &r.Waiting }},
	{"preemptions_total", func(r *ingest.Replica) any { return (*counter)(&r.PreemptionsTotal) }},
	{"prefix_hits_total", func(r *ingest.Replica) any { return (*counter)(&r.PrefixHitsTotal) }},
	{"prefix_queries_total", func(r *ingest.Replica) any { return (*counter)(&r.PrefixQueryTotal) }},
	{"started_at", func(r *ingest.Replica) any { return &r.StartedAt }},
	{"startup_seconds", func(r *ingest.Replica) any { return (*seconds)(&r.StartupSeconds) }},
})

var ackType = newRecordType(ingest.Ack{Generation: ingest.Unknown, Stage: ackStageCount, Replicas: -1}, (*decoder).completeAck, []member[ingest.Ack]{
	{"pool", func(a *ingest.Ack) any { return (*label)(&a.Pool) }},
	{"event_id", func(a *ingest.Ack) any { return &a.EventID }},
	{"generation", func(a *ingest.Ack) any { return (*counter)(&a.Generation) }},
	{"stage", func(a *ingest.Ack) any { return &a.Stage }},
	{"at", func(a *ingest.Ack) any { return &a.At }},
	{"replicas", func(a *ingest.Ack) any { return &a.Replicas }},
})

var watermarkType = newRecordType(ingest.Watermark{}, (*decoder).completeWatermark, []member[ingest.Watermark]{
	{"pool", func(w *ingest.Watermark) any { return (*label)(&w.Pool) }},
	{"at", func(w *ingest.Watermark) any { return &w.At }},
})

var historyType = newRecordType(ingest.History{}, (*decoder).completeHistory, []member[ingest.History]{
	{"pool", func(h *ingest.History) any { return (*label)(&h.Pool) }},
	{"class", func(h *ingest.History) any { return (*label)(&h.Class) }},
	{"dimension", func(h *ingest.History) any { return (*label)(&h.Dimension) }},
	{"start", func(h *ingest.History) any { return &h.Start }},
	{"values", func(h *ingest.History) any { return (*amounts)(&h.Values) }},
})

// add calls read with an empty record and appends it to list, unless it is refused.
func add[T any](d *decoder, t *recordType[T], list *[]T, read func(r *T)) {
	d.refusal = ingest.Refusal{}
	*list = append(*list, t.empty)
	last := len(*list) - 1
	r := &(*list)[last]
	if read(r); d.refusal.Reason == "" {
		t.complete(d, r)
	}
	if d.refusal.Reason != "" {
		*list = (*list)[:last]
	}
}

// read stores a member in to. An absent one, and one that is refused, changes nothing.
func (d *decoder) read(v *value, to any) {
	switch to := to.(type) {
	case *label:
		if text, ok := v.text(d); ok {
			*to = label(d.label(v.name, text))
		}
	case *string:
		if text, ok := v.text(d); ok && d.checkLabel(v.name, text) {
			*to = string(text)
		}
	case *time.Time:
		v.instant(d, to)
	case *int64:
		d.readCount(v, d.limits.Tokens, to)
	case *counter:
		d.readCount(v, counterLimit, (*int64)(to))
	case *blockTokens:
		d.readCount(v, d.limits.Tokens, (*int64)(to))
	case *int:
		n := int64(*to)
		d.readCount(v, d.limits.Tokens, &n)
		*to = int(n)
	case *attempt:
		n := int64(*to)
		d.readCount(v, d.limits.Tokens, &n)
		*to = attempt(n)
	case *float64:
		d.readNumber(v, float64(d.limits.SumTokens), to)
	case *seconds:
		d.readNumber(v, maxStartupSeconds, (*float64)(to))
	case *ratio:
		if f, ok := v.number(d); ok {
			d.ratio(v.name, f, (*float64)(to))
		}
	case *session:
		if text, ok := v.text(d); ok {
			*to = session(hashSession(text))
		}
	case *sessionHash:
		if text, ok := v.text(d); ok {
			*to = sessionHash(d.hash(v.name, text))
		}
	case *blockHashes:
		if text, ok := v.text(d); ok {
			*to = (*to)[:0]
			for len(text) > 0 {
				n := min(hashDigits, len(text))
				*to = append(*to, d.hash(v.name, text[:n]))
				text = text[n:]
			}
		}
	case *ingest.Phase:
		readEnum(d, v, phaseNames, to)
	case *ingest.Status:
		readEnum(d, v, statusNames, to)
	case *ingest.ReplicaState:
		readEnum(d, v, replicaStateNames, to)
	case *ingest.AckStage:
		readEnum(d, v, ackStageNames, to)
	case *amounts:
		*to = v.amounts(d)
	}
}

func (d *decoder) readNumber(v *value, limit float64, to *float64) {
	if f, ok := v.number(d); ok {
		d.number(v.name, f, limit, to)
	}
}

func (d *decoder) readCount(v *value, limit int64, to *int64) {
	if f, ok := v.number(d); ok {
		d.count(v.name, f, limit, to)
	}
}

func readEnum[E ~uint8](d *decoder, v *value, known []string, to *E) {
	text, ok := v.text(d)
	if !ok {
		return
	}
	if i := slices.Index(known, string(text)); i >= 0 {
		*to = E(i)
	} else {
		d.fail(ingest.ReasonBadEnum, "%s is %s, want one of %s", v.name, quoted(text), strings.Join(known, ", "))
	}
}

// completeRequest also derives a missing phase from the status, and a missing status from the phase.
func (d *decoder) completeRequest(r *ingest.Request) {
	d.fillPool(&r.Pool)
	d.fillClass(&r.Class)
	if r.Phase == phaseCount {
		r.Phase = phaseOf(r.Status)
	}
	if r.Status == statusCount {
		r.Status = statusOf(r.Phase)
	}
	if len(r.Blocks) > 0 {
		if r.BlockTokens == 0 {
			d.fail(ingest.ReasonMissingField, "block_tokens is missing")
			return
		}
		limit := (max(r.PromptTokens, 0) + r.BlockTokens - 1) / r.BlockTokens // the last block may be partial
		r.Blocks = r.Blocks[:min(len(r.Blocks), int(limit))]
	}
	d.checkRequest(r)
}

// phaseOf is the phase at which a request that ended with s was recorded.
func phaseOf(s ingest.Status) ingest.Phase {
	switch s {
	case ingest.StatusRejected:
		return ingest.PhaseRejected
	case ingest.StatusCancelled:
		return ingest.PhaseCancelled
	}
	return ingest.PhaseFinished
}

// statusOf is the status of a request whose record has only the phase p.
func statusOf(p ingest.Phase) ingest.Status {
	switch p {
	case ingest.PhaseRejected:
		return ingest.StatusRejected
	case ingest.PhaseCancelled:
		return ingest.StatusCancelled
	}
	return ingest.StatusOK
}

// fillPool fills in a missing pool from the subject; fillClass does so for the class.
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

// checkRequest refuses a request with inconsistent fields. One that was not served may have an unknown prompt: a
// producer that turns a request away need not count its tokens.
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

func (d *decoder) completeReplica(r *ingest.Replica) {
	if r.Name == "" {
		r.Name = d.meta.Replica
	}
	d.fillPool(&r.Pool)
	switch {
	case r.Name == "":
		d.fail(ingest.ReasonMissingField, "replica is missing in the record and in the subject")
	case r.At.IsZero():
		d.fail(ingest.ReasonMissingField, "at is missing")
	case r.State == replicaStateCount:
		d.fail(ingest.ReasonMissingField, "state is missing")
	}
}

func (d *decoder) completeAck(a *ingest.Ack) {
	d.fillPool(&a.Pool)
	switch {
	case a.EventID == "":
		d.fail(ingest.ReasonMissingField, "event_id is missing")
	case a.Stage == ackStageCount:
		d.fail(ingest.ReasonMissingField, "stage is missing")
	case a.At.IsZero():
		d.fail(ingest.ReasonMissingField, "at is missing")
	}
}

// completeWatermark sets the watermark of the batch; a message has one.
func (d *decoder) completeWatermark(w *ingest.Watermark) {
	if w.Pool == "" {
		w.Pool = d.meta.Pool
	}
	switch {
	case w.At.IsZero():
		d.fail(ingest.ReasonMissingField, "at is missing")
	case d.batch.Watermark != nil:
		d.fail(ingest.ReasonBatchTooLong, "a message carries one watermark")
	default:
		d.batch.Watermark = w
	}
}

func (d *decoder) completeHistory(h *ingest.History) {
	d.fillPool(&h.Pool)
	d.fillClass(&h.Class)
	switch {
	case h.Class == "":
		d.fail(ingest.ReasonMissingField, "class is missing; * is the pool's total")
	case h.Dimension == "":
		d.fail(ingest.ReasonMissingField, "dimension is missing")
	case h.Start.IsZero():
		d.fail(ingest.ReasonMissingField, "start is missing")
	case len(h.Values) == 0:
		d.fail(ingest.ReasonMissingField, "values is missing")
	}
}

// enumNames lists the names of an enumeration by value.
func enumNames[E interface {
	~uint8
	String() string
}]() (names []string) {
	for e := E(0); e.String() != "unknown"; e++ {
		names = append(names, e.String())
	}
	return names
}

// The names of the enumerations in records, and the value for "absent" while a record is decoded.
var (
	phaseNames        = enumNames[ingest.Phase]()
	statusNames       = enumNames[ingest.Status]()
	replicaStateNames = enumNames[ingest.ReplicaState]()
	ackStageNames     = enumNames[ingest.AckStage]()

	phaseCount        = ingest.Phase(len(phaseNames))
	statusCount       = ingest.Status(len(statusNames))
	replicaStateCount = ingest.ReplicaState(len(replicaStateNames))
	ackStageCount     = ingest.AckStage(len(ackStageNames))
)
