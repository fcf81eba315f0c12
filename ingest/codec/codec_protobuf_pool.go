package codec

import "github.com/forewarm/forewarm/ingest"

// The tags and the names by number of the records that speak of a pool rather than of a request.
const (
	sumPool         = 1 << 3
	sumClass        = 2 << 3
	sumStart        = 3<<3 | 1
	sumRequests     = 4<<3 | 1
	sumPromptTokens = 5<<3 | 1
	sumCachedTokens = 6<<3 | 1
	sumOutputTokens = 7<<3 | 1

	replicaPool               = 1 << 3
	replicaReplica            = 2 << 3
	replicaAt                 = 3<<3 | 1
	replicaState              = 4 << 3
	replicaKVCapacityTokens   = 5 << 3
	replicaKVUsedTokens       = 6 << 3
	replicaKVUsedRatio        = 7<<3 | 1
	replicaRunning            = 8 << 3
	replicaWaiting            = 9 << 3
	replicaPreemptionsTotal   = 10 << 3
	replicaPrefixHitsTotal    = 11 << 3
	replicaPrefixQueriesTotal = 12 << 3
	replicaStartedAt          = 13<<3 | 1
	replicaStartupSeconds     = 14<<3 | 1

	ackPool       = 1 << 3
	ackEventID    = 2<<3 | 2
	ackGeneration = 3 << 3
	ackStage      = 4 << 3
	ackAt         = 5<<3 | 1
	ackReplicas   = 6 << 3

	watermarkPool = 1 << 3
	watermarkAt   = 2<<3 | 1
)

var (
	sumFields     = [...]string{1: "pool", "class", "start", "requests", "prompt_tokens", "cached_tokens", "output_tokens"}
	replicaFields = [...]string{
		1: "pool", "replica", "at", "state", "kv_capacity_tokens", "kv_used_tokens", "kv_used_ratio", "running", "waiting",
		"preemptions_total", "prefix_hits_total", "prefix_queries_total", "started_at", "startup_seconds",
	}
	ackFields       = [...]string{1: "pool", "event_id", "generation", "stage", "at", "replicas"}
	watermarkFields = [...]string{1: "pool", "at"}
)

func (d *decoder) protobufSum(data []byte) {
	s := emptySum
	limit := float64(d.limits.SumTokens)
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case sumPool:
			d.protobufLabel(w.varint(), "pool", &s.Pool)
		case sumClass:
			d.protobufLabel(w.varint(), "class", &s.Class)
		case sumStart:
			d.protobufTime(w.fixed64(), "start", &s.Start)
		case sumRequests:
			d.protobufAmount(w.fixed64(), "requests", limit, &s.Requests)
		case sumPromptTokens:
			d.protobufAmount(w.fixed64(), "prompt_tokens", limit, &s.PromptTokens)
		case sumCachedTokens:
			d.protobufAmount(w.fixed64(), "cached_tokens", limit, &s.CachedTokens)
		case sumOutputTokens:
			d.protobufAmount(w.fixed64(), "output_tokens", limit, &s.OutputTokens)
		default:
			d.protobufOther(&w, tag, sumFields[:])
		}
	}
	d.protobufEnd(&w)
	if d.completeSum(&s); d.refusal.Reason == "" {
		d.batch.Sums = append(d.batch.Sums, s)
	}
}

func (d *decoder) protobufReplica(data []byte) {
	r := emptyReplica
	limit := d.limits.Tokens
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case replicaPool:
			d.protobufLabel(w.varint(), "pool", &r.Pool)
		case replicaReplica:
			d.protobufLabel(w.varint(), "replica", &r.Name)
		case replicaAt:
			d.protobufTime(w.fixed64(), "at", &r.At)
		case replicaState:
			protobufEnum(d, w.varint(), "state", replicaStateNames[:], &r.State)
		case replicaKVCapacityTokens:
			d.protobufCount(w.varint(), "kv_capacity_tokens", limit, &r.KVCapacityTokens)
		case replicaKVUsedTokens:
			d.protobufCount(w.varint(), "kv_used_tokens", limit, &r.KVUsedTokens)
		case replicaKVUsedRatio:
			d.protobufRatio(w.fixed64(), "kv_used_ratio", &r.KVUsedRatio)
		case replicaRunning:
			d.protobufCount(w.varint(), "running", limit, &r.Running)
		case replicaWaiting:
			d.protobufCount(w.varint(), "waiting", limit, &r.Waiting)
		case replicaPreemptionsTotal:
			d.protobufCount(w.varint(), "preemptions_total", counterLimit, &r.PreemptionsTotal)
		case replicaPrefixHitsTotal:
			d.protobufCount(w.varint(), "prefix_hits_total", counterLimit, &r.PrefixHitsTotal)
		case replicaPrefixQueriesTotal:
			d.protobufCount(w.varint(), "prefix_queries_total", counterLimit, &r.PrefixQueryTotal)
		case replicaStartedAt:
			d.protobufTime(w.fixed64(), "started_at", &r.StartedAt)
		case replicaStartupSeconds:
			d.protobufAmount(w.fixed64(), "startup_seconds", maxStartupSeconds, &r.StartupSeconds)
		default:
			d.protobufOther(&w, tag, replicaFields[:])
		}
	}
	d.protobufEnd(&w)
	if d.completeReplica(&r); d.refusal.Reason == "" {
		d.batch.Replicas = append(d.batch.Replicas, r)
	}
}

func (d *decoder) protobufAck(data []byte) {
	a := ingest.Ack{Generation: ingest.Unknown, Stage: ackStageCount}
	replicas := ingest.Unknown
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case ackPool:
			d.protobufLabel(w.varint(), "pool", &a.Pool)
		case ackEventID:
			d.protobufID(w.bytes(), "event_id", &a.EventID)
		case ackGeneration:
			d.protobufCount(w.varint(), "generation", counterLimit, &a.Generation)
		case ackStage:
			protobufEnum(d, w.varint(), "stage", ackStageNames[:], &a.Stage)
		case ackAt:
			d.protobufTime(w.fixed64(), "at", &a.At)
		case ackReplicas:
			d.protobufCount(w.varint(), "replicas", d.limits.Tokens, &replicas)
		default:
			d.protobufOther(&w, tag, ackFields[:])
		}
	}
	d.protobufEnd(&w)
	a.Replicas = int(replicas)
	if d.completeAck(&a); d.refusal.Reason == "" {
		d.batch.Acks = append(d.batch.Acks, a)
	}
}

func (d *decoder) protobufWatermark(data []byte) {
	m := ingest.Watermark{Pool: d.meta.Pool}
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case watermarkPool:
			d.protobufLabel(w.varint(), "pool", &m.Pool)
		case watermarkAt:
			d.protobufTime(w.fixed64(), "at", &m.At)
		default:
			d.protobufOther(&w, tag, watermarkFields[:])
		}
	}
	d.protobufEnd(&w)
	if d.completeWatermark(&m); d.refusal.Reason != "" {
		return
	}
	if m.Pool == "" && d.meta.Kind != KindWatermark {
		d.fail(ingest.ReasonMissingField, "the watermark names no pool: that one is of all time, and stands on the subject of watermarks alone")
		return
	}
	d.batch.Watermark = &m
}
