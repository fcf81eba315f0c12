package codec

import (
	"math"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/forewarm/forewarm/ingest"
)

// AppendProtobuf appends what b holds as one forewarm.v1.Batch, refusals excepted; its content type is
// [ContentTypeProtobuf]. [Decode] reads the same records back, times to the nanosecond. Equal batches give equal bytes.
// About 60 bytes a request; no allocation in steady state when dst has room. Safe for concurrent use on distinct batches.
func AppendProtobuf(dst []byte, b *ingest.Batch) []byte {
	w := protobufWriters.Get().(*protobufWriter)
	dst = w.batch(dst, b)
	protobufWriters.Put(w)
	return dst
}

var protobufWriters = sync.Pool{New: func() any { return &protobufWriter{table: map[string]uint64{}} }}

// protobufWriter writes one batch: the records, and meanwhile the table of the strings that they use.
type protobufWriter struct {
	table   map[string]uint64 // index of each string that is in the table
	strings []byte            // the table, encoded
	records []byte            // the records, encoded
	record  []byte            // the record at hand
}

func (w *protobufWriter) batch(dst []byte, b *ingest.Batch) []byte {
	if len(w.table) > keepTable {
		w.table = map[string]uint64{}
	}
	clear(w.table)
	w.strings, w.records = append(w.strings[:0], batchStrings, 0), w.records[:0]
	for i := range b.Requests {
		w.request(&b.Requests[i])
		w.end(batchRequests)
	}
	for i := range b.Sums {
		w.sum(&b.Sums[i])
		w.end(batchSums)
	}
	for i := range b.Replicas {
		w.replica(&b.Replicas[i])
		w.end(batchReplicas)
	}
	for i := range b.Acks {
		w.ack(&b.Acks[i])
		w.end(batchAcks)
	}
	if b.Watermark != nil {
		w.label(watermarkPool, b.Watermark.Pool)
		w.time(watermarkAt, b.Watermark.At)
		w.end(batchWatermark)
	}
	return append(append(dst, w.strings...), w.records...)
}

// end closes the record at hand.
func (w *protobufWriter) end(tag uint64) {
	w.records = protowire.AppendVarint(w.records, tag)
	w.records = protowire.AppendBytes(w.records, w.record)
	w.record = w.record[:0]
}

func (w *protobufWriter) request(r *ingest.Request) {
	w.text(requestID, r.ID)
	w.label(requestPool, r.Pool)
	w.label(requestClass, r.Class)
	w.label(requestModel, r.Model)
	w.label(requestTenant, r.Tenant)
	if r.Session != 0 {
		w.fixed64(requestSessionHash, r.Session)
	}
	w.time(requestArrivedAt, r.ArrivedAt)
	w.time(requestStartedAt, r.StartedAt)
	w.time(requestFirstTokenAt, r.FirstTokenAt)
	w.time(requestFinishedAt, r.FinishedAt)
	w.count(requestPromptTokens, r.PromptTokens)
	w.count(requestCachedTokens, r.CachedTokens)
	w.count(requestOutputTokens, r.OutputTokens)
	w.count(requestMaxOutputTokens, r.MaxOutputTokens)
	if r.Attempt != 1 {
		w.count(requestAttempt, int64(r.Attempt))
	}
	if r.Phase != ingest.PhaseFinished || r.Status != ingest.StatusOK {
		w.varint(requestPhase, uint64(r.Phase)+1)
		w.varint(requestStatus, uint64(r.Status)+1)
	}
	w.label(requestTier, r.Tier)
	w.label(requestFeature, r.Feature)
	w.label(requestRoute, r.Route)
	w.label(requestRegion, r.Region)
	w.label(requestReplica, r.ReplicaName)
	if len(r.Blocks) > 0 {
		w.record = protowire.AppendVarint(w.record, requestBlocks)
		w.record = protowire.AppendVarint(w.record, 8*uint64(len(r.Blocks)))
		for _, hash := range r.Blocks {
			w.record = protowire.AppendFixed64(w.record, hash)
		}
		w.count(requestBlockTokens, r.BlockTokens)
	}
}

func (w *protobufWriter) sum(s *ingest.Sum) {
	w.label(sumPool, s.Pool)
	w.label(sumClass, s.Class)
	w.time(sumStart, s.Start)
	w.number(sumRequests, s.Requests)
	w.number(sumPromptTokens, s.PromptTokens)
	w.number(sumCachedTokens, s.CachedTokens)
	w.number(sumOutputTokens, s.OutputTokens)
}

func (w *protobufWriter) replica(r *ingest.Replica) {
	w.label(replicaPool, r.Pool)
	w.label(replicaReplica, r.Name)
	w.time(replicaAt, r.At)
	w.varint(replicaState, uint64(r.State)+1)
	w.count(replicaKVCapacityTokens, r.KVCapacityTokens)
	w.count(replicaKVUsedTokens, r.KVUsedTokens)
	w.number(replicaKVUsedRatio, r.KVUsedRatio)
	w.count(replicaRunning, r.Running)
	w.count(replicaWaiting, r.Waiting)
	w.count(replicaPreemptionsTotal, r.PreemptionsTotal)
	w.count(replicaPrefixHitsTotal, r.PrefixHitsTotal)
	w.count(replicaPrefixQueriesTotal, r.PrefixQueryTotal)
	w.time(replicaStartedAt, r.StartedAt)
	w.number(replicaStartupSeconds, r.StartupSeconds)
}

func (w *protobufWriter) ack(a *ingest.Ack) {
	w.label(ackPool, a.Pool)
	w.text(ackEventID, a.EventID)
	w.count(ackGeneration, a.Generation)
	w.varint(ackStage, uint64(a.Stage)+1)
	w.time(ackAt, a.At)
	w.count(ackReplicas, int64(a.Replicas))
}

// The writers of single fields; each leaves out a value that stands for "unknown".

func (w *protobufWriter) varint(tag, n uint64) {
	w.record = protowire.AppendVarint(protowire.AppendVarint(w.record, tag), n)
}

func (w *protobufWriter) fixed64(tag, n uint64) {
	w.record = protowire.AppendFixed64(protowire.AppendVarint(w.record, tag), n)
}

func (w *protobufWriter) text(tag uint64, s string) {
	if s != "" {
		w.record = protowire.AppendString(protowire.AppendVarint(w.record, tag), s)
	}
}

// label writes the index of s in the table, putting it there if need be.
func (w *protobufWriter) label(tag uint64, s string) {
	if s == "" {
		return
	}
	index, ok := w.table[s]
	if !ok {
		index = uint64(len(w.table)) + 1 // 0 is the empty string
		w.table[s] = index
		w.strings = protowire.AppendString(protowire.AppendVarint(w.strings, batchStrings), s)
	}
	w.varint(tag, index)
}

func (w *protobufWriter) time(tag uint64, t time.Time) {
	if !t.IsZero() {
		w.fixed64(tag, uint64(t.UnixNano()))
	}
}

func (w *protobufWriter) count(tag uint64, n int64) {
	if n >= 0 {
		w.varint(tag, uint64(n))
	}
}

func (w *protobufWriter) number(tag uint64, f float64) {
	if !math.IsNaN(f) && !math.IsInf(f, 0) {
		w.fixed64(tag, math.Float64bits(f))
	}
}
