package codec

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// The encoders write the compact native JSON that [Decode] reads back: what is unknown is left out, times are Unix
// milliseconds (finer parts are dropped). They append to dst and return it, as the append functions of strconv do.

// AppendRequest appends r. The session, of which only the hash is left, is written as session_hash.
func AppendRequest(dst []byte, r *ingest.Request) []byte {
	w := object(dst)
	w.text("id", r.ID)
	w.text("pool", r.Pool)
	w.text("class", r.Class)
	w.text("model", r.Model)
	w.text("tenant", r.Tenant)
	w.text("tier", r.Tier)
	w.text("feature", r.Feature)
	w.text("route", r.Route)
	w.text("region", r.Region)
	w.text("replica", r.ReplicaName)
	if r.Phase != ingest.PhaseFinished || r.Status != ingest.StatusOK {
		w.text("phase", r.Phase.String())
		w.text("status", r.Status.String())
	}
	if r.Attempt != 1 {
		w.int("attempt", int64(r.Attempt))
	}
	if r.Session != 0 {
		w.hash("session_hash", r.Session)
	}
	w.time("arrived_at", r.ArrivedAt)
	w.time("started_at", r.StartedAt)
	w.time("first_token_at", r.FirstTokenAt)
	w.time("finished_at", r.FinishedAt)
	w.count("prompt_tokens", r.PromptTokens)
	w.count("cached_tokens", r.CachedTokens)
	w.count("output_tokens", r.OutputTokens)
	w.count("max_output_tokens", r.MaxOutputTokens)
	return w.end()
}

// AppendSum appends s; its content type is [ContentTypeSum].
func AppendSum(dst []byte, s *ingest.Sum) []byte {
	w := object(dst)
	w.text("pool", s.Pool)
	w.text("class", s.Class)
	w.time("start", s.Start)
	w.number("requests", s.Requests)
	w.number("prompt_tokens", s.PromptTokens)
	w.number("cached_tokens", s.CachedTokens)
	w.number("output_tokens", s.OutputTokens)
	return w.end()
}

// AppendReplica appends r.
func AppendReplica(dst []byte, r *ingest.Replica) []byte {
	w := object(dst)
	w.text("pool", r.Pool)
	w.text("replica", r.Name)
	w.time("at", r.At)
	w.text("state", r.State.String())
	w.count("kv_capacity_tokens", r.KVCapacityTokens)
	w.count("kv_used_tokens", r.KVUsedTokens)
	w.number("kv_used_ratio", r.KVUsedRatio)
	w.count("running", r.Running)
	w.count("waiting", r.Waiting)
	w.count("preemptions_total", r.PreemptionsTotal)
	w.count("prefix_hits_total", r.PrefixHitsTotal)
	w.count("prefix_queries_total", r.PrefixQueryTotal)
	w.time("started_at", r.StartedAt)
	w.number("startup_seconds", r.StartupSeconds)
	return w.end()
}

// AppendAck appends a.
func AppendAck(dst []byte, a *ingest.Ack) []byte {
	w := object(dst)
	w.text("pool", a.Pool)
	w.text("event_id", a.EventID)
	w.count("generation", a.Generation)
	w.text("stage", a.Stage.String())
	w.time("at", a.At)
	w.count("replicas", int64(a.Replicas))
	return w.end()
}

// AppendWatermark appends m.
func AppendWatermark(dst []byte, m *ingest.Watermark) []byte {
	w := object(dst)
	w.text("pool", m.Pool)
	w.time("at", m.At)
	return w.end()
}

// objectWriter writes one flat JSON object; each member is left out when its value stands for "unknown".
type objectWriter struct {
	buf   []byte
	start int // where the members begin
}

func object(dst []byte) objectWriter {
	return objectWriter{buf: append(dst, '{'), start: len(dst) + 1}
}

func (w *objectWriter) end() []byte { return append(w.buf, '}') }

func (w *objectWriter) key(key string) {
	if len(w.buf) > w.start {
		w.buf = append(w.buf, ',')
	}
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, key...)
	w.buf = append(w.buf, '"', ':')
}

func (w *objectWriter) text(key, s string) {
	if s != "" {
		w.key(key)
		w.buf = appendString(w.buf, s)
	}
}

func (w *objectWriter) int(key string, n int64) {
	w.key(key)
	w.buf = strconv.AppendInt(w.buf, n, 10)
}

func (w *objectWriter) count(key string, n int64) {
	if n >= 0 {
		w.int(key, n)
	}
}

func (w *objectWriter) number(key string, f float64) {
	if !math.IsNaN(f) && !math.IsInf(f, 0) {
		w.key(key)
		w.buf = strconv.AppendFloat(w.buf, f, 'f', -1, 64)
	}
}

func (w *objectWriter) time(key string, t time.Time) {
	if !t.IsZero() {
		w.int(key, t.UnixMilli())
	}
}

func (w *objectWriter) hash(key string, h uint64) {
	w.key(key)
	w.buf = append(w.buf, '"')
	for shift := 60; shift >= 0; shift -= 4 {
		w.buf = append(w.buf, hexDigits[h>>shift&15])
	}
	w.buf = append(w.buf, '"')
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
