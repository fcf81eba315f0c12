package codec

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/ingest"
)

// schema is telemetry.proto as a producer compiles it.
var schema = sync.OnceValues(func() (protoreflect.FileDescriptor, error) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := compiler.Compile(context.Background(), "telemetry.proto")
	if err != nil {
		return nil, err
	}
	return files[0], nil
})

// producerBatch is an empty batch of a library that knows only the schema.
func producerBatch(t rapid.TB) *dynamicpb.Message {
	t.Helper()
	file := must(schema())
	return dynamicpb.NewMessage(file.Messages().ByName("Batch"))
}

// marshal encodes a batch as a producer does. The text is in protobuf's text format.
func marshal(t testing.TB, text string) string {
	t.Helper()
	batch := producerBatch(t)
	if err := prototext.Unmarshal([]byte(text), batch); err != nil {
		t.Fatal(err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(batch) // some tests cut it, so fields must be in order
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var protobufMeta = Meta{ContentType: ContentTypeProtobuf}

// full has every field, each with a different value.
const full = `
strings: ["", "p", "c", "m", "t", "gold", "f", "r", "eu", "r0"]
requests {
  id: "i" pool: 1 class: 2 model: 3 tenant: 4 tier: 5 feature: 6 route: 7 region: 8 replica: 9
  session_hash: 18446744073709551614 attempt: 2 phase: PHASE_CANCELLED status: STATUS_ERROR
  arrived_at: 1795240800000000001 started_at: 1795240800000000002
  first_token_at: 1795240800000000003 finished_at: 1795240800000000004
  prompt_tokens: 70 cached_tokens: 0 output_tokens: 300 max_output_tokens: 100000000
}
sums { pool: 1 class: 2 start: 1795240800000000000 requests: 0.5 prompt_tokens: 3e8 cached_tokens: 0 output_tokens: 1 }
replicas {
  pool: 1 replica: 9 at: 1795240800000000000 state: REPLICA_STATE_LOADING
  kv_capacity_tokens: 100 kv_used_tokens: 50 kv_used_ratio: 0.5 running: 3 waiting: 0
  preemptions_total: 1 prefix_hits_total: 900000000000 prefix_queries_total: 9007199254740992
  started_at: 1795240800000000000 startup_seconds: 90.5
}
acks { pool: 1 event_id: "e" generation: 4 stage: ACK_STAGE_READY at: 1795240800000000000 replicas: 2 }
watermark { pool: 1 at: 1795240800000000000 }`

func TestDecodeProtobuf(t *testing.T) {
	for name, tc := range map[string]struct {
		meta Meta
		in   string
		want ingest.Batch
	}{
		"all": {protobufMeta, full, ingest.Batch{
			Requests: []ingest.Request{{
				ID: "i", Pool: "p", Class: "c", Model: "m", Tenant: "t", Tier: "gold", Feature: "f", Route: "r", Region: "eu", ReplicaName: "r0",
				Session: math.MaxUint64 - 1, Attempt: 2, Phase: ingest.PhaseCancelled, Status: ingest.StatusError,
				ArrivedAt: at.Add(1), StartedAt: at.Add(2), FirstTokenAt: at.Add(3), FinishedAt: at.Add(4),
				PromptTokens: 70, CachedTokens: 0, OutputTokens: 300, MaxOutputTokens: 100_000_000,
			}},
			Sums: []ingest.Sum{{Pool: "p", Class: "c", Start: at, Requests: 0.5, PromptTokens: 3e8, CachedTokens: 0, OutputTokens: 1}},
			Replicas: []ingest.Replica{{
				Pool: "p", Name: "r0", At: at, State: ingest.ReplicaLoading, KVCapacityTokens: 100, KVUsedTokens: 50, KVUsedRatio: 0.5,
				Running: 3, Waiting: 0, PreemptionsTotal: 1, PrefixHitsTotal: 9e11, PrefixQueryTotal: 1 << 53,
				StartedAt: at, StartupSeconds: 90.5,
			}},
			Acks:      []ingest.Ack{{Pool: "p", EventID: "e", Generation: 4, Stage: ingest.AckReady, At: at, Replicas: 2}},
			Watermark: &ingest.Watermark{Pool: "p", At: at},
		}},
		"names from the subject": {
			Meta{ContentType: ContentTypeProtobuf, Pool: "p", Class: "c", Replica: "r0"},
			`requests { arrived_at: 1795240800000000000 prompt_tokens: 0 }
			replicas { at: 1795240800000000000 state: REPLICA_STATE_READY }
			watermark { at: 1795240800000000000 }`,
			ingest.Batch{
				Requests: []ingest.Request{{
					Pool: "p", Class: "c", Attempt: 1, ArrivedAt: at, PromptTokens: 0,
					CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
				}},
				Replicas: []ingest.Replica{{
					Pool: "p", Name: "r0", At: at, KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: math.NaN(),
					Running: ingest.Unknown, Waiting: ingest.Unknown, PreemptionsTotal: ingest.Unknown, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
					StartupSeconds: math.NaN(),
				}},
				Watermark: &ingest.Watermark{Pool: "p", At: at},
			},
		},
		"session in clear": {
			protobufMeta, `strings: ["", "p"] requests { pool: 1 arrived_at: 1795240800000000000 prompt_tokens: 1 session: "s" }`, ingest.Batch{Requests: []ingest.Request{{
				Pool: "p", Attempt: 1, ArrivedAt: at, PromptTokens: 1, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown, Session: ingest.HashSession("s"),
			}}}},
		"NaN is unknown": {
			protobufMeta, `strings: ["", "p"] sums { pool: 1 start: 1795240800000000000 requests: 1 prompt_tokens: nan }`, ingest.Batch{Sums: []ingest.Sum{{Pool: "p", Start: at, Requests: 1, PromptTokens: math.NaN(), CachedTokens: math.NaN(), OutputTokens: math.NaN()}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := diff(&tc.want, decode(tc.meta, marshal(t, tc.in))); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestProtobufAgreesWithSchema: a library that knows only the schema reads what AppendProtobuf writes. Decode reads
// what the library writes.
func TestProtobufAgreesWithSchema(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mark := anyWatermark.Draw(t, "watermark")
		mark.Pool = cmp.Or(mark.Pool, "p")
		want := ingest.Batch{
			Requests: rapid.SliceOfN(anyRequest, 0, 4).Draw(t, "requests"), Sums: rapid.SliceOfN(anySum, 0, 3).Draw(t, "sums"),
			Replicas: rapid.SliceOfN(anyReplica, 0, 3).Draw(t, "replicas"), Acks: rapid.SliceOfN(anyAck, 0, 3).Draw(t, "acks"), Watermark: &mark,
			Histories: rapid.SliceOfN(anyHistory, 0, 3).Draw(t, "histories"),
		}
		data := AppendProtobuf(nil, &want)
		if d := diff(&want, decode(protobufMeta, string(data))); d != "" {
			t.Fatalf("bytes of AppendProtobuf: %s", d)
		}
		m := producerBatch(t)
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatal(err)
		}
		err := protorange.Range(m, func(at protopath.Values) error {
			if message, ok := at.Index(-1).Value.Interface().(protoreflect.Message); ok && len(message.GetUnknown()) > 0 {
				return fmt.Errorf("fields that the schema does not have: %x", message.GetUnknown())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		again := must(proto.MarshalOptions{Deterministic: true}.Marshal(m))
		if d := diff(&want, decode(protobufMeta, string(again))); d != "" {
			t.Fatalf("bytes of the library: %s", d)
		}
	})
}

// TestProtobufNames compares the tables of members with the schema.
func TestProtobufNames(t *testing.T) {
	compareMembers(t, "Request", requestType)
	compareMembers(t, "Sum", sumType)
	compareMembers(t, "Replica", replicaType)
	compareMembers(t, "Ack", ackType)
	compareMembers(t, "Watermark", watermarkType)
	compareMembers(t, "History", historyType)
	file := producerBatch(t).Descriptor().ParentFile()
	for enum, names := range map[string][]string{
		"Phase": ingest.PhaseNames, "Status": ingest.StatusNames, "ReplicaState": ingest.ReplicaStateNames, "AckStage": ingest.AckStageNames,
	} {
		values := file.Enums().ByName(protoreflect.Name(enum)).Values()
		for i, name := range names {
			v := values.ByNumber(protoreflect.EnumNumber(i + 1))
			if v == nil || !strings.HasSuffix(string(v.Name()), "_"+strings.ToUpper(name)) {
				t.Errorf("%s: value %d is %v, the table has %s", enum, i+1, v, name)
			}
		}
		if values.Len() != len(names)+1 {
			t.Errorf("%s has %d values, the table has %d names", enum, values.Len()-1, len(names))
		}
	}
}

func compareMembers[T any](t *testing.T, message protoreflect.Name, r *recordType[T]) {
	fields := producerBatch(t).Descriptor().ParentFile().Messages().ByName(message).Fields()
	if fields.Len() != len(r.members) {
		t.Errorf("%s has %d fields, the table has %d", message, fields.Len(), len(r.members))
	}
	for _, m := range r.members {
		if f := fields.ByNumber(protoreflect.FieldNumber(m.number)); f == nil || string(f.Name()) != m.name {
			t.Errorf("%s: field %d is %v, the table has %s", message, m.number, f, m.name)
		}
	}
}

func TestDecodeProtobufRefuses(t *testing.T) {
	const (
		table   = `strings: ["", "p"] `
		request = "pool: 1 arrived_at: 1795240800000000000 prompt_tokens: 7 "
	)
	requests := func(fields string) string {
		return `strings: ["", "p", "a\x00", "` + strings.Repeat("x", 300) + `"] requests { ` + fields + " }"
	}
	replica := func(fields string) string {
		return table + "replicas { pool: 1 at: 1795240800000000000 " + fields + " }"
	}
	history := func(fields string) string {
		return `strings: ["", "p", "kv"] histories { pool: 1 start: 1795240800000000000 ` + fields + " }"
	}
	for name, tc := range map[string]struct {
		in   string
		want ingest.Reason
	}{
		"index outside the table": {requests(request + "class: 4"), ingest.ReasonOutOfRange},
		"control character":       {requests(request + "class: 2"), ingest.ReasonBadLabel},
		"long label":              {requests(request + "tenant: 3"), ingest.ReasonLabelTooLong},
		"long id":                 {requests(request + `id: "` + strings.Repeat("x", 257) + `"`), ingest.ReasonLabelTooLong},
		"control character in id": {requests(request + `id: "12345678\u0085"`), ingest.ReasonBadLabel},
		"no pool":                 {requests("arrived_at: 1795240800000000000 prompt_tokens: 7"), ingest.ReasonMissingField},
		"no prompt":               {requests("pool: 1 arrived_at: 1795240800000000000"), ingest.ReasonMissingField},
		"no time":                 {requests("pool: 1 prompt_tokens: 7"), ingest.ReasonMissingField},
		"milliseconds":            {requests("pool: 1 arrived_at: 1795240800000 prompt_tokens: 7"), ingest.ReasonBadTime},
		"negative time":           {requests("pool: 1 arrived_at: -1 prompt_tokens: 7"), ingest.ReasonBadTime},
		"after 2199":              {requests(request + fmt.Sprint("finished_at: ", latest.UnixNano())), ingest.ReasonBadTime},
		"negative count":          {requests(request + "output_tokens: -1"), ingest.ReasonNegativeCount},
		"huge count":              {requests(request + "output_tokens: 100000001"), ingest.ReasonHugeCount},
		"huge attempt":            {requests(request + "attempt: 4294967295"), ingest.ReasonHugeCount},
		"unknown phase":           {requests(request + "phase: 5"), ingest.ReasonBadEnum},
		"negative status":         {requests(request + "status: -1"), ingest.ReasonBadEnum},
		"cached beyond prompt":    {requests(request + "cached_tokens: 8"), ingest.ReasonInconsistent},
		"ends before it begins":   {requests(request + "finished_at: 1795240799999999999"), ingest.ReasonInconsistent},
		"replica without state":   {replica("replica: 1"), ingest.ReasonMissingField},
		"replica without name":    {replica("state: REPLICA_STATE_READY"), ingest.ReasonMissingField},
		"more used than there is": {replica("replica: 1 state: REPLICA_STATE_READY kv_capacity_tokens: 100 kv_used_tokens: 101"), ingest.ReasonInconsistent},
		"ratio above 1":           {replica("replica: 1 state: REPLICA_STATE_READY kv_used_ratio: 1.5"), ingest.ReasonOutOfRange},
		"infinite ratio":          {replica("replica: 1 state: REPLICA_STATE_READY kv_used_ratio: -inf"), ingest.ReasonOutOfRange},
		"infinite sum":            {table + "sums { pool: 1 start: 1795240800000000000 requests: inf }", ingest.ReasonHugeCount},
		"sum of nothing":          {table + "sums { pool: 1 start: 1795240800000000000 }", ingest.ReasonMissingField},
		"ack without event":       {table + "acks { pool: 1 at: 1795240800000000000 stage: ACK_STAGE_ACCEPTED }", ingest.ReasonMissingField},
		"watermark without time":  {table + "watermark { pool: 1 }", ingest.ReasonMissingField},
		"watermark without pool":  {"watermark { at: 1795240800000000000 }", ingest.ReasonMissingField},
		"history without class":   {history(`dimension: 2 values: 1`), ingest.ReasonMissingField},
		"history of nothing":      {history(`class: 2 values: 1`), ingest.ReasonMissingField},
		"history without values":  {history(`class: 2 dimension: 2`), ingest.ReasonMissingField},
		"history below zero":      {history(`class: 2 dimension: 2 values: [1, -1]`), ingest.ReasonNegativeCount},
		"history that is too long": {
			history(`class: 2 dimension: 2 values: [0` + strings.Repeat(", nan", ingest.MaxHistoryMinutes) + `]`), ingest.ReasonBatchTooLong,
		},
		"first string not empty": {`strings: "p" requests { ` + request + "}", ingest.ReasonInconsistent},
		"no record":              {table, ingest.ReasonEmpty},
		"nothing":                {"", ingest.ReasonEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(protobufMeta, marshal(t, tc.in))
			if n := len(got.Requests) + len(got.Sums) + len(got.Replicas) + len(got.Acks); n > 0 || got.Watermark != nil || len(got.Refused) != 1 || got.Refused[0].Reason != tc.want {
				t.Errorf("got %d records and %+v, want %s", n, got.Refused, tc.want)
			}
		})
	}
}

// TestDecodeProtobufWire decodes bytes that no library writes.
func TestDecodeProtobufWire(t *testing.T) {
	valid := []byte(marshal(t, `strings: ["", "p"] requests { pool: 1 arrived_at: 1795240800000000000 prompt_tokens: 7 }`))
	record := func(fields ...byte) string {
		return string(valid) + string(protowire.AppendBytes([]byte{batchRequests<<3 | 2}, fields))
	}
	group := protowire.AppendTag(protowire.AppendTag(nil, 99, protowire.StartGroupType), 99, protowire.EndGroupType)
	for name, tc := range map[string]struct {
		data    string
		records int
		want    []ingest.Reason
	}{
		"valid":                            {string(valid), 1, nil},
		"unknown fields":                   {string(valid) + "\xf8\x3f\x01", 1, nil},
		"group":                            {string(valid) + string(group), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"strings after the records":        {string(valid[5:]) + string(valid[:5]), 1, nil},
		"requests that are a number":       {"\x10\x01" + string(valid), 1, []ingest.Reason{ingest.ReasonWrongType}},
		"JSON":                             {`{"pool":"p"}`, 0, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"field number 0":                   {string(valid) + "\x00\x01" + string(valid), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"end without a group":              {string(valid) + "\x7c", 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"reserved wire type":               {string(valid) + "\x7f", 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"varint of 11 bytes":               {string(valid) + strings.Repeat("\xff", 11), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"length beyond the end":            {string(valid) + "\x12\x7f", 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"length of 2^64-1":                 {string(valid) + "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"record cut in a field":            {record(7<<3|1, 1, 2, 3), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"record with a broken varint":      {record(append([]byte{11 << 3}, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"...)...), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"record with the wrong wire type":  {record(1<<3, 1), 1, []ingest.Reason{ingest.ReasonWrongType}},
		"record with an id that is binary": {record(1<<3|2, 1, 0xff), 1, []ingest.Reason{ingest.ReasonInvalidUTF8}},
		"string that is binary":            {"\x0a\x00\x0a\x01\xff" + string(valid[5:]), 0, []ingest.Reason{ingest.ReasonInvalidUTF8}},
		"two watermarks":                   {"\x0a\x00\x0a\x01p" + strings.Repeat(string(protowire.AppendBytes([]byte{batchWatermark<<3 | 2}, protowire.AppendFixed64([]byte{1 << 3, 1, 2<<3 | 1}, uint64(at.UnixNano())))), 2), 0, []ingest.Reason{ingest.ReasonBatchTooLong}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(protobufMeta, tc.data)
			var reasons []ingest.Reason
			for _, r := range got.Refused {
				reasons = append(reasons, r.Reason)
			}
			if d := diff(tc.want, reasons); d != "" || len(got.Requests) != tc.records {
				t.Errorf("%d records, want %d; reasons: %s\n%+v", len(got.Requests), tc.records, d, got.Refused)
			}
		})
	}
}

// TestDecodeProtobufCut cuts a batch at every byte. Complete records are decoded, and the rest is one refusal.
func TestDecodeProtobufCut(t *testing.T) {
	b := typical(3)
	data := AppendProtobuf(nil, &b)
	ends := map[int]bool{}
	for w := (wire{rest: data}); w.next(); {
		ends[len(data)-len(w.rest)] = true
	}
	last := 0
	for n := 1; n < len(data); n++ {
		got := decode(protobufMeta, string(data[:n]))
		if len(got.Requests) < last || len(got.Requests) > last+1 {
			t.Fatalf("cut at %d: %d records after %d", n, len(got.Requests), last)
		}
		last = len(got.Requests)
		if d := diff(b.Requests[:last], got.Requests); d != "" {
			t.Fatalf("cut at %d: %s", n, d)
		}
		reason := ingest.ReasonNotProtobuf
		if ends[n] {
			reason = ingest.ReasonEmpty // no record yet
		}
		if want := !ends[n] || last == 0; (len(got.Refused) == 1) != want || len(got.Refused) == 1 && got.Refused[0].Reason != reason {
			t.Fatalf("cut at %d: refused %+v", n, got.Refused)
		}
	}
}

func TestDecodeProtobufBoundsRecords(t *testing.T) {
	b := typical(5)
	limits := ingest.DefaultLimits()
	limits.BatchRecords = 3
	var got ingest.Batch
	Decode(protobufMeta, AppendProtobuf(nil, &b), limits, &got)
	if len(got.Requests) != 3 || len(got.Refused) != 1 || got.Refused[0].Reason != ingest.ReasonBatchTooLong {
		t.Errorf("%d records, refused %+v", len(got.Requests), got.Refused)
	}
}

// TestDecodeProtobufAllocatesTheIDs: decoding allocates only the id of each record.
func TestDecodeProtobufAllocatesTheIDs(t *testing.T) {
	if raceDetector {
		t.Skip("the number of allocations is different under the race detector")
	}
	b := typical(100)
	data := AppendProtobuf(nil, &b)
	var got ingest.Batch
	if n := testing.AllocsPerRun(100, func() {
		got.Reset()
		Decode(protobufMeta, data, ingest.DefaultLimits(), &got)
	}); n > 100 {
		t.Errorf("%g allocations for %d records", n, len(got.Requests))
	}
	buffer := make([]byte, 0, 2*len(data))
	if n := testing.AllocsPerRun(100, func() { AppendProtobuf(buffer, &b) }); n > 20 {
		t.Errorf("%g allocations to encode %d records", n, len(b.Requests))
	}
}

// typical is a batch as a gateway publishes it.
func typical(records int) ingest.Batch {
	var b ingest.Batch
	for i := range records {
		arrived := at.Add(time.Duration(i) * 10 * time.Millisecond)
		b.Requests = append(b.Requests, ingest.Request{
			ID: fmt.Sprintf("chatcmpl-%024x", i*7919), Pool: "llama-70b", Class: "chat", Model: "llama-3-70b-instruct", Tenant: fmt.Sprintf("tenant-%d", i%50),
			Tier: "gold", Region: "eu-west-1", ReplicaName: fmt.Sprintf("llama-70b-%d", i%8), Attempt: 1, Session: uint64(i) * 0x9e3779b97f4a7c15,
			ArrivedAt: arrived, StartedAt: arrived.Add(20 * time.Millisecond), FirstTokenAt: arrived.Add(400 * time.Millisecond), FinishedAt: arrived.Add(5 * time.Second),
			PromptTokens: 1234, CachedTokens: 1000, OutputTokens: 250, MaxOutputTokens: 1024,
		})
	}
	return b
}

// TestLargeHistoryIsReadOnce decodes messages of almost 8 MiB whose list of numbers comes in many fields. The time is linear.
func TestLargeHistoryIsReadOnce(t *testing.T) {
	one := protowire.AppendFixed64(protowire.AppendTag(nil, 5, protowire.Fixed64Type), math.Float64bits(1))
	none := protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), nil)
	packed := protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), make([]byte, 8*ingest.MaxHistoryMinutes))
	for name, record := range map[string][]byte{
		"a field for each number":             bytes.Repeat(one, 900_000),
		"empty fields":                        append(bytes.Repeat(packed, 2), bytes.Repeat(none, 2_000_000)...),
		"empty fields after the largest list": append(packed, bytes.Repeat(none, 2_000_000)...),
	} {
		t.Run(name, func(t *testing.T) {
			message := protowire.AppendBytes(protowire.AppendTag(nil, batchHistories, protowire.BytesType), record)
			began := time.Now()
			b := decode(protobufMeta, string(message))
			if took := time.Since(began); took > 3*time.Second || len(b.Refused) != 1 {
				t.Errorf("took %s, refused %+v", took, b.Refused)
			}
		})
	}
}

// TestManyStrings: a table that is too long is refused once, and the records that use its beginning are read.
func TestManyStrings(t *testing.T) {
	few := ingest.DefaultLimits()
	few.BatchRecords = 2
	text := `strings: ["", "p"` + strings.Repeat(`, "x"`, labelsPerRecord*few.BatchRecords) + `]
		requests { pool: 1 arrived_at: 1795240800000000000 prompt_tokens: 0 }
		requests { pool: 1 class: 19 arrived_at: 1795240800000000000 prompt_tokens: 0 }`
	var b ingest.Batch
	Decode(protobufMeta, []byte(marshal(t, text)), few, &b)
	if len(b.Requests) != 1 || len(b.Refused) != 2 || b.Refused[0].Reason != ingest.ReasonBatchTooLong ||
		b.Refused[0].Detail != "the batch has more than 19 strings" || b.Refused[1].Detail != "class is string 19, the batch has 19 that can be read" {
		t.Errorf("%d requests, refused %+v", len(b.Requests), b.Refused)
	}
}
