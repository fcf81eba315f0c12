package codec

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// The records that speak of a pool rather than of a request.

func decodeReplica(d *decoder, data []byte) {
	r := emptyReplica
	limit := d.limits.Tokens
	ok := d.object(data, func(v value) {
		switch string(v.key) {
		case "pool":
			d.label(v, &r.Pool)
		case "replica":
			d.label(v, &r.Name)
		case "at":
			d.time(v, &r.At)
		case "state":
			enum(d, v, replicaStateNames[:], &r.State)
		case "kv_capacity_tokens":
			d.count(v, limit, &r.KVCapacityTokens)
		case "kv_used_tokens":
			d.count(v, limit, &r.KVUsedTokens)
		case "kv_used_ratio":
			d.ratio(v, &r.KVUsedRatio)
		case "running":
			d.count(v, limit, &r.Running)
		case "waiting":
			d.count(v, limit, &r.Waiting)
		case "preemptions_total":
			d.count(v, counterLimit, &r.PreemptionsTotal)
		case "prefix_hits_total":
			d.count(v, counterLimit, &r.PrefixHitsTotal)
		case "prefix_queries_total":
			d.count(v, counterLimit, &r.PrefixQueryTotal)
		case "started_at":
			d.time(v, &r.StartedAt)
		case "startup_seconds":
			d.number(v, maxStartupSeconds, &r.StartupSeconds)
		}
	})
	if !ok {
		return
	}
	if d.completeReplica(&r); d.refusal.Reason == "" {
		d.batch.Replicas = append(d.batch.Replicas, r)
	}
}

// emptyReplica is a report of which nothing is known yet.
var emptyReplica = ingest.Replica{
	State: replicaStateCount, KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: math.NaN(),
	Running: ingest.Unknown, Waiting: ingest.Unknown, PreemptionsTotal: ingest.Unknown, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
	StartupSeconds: math.NaN(),
}

// maxStartupSeconds is a day: what takes longer is a wrong unit.
const maxStartupSeconds = 24 * 60 * 60

// completeReplica, completeAck and completeWatermark do for the records of a pool what completeRequest does for a request.
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

// counterLimit bounds counters that grow with tokens over the life of a process: the largest whole number that every
// JSON reader keeps exact, 2⁵³.
const counterLimit = 1 << 53

func decodeAck(d *decoder, data []byte) {
	a := ingest.Ack{Generation: ingest.Unknown, Stage: ackStageCount}
	replicas := ingest.Unknown
	ok := d.object(data, func(v value) {
		switch string(v.key) {
		case "pool":
			d.label(v, &a.Pool)
		case "event_id":
			d.id(v, &a.EventID)
		case "generation":
			d.count(v, counterLimit, &a.Generation)
		case "stage":
			enum(d, v, ackStageNames[:], &a.Stage)
		case "at":
			d.time(v, &a.At)
		case "replicas":
			d.count(v, d.limits.Tokens, &replicas)
		}
	})
	if !ok {
		return
	}
	a.Replicas = int(replicas)
	if d.completeAck(&a); d.refusal.Reason == "" {
		d.batch.Acks = append(d.batch.Acks, a)
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

func decodeWatermark(d *decoder, data []byte) {
	w := ingest.Watermark{Pool: d.meta.Pool}
	ok := d.object(data, func(v value) {
		switch string(v.key) {
		case "pool":
			d.label(v, &w.Pool)
		case "at":
			d.time(v, &w.At)
		}
	})
	if !ok {
		return
	}
	if d.completeWatermark(&w); d.refusal.Reason == "" {
		d.batch.Watermark = &w
	}
}

func (d *decoder) completeWatermark(w *ingest.Watermark) {
	switch {
	case w.At.IsZero():
		d.fail(ingest.ReasonMissingField, "at is missing")
	case d.batch.Watermark != nil:
		d.fail(ingest.ReasonBatchTooLong, "a message carries one watermark")
	}
}
