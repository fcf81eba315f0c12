package codec

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/ingest"
)

var (
	anyLabel = rapid.StringMatching(`[\PC]{0,20}`) // no control characters, but quotes, backslashes and all scripts
	anyTime  = rapid.Custom(func(t *rapid.T) time.Time {
		ms := rapid.Int64Range(earliest.UnixMilli(), latest.UnixMilli()-1).Draw(t, "ms")
		return time.UnixMilli(ms).UTC()
	})
	anyCount  = rapid.Int64Range(ingest.Unknown, ingest.DefaultLimits().Tokens)
	anyAmount = rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.Just(math.NaN()))
)

func some(g *rapid.Generator[string]) *rapid.Generator[string] {
	return g.Filter(func(s string) bool { return s != "" })
}

// roundTrip decodes an encoded record and compares it.
func roundTrip(t *rapid.T, m Meta, encoded []byte, want ingest.Batch) {
	t.Helper()
	if !json.Valid(encoded) {
		t.Fatalf("not JSON: %s", encoded)
	}
	if d := diff(&want, decode(m, string(encoded))); d != "" {
		t.Fatalf("%s\n%s", encoded, d)
	}
}

var anyRequest = rapid.Custom(func(t *rapid.T) ingest.Request {
	arrived := anyTime.Draw(t, "arrived")
	after := func(name string) time.Time {
		return arrived.Add(time.Duration(rapid.IntRange(0, 3_600_000).Draw(t, name)) * time.Millisecond)
	}
	r := ingest.Request{
		ID: anyLabel.Draw(t, "id"), Pool: some(anyLabel).Draw(t, "pool"), Class: anyLabel.Draw(t, "class"),
		Model: anyLabel.Draw(t, "model"), Tenant: anyLabel.Draw(t, "tenant"), Tier: anyLabel.Draw(t, "tier"),
		Feature: anyLabel.Draw(t, "feature"), Route: anyLabel.Draw(t, "route"), Region: anyLabel.Draw(t, "region"),
		ReplicaName: anyLabel.Draw(t, "replica"),
		Phase:       ingest.Phase(rapid.IntRange(0, int(phaseAbsent)-1).Draw(t, "phase")),
		Status:      ingest.Status(rapid.IntRange(0, int(statusAbsent)-1).Draw(t, "status")),
		Attempt:     rapid.IntRange(1, 9).Draw(t, "attempt"), Session: rapid.Uint64().Draw(t, "session"),
		ArrivedAt:    arrived,
		PromptTokens: max(0, anyCount.Draw(t, "prompt")), OutputTokens: anyCount.Draw(t, "output"), MaxOutputTokens: anyCount.Draw(t, "max"),
	}
	if end := arrived.Add(2 * time.Hour); end.Before(latest) && rapid.Bool().Draw(t, "timed") {
		r.StartedAt, r.FirstTokenAt, r.FinishedAt = after("start"), after("first"), end
	}
	r.CachedTokens = min(anyCount.Draw(t, "cached"), r.PromptTokens)
	return r
})

var anySum = rapid.Custom(func(t *rapid.T) ingest.Sum {
	s := ingest.Sum{
		Pool: some(anyLabel).Draw(t, "pool"), Class: anyLabel.Draw(t, "class"), Start: anyTime.Draw(t, "start"),
		Requests: rapid.Float64Range(0, 1e12).Draw(t, "requests"), PromptTokens: anyAmount.Draw(t, "prompt"), OutputTokens: anyAmount.Draw(t, "output"),
	}
	s.CachedTokens = s.PromptTokens / 2
	return s
})

var anyReplica = rapid.Custom(func(t *rapid.T) ingest.Replica {
	r := ingest.Replica{
		Pool: some(anyLabel).Draw(t, "pool"), Name: some(anyLabel).Draw(t, "name"),
		At: anyTime.Draw(t, "at"), State: ingest.ReplicaState(rapid.IntRange(0, int(replicaStateAbsent)-1).Draw(t, "state")),
		KVCapacityTokens: anyCount.Draw(t, "capacity"), KVUsedTokens: anyCount.Draw(t, "used"),
		KVUsedRatio: rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(math.NaN())).Draw(t, "ratio"),
		Running:     anyCount.Draw(t, "running"), Waiting: anyCount.Draw(t, "waiting"), PreemptionsTotal: anyCount.Draw(t, "preemptions"),
		PrefixHitsTotal: anyCount.Draw(t, "hits"), PrefixQueryTotal: anyCount.Draw(t, "queries"),
		StartedAt: anyTime.Draw(t, "started"), StartupSeconds: rapid.OneOf(rapid.Float64Range(0, 1000), rapid.Just(math.NaN())).Draw(t, "startup"),
	}
	if r.KVCapacityTokens >= 0 {
		r.KVUsedTokens = min(r.KVUsedTokens, r.KVCapacityTokens)
	}
	return r
})

var anyAck = rapid.Custom(func(t *rapid.T) ingest.Ack {
	return ingest.Ack{
		Pool: some(anyLabel).Draw(t, "pool"), EventID: some(anyLabel).Draw(t, "event"),
		Generation: anyCount.Draw(t, "generation"), Stage: ingest.AckStage(rapid.IntRange(0, int(ackStageAbsent)-1).Draw(t, "stage")),
		At: anyTime.Draw(t, "acked"), Replicas: rapid.IntRange(-1, 1000).Draw(t, "replicas"),
	}
})

var anyWatermark = rapid.Custom(func(t *rapid.T) ingest.Watermark {
	return ingest.Watermark{Pool: anyLabel.Draw(t, "of"), At: anyTime.Draw(t, "mark")}
})

var anyHistory = rapid.Custom(func(t *rapid.T) ingest.History {
	return ingest.History{
		Pool: some(anyLabel).Draw(t, "pool"), Class: some(anyLabel).Draw(t, "class"), Dimension: some(anyLabel).Draw(t, "dimension"),
		Start: anyTime.Draw(t, "start"), Values: rapid.SliceOfN(anyAmount, 1, 5).Draw(t, "values"),
	}
})

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := anyRequest.Draw(t, "request")
		roundTrip(t, Meta{}, Append(nil, &request), ingest.Batch{Requests: []ingest.Request{request}})
		s := anySum.Draw(t, "sum")
		roundTrip(t, Meta{ContentType: ContentTypeSum}, Append(nil, &s), ingest.Batch{Sums: []ingest.Sum{s}})
		r := anyReplica.Draw(t, "replica")
		roundTrip(t, Meta{Kind: KindReplica}, Append(nil, &r), ingest.Batch{Replicas: []ingest.Replica{r}})
		a := anyAck.Draw(t, "ack")
		roundTrip(t, Meta{Kind: KindAck}, Append(nil, &a), ingest.Batch{Acks: []ingest.Ack{a}})
		w := anyWatermark.Draw(t, "watermark")
		roundTrip(t, Meta{Kind: KindWatermark}, Append(nil, &w), ingest.Batch{Watermark: &w})
	})
}

func TestAppendIsCompact(t *testing.T) {
	r := ingest.Request{
		Pool: "p", Class: `say "hi"`, Attempt: 1, ArrivedAt: at, PromptTokens: 7,
		CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
	}
	want := `x{"pool":"p","class":"say \"hi\"","arrived_at":` + atMS + `,"prompt_tokens":7}`
	if got := string(Append([]byte("x"), &r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAppendStringReplacesInvalidUTF8(t *testing.T) {
	for in, want := range map[string]string{"\x00\n\x1f": `"\u0000\n\u001f"`, "a\xffb": "\"a\ufffdb\"", `\"`: `"\\\""`} {
		if got := string(appendString(nil, in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// Append appends a record: an [ingest.Request], Sum, Replica, Ack or Watermark, as compact native JSON: without
// unknown values, times as whole Unix milliseconds.
func Append[T ingest.Request | ingest.Sum | ingest.Replica | ingest.Ack | ingest.Watermark](dst []byte, r *T) []byte {
	switch r := any(r).(type) {
	case *ingest.Request:
		return appendRecord(dst, requestType, r)
	case *ingest.Sum:
		return appendRecord(dst, sumType, r)
	case *ingest.Replica:
		return appendRecord(dst, replicaType, r)
	case *ingest.Ack:
		return appendRecord(dst, ackType, r)
	case *ingest.Watermark:
		return appendRecord(dst, watermarkType, r)
	}
	return dst
}

func appendRecord[T any](dst []byte, t *recordType[T], r *T) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for i := range t.members {
		m := memberOf(r, t.members[i].at(r))
		if m.kind == 0 {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), t.members[i].name...), '"', ':')
		dst = m.append(dst)
	}
	return append(dst, '}')
}

func (m *memberValue) append(dst []byte) []byte {
	switch m.kind {
	case 'l', '"', 'e':
		return appendString(dst, m.text)
	case 't':
		return strconv.AppendInt(dst, m.time.UnixMilli(), 10)
	case '0':
		return strconv.AppendInt(dst, m.whole, 10)
	case 'h':
		return fmt.Appendf(dst, `"%016x"`, uint64(m.whole))
	}
	return appendAmount(dst, m.amount)
}

// memberValue is the written value of a member: its kind, and the value of that kind.
type memberValue struct {
	kind   byte // 0 for nothing, l label, " string, t time, 0 whole, . amount, h hash, e enumeration
	text   string
	time   time.Time
	whole  int64
	amount float64
}

// memberOf returns the written value of a member of the record of, Default values of phase and status
// are not written.
func memberOf(of, from any) (m memberValue) {
	known := false
	switch v := from.(type) {
	case *label:
		m.kind, m.text, known = 'l', string(*v), *v != ""
	case *string:
		m.kind, m.text, known = '"', *v, *v != ""
	case *time.Time:
		m.kind, m.time, known = 't', *v, !v.IsZero()
	case *int64:
		m.kind, m.whole, known = '0', *v, *v >= 0
	case *counter:
		m.kind, m.whole, known = '0', int64(*v), *v >= 0
	case *int:
		m.kind, m.whole, known = '0', int64(*v), *v >= 0
	case *attempt:
		m.kind, m.whole, known = '0', int64(*v), *v != 1
	case *sessionHash:
		m.kind, m.whole, known = 'h', int64(*v), *v != 0
	case *float64:
		m.kind, m.amount, known = '.', *v, isFinite(*v)
	case *seconds:
		m.kind, m.amount, known = '.', float64(*v), isFinite(float64(*v))
	case *ratio:
		m.kind, m.amount, known = '.', float64(*v), isFinite(float64(*v))
	case *ingest.Phase:
		m.kind, m.whole, m.text, known = 'e', int64(*v), v.String(), !endedWell(of)
	case *ingest.Status:
		m.kind, m.whole, m.text, known = 'e', int64(*v), v.String(), !endedWell(of)
	case *ingest.ReplicaState:
		m.kind, m.whole, m.text, known = 'e', int64(*v), v.String(), true
	case *ingest.AckStage:
		m.kind, m.whole, m.text, known = 'e', int64(*v), v.String(), true
	}
	if !known { // as is the clear name of a session, which is never kept
		m.kind = 0
	}
	return m
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func appendAmount(dst []byte, f float64) []byte {
	if !isFinite(f) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendString appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
