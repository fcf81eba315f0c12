package codec

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/telemetrypb"
)

// marshal encodes with the generated code, as a producer would.
func marshal(t testing.TB, m *telemetrypb.Batch) string {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var protobufMeta = Meta{ContentType: ContentTypeProtobuf}

// full has every field set, each to another value.
func full() *telemetrypb.Batch {
	ns := at.UnixNano()
	return &telemetrypb.Batch{
		Strings: []string{"", "p", "c", "m", "t", "gold", "f", "r", "eu", "r0"},
		Requests: []*telemetrypb.Request{{
			Id: "i", Pool: 1, Class: 2, Model: 3, Tenant: 4, Tier: 5, Feature: 6, Route: 7, Region: 8, Replica: 9,
			SessionHash: math.MaxUint64 - 1, Attempt: 2, Phase: telemetrypb.Phase_PHASE_CANCELLED, Status: telemetrypb.Status_STATUS_ERROR,
			ArrivedAt: ns + 1, StartedAt: ns + 2, FirstTokenAt: ns + 3, FinishedAt: ns + 4,
			PromptTokens: proto.Int64(70), CachedTokens: proto.Int64(0), OutputTokens: proto.Int64(300), MaxOutputTokens: proto.Int64(100_000_000),
			Blocks: []uint64{math.MaxUint64, 1, 2}, BlockTokens: 64,
		}},
		Sums: []*telemetrypb.Sum{{
			Pool: 1, Class: 2, Start: ns, Requests: proto.Float64(0.5), PromptTokens: proto.Float64(3e8), CachedTokens: proto.Float64(0), OutputTokens: proto.Float64(1),
		}},
		Replicas: []*telemetrypb.Replica{{
			Pool: 1, Replica: 9, At: ns, State: telemetrypb.ReplicaState_REPLICA_STATE_LOADING,
			KvCapacityTokens: proto.Int64(100), KvUsedTokens: proto.Int64(50), KvUsedRatio: proto.Float64(0.5), Running: proto.Int64(3), Waiting: proto.Int64(0),
			PreemptionsTotal: proto.Int64(1), PrefixHitsTotal: proto.Int64(900_000_000_000), PrefixQueriesTotal: proto.Int64(1 << 53),
			StartedAt: ns, StartupSeconds: proto.Float64(90.5),
		}},
		Acks: []*telemetrypb.Ack{{
			Pool: 1, EventId: "e", Generation: proto.Int64(4), Stage: telemetrypb.AckStage_ACK_STAGE_READY, At: ns, Replicas: proto.Int64(2),
		}},
		Watermark: &telemetrypb.Watermark{Pool: 1, At: ns},
	}
}

func TestDecodeProtobuf(t *testing.T) {
	unknown := telemetrypb.Request{ArrivedAt: at.UnixNano(), PromptTokens: proto.Int64(0)}
	for name, tc := range map[string]struct {
		meta Meta
		in   *telemetrypb.Batch
		want ingest.Batch
	}{
		"all": {protobufMeta, full(), ingest.Batch{
			Requests: []ingest.Request{{
				ID: "i", Pool: "p", Class: "c", Model: "m", Tenant: "t", Tier: "gold", Feature: "f", Route: "r", Region: "eu", ReplicaName: "r0",
				Session: math.MaxUint64 - 1, Attempt: 2, Phase: ingest.PhaseCancelled, Status: ingest.StatusError,
				ArrivedAt: at.Add(1), StartedAt: at.Add(2), FirstTokenAt: at.Add(3), FinishedAt: at.Add(4),
				PromptTokens: 70, CachedTokens: 0, OutputTokens: 300, MaxOutputTokens: 100_000_000,
				Blocks: []uint64{math.MaxUint64, 1}, BlockTokens: 64,
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
			&telemetrypb.Batch{
				Requests:  []*telemetrypb.Request{&unknown},
				Replicas:  []*telemetrypb.Replica{{At: at.UnixNano(), State: telemetrypb.ReplicaState_REPLICA_STATE_READY}},
				Watermark: &telemetrypb.Watermark{At: at.UnixNano()},
			},
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
		"session in clear": {protobufMeta, &telemetrypb.Batch{
			Strings: []string{"", "p"}, Requests: []*telemetrypb.Request{{Pool: 1, ArrivedAt: at.UnixNano(), PromptTokens: proto.Int64(1), Session: "s"}},
		}, ingest.Batch{Requests: []ingest.Request{{
			Pool: "p", Attempt: 1, ArrivedAt: at, PromptTokens: 1, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown, Session: ingest.HashSession("s"),
		}}}},
		"NaN is unknown": {protobufMeta, &telemetrypb.Batch{
			Strings: []string{"", "p"}, Sums: []*telemetrypb.Sum{{Pool: 1, Start: at.UnixNano(), Requests: proto.Float64(1), PromptTokens: proto.Float64(math.NaN())}},
		}, ingest.Batch{Sums: []ingest.Sum{{Pool: "p", Start: at, Requests: 1, PromptTokens: math.NaN(), CachedTokens: math.NaN(), OutputTokens: math.NaN()}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := diff(&tc.want, decode(tc.meta, marshal(t, tc.in))); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestProtobufAgreesWithGeneratedCode sends batches both ways: what AppendProtobuf writes is what generated code reads
// and writes.
func TestProtobufAgreesWithGeneratedCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mark := anyWatermark.Draw(t, "watermark")
		mark.Pool = cmp.Or(mark.Pool, "p")
		want := ingest.Batch{
			Requests: rapid.SliceOfN(anyRequest, 0, 4).Draw(t, "requests"), Sums: rapid.SliceOfN(anySum, 0, 3).Draw(t, "sums"),
			Replicas: rapid.SliceOfN(anyReplica, 0, 3).Draw(t, "replicas"), Acks: rapid.SliceOfN(anyAck, 0, 3).Draw(t, "acks"), Watermark: &mark,
		}
		for i := range want.Requests {
			if want.Requests[i].Blocks = rapid.SliceOfN(rapid.Uint64(), 0, 3).Draw(t, "blocks"); len(want.Requests[i].Blocks) > 0 {
				want.Requests[i].BlockTokens = 64
				want.Requests[i].PromptTokens = max(want.Requests[i].PromptTokens, 64*3)
			}
		}
		data := AppendProtobuf(nil, &want)
		if d := diff(&want, decode(protobufMeta, string(data))); d != "" {
			t.Fatalf("own bytes: %s", d)
		}
		var m telemetrypb.Batch
		if err := proto.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		for _, r := range m.Requests {
			if unknown := r.ProtoReflect().GetUnknown(); len(unknown) > 0 {
				t.Fatalf("fields that the schema does not have: %x", unknown)
			}
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(&want, decode(protobufMeta, string(again))); d != "" {
			t.Fatalf("bytes of generated code: %s", d)
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
	file := telemetrypb.File_ingest_telemetrypb_telemetry_proto
	for enum, names := range map[string][]string{
		"Phase": phaseNames, "Status": statusNames, "ReplicaState": replicaStateNames, "AckStage": ackStageNames,
	} {
		values := file.Enums().ByName(protoreflect.Name(enum)).Values()
		for i, name := range names {
			v := values.ByNumber(protoreflect.EnumNumber(i + 1))
			if v == nil || !strings.HasSuffix(string(v.Name()), "_"+strings.ToUpper(name)) {
				t.Errorf("%s: value %d is %v, the table says %s", enum, i+1, v, name)
			}
		}
		if values.Len() != len(names)+1 {
			t.Errorf("%s has %d values, the table has %d names", enum, values.Len()-1, len(names))
		}
	}
}

func compareMembers[T any](t *testing.T, message protoreflect.Name, r *recordType[T]) {
	fields := telemetrypb.File_ingest_telemetrypb_telemetry_proto.Messages().ByName(message).Fields()
	if fields.Len() != len(r.members) {
		t.Errorf("%s has %d fields, the table has %d", message, fields.Len(), len(r.members))
	}
	for _, m := range r.members {
		if f := fields.ByNumber(protoreflect.FieldNumber(m.number)); f == nil || string(f.Name()) != m.name {
			t.Errorf("%s: field %d is %v, the table says %s", message, m.number, f, m.name)
		}
	}
}

func TestDecodeProtobufRefuses(t *testing.T) {
	request := func(change func(*telemetrypb.Request)) *telemetrypb.Batch {
		r := &telemetrypb.Request{Pool: 1, ArrivedAt: at.UnixNano(), PromptTokens: proto.Int64(7)}
		change(r)
		return &telemetrypb.Batch{Strings: []string{"", "p", "a\x00", strings.Repeat("x", 300)}, Requests: []*telemetrypb.Request{r}}
	}
	replica := func(change func(*telemetrypb.Replica)) *telemetrypb.Batch {
		r := &telemetrypb.Replica{Pool: 1, Replica: 1, At: at.UnixNano(), State: telemetrypb.ReplicaState_REPLICA_STATE_READY}
		change(r)
		return &telemetrypb.Batch{Strings: []string{"", "p"}, Replicas: []*telemetrypb.Replica{r}}
	}
	for name, tc := range map[string]struct {
		in   *telemetrypb.Batch
		want ingest.Reason
	}{
		"index outside the table": {request(func(r *telemetrypb.Request) { r.Class = 4 }), ingest.ReasonOutOfRange},
		"control character":       {request(func(r *telemetrypb.Request) { r.Class = 2 }), ingest.ReasonBadLabel},
		"long label":              {request(func(r *telemetrypb.Request) { r.Tenant = 3 }), ingest.ReasonLabelTooLong},
		"long id":                 {request(func(r *telemetrypb.Request) { r.Id = strings.Repeat("x", 257) }), ingest.ReasonLabelTooLong},
		"control character in id": {request(func(r *telemetrypb.Request) { r.Id = "12345678\u0085" }), ingest.ReasonBadLabel},
		"no pool":                 {request(func(r *telemetrypb.Request) { r.Pool = 0 }), ingest.ReasonMissingField},
		"no prompt":               {request(func(r *telemetrypb.Request) { r.PromptTokens = nil }), ingest.ReasonMissingField},
		"no time":                 {request(func(r *telemetrypb.Request) { r.ArrivedAt = 0 }), ingest.ReasonMissingField},
		"blocks of no size":       {request(func(r *telemetrypb.Request) { r.Blocks = []uint64{1} }), ingest.ReasonMissingField},
		"milliseconds":            {request(func(r *telemetrypb.Request) { r.ArrivedAt = at.UnixMilli() }), ingest.ReasonBadTime},
		"negative time":           {request(func(r *telemetrypb.Request) { r.ArrivedAt = -1 }), ingest.ReasonBadTime},
		"after 2199":              {request(func(r *telemetrypb.Request) { r.FinishedAt = latest.UnixNano() }), ingest.ReasonBadTime},
		"negative count":          {request(func(r *telemetrypb.Request) { r.OutputTokens = proto.Int64(-1) }), ingest.ReasonNegativeCount},
		"huge count":              {request(func(r *telemetrypb.Request) { r.OutputTokens = proto.Int64(100_000_001) }), ingest.ReasonHugeCount},
		"huge attempt":            {request(func(r *telemetrypb.Request) { r.Attempt = math.MaxUint32 }), ingest.ReasonHugeCount},
		"unknown phase":           {request(func(r *telemetrypb.Request) { r.Phase = 5 }), ingest.ReasonBadEnum},
		"negative status":         {request(func(r *telemetrypb.Request) { r.Status = -1 }), ingest.ReasonBadEnum},
		"cached beyond prompt":    {request(func(r *telemetrypb.Request) { r.CachedTokens = proto.Int64(8) }), ingest.ReasonInconsistent},
		"ends before it begins":   {request(func(r *telemetrypb.Request) { r.FinishedAt = at.UnixNano() - 1 }), ingest.ReasonInconsistent},
		"replica without state":   {replica(func(r *telemetrypb.Replica) { r.State = 0 }), ingest.ReasonMissingField},
		"replica without name":    {replica(func(r *telemetrypb.Replica) { r.Replica = 0 }), ingest.ReasonMissingField},
		"ratio above 1":           {replica(func(r *telemetrypb.Replica) { r.KvUsedRatio = proto.Float64(1.5) }), ingest.ReasonOutOfRange},
		"infinite ratio":          {replica(func(r *telemetrypb.Replica) { r.KvUsedRatio = proto.Float64(math.Inf(-1)) }), ingest.ReasonOutOfRange},
		"infinite sum":            {&telemetrypb.Batch{Strings: []string{"", "p"}, Sums: []*telemetrypb.Sum{{Pool: 1, Start: at.UnixNano(), Requests: proto.Float64(math.Inf(1))}}}, ingest.ReasonHugeCount},
		"sum of nothing":          {&telemetrypb.Batch{Strings: []string{"", "p"}, Sums: []*telemetrypb.Sum{{Pool: 1, Start: at.UnixNano()}}}, ingest.ReasonMissingField},
		"ack without event":       {&telemetrypb.Batch{Strings: []string{"", "p"}, Acks: []*telemetrypb.Ack{{Pool: 1, At: at.UnixNano(), Stage: 1}}}, ingest.ReasonMissingField},
		"watermark of no time":    {&telemetrypb.Batch{Strings: []string{"", "p"}, Watermark: &telemetrypb.Watermark{Pool: 1}}, ingest.ReasonMissingField},
		"watermark of all time":   {&telemetrypb.Batch{Watermark: &telemetrypb.Watermark{At: at.UnixNano()}}, ingest.ReasonMissingField},
		"first string not empty":  {&telemetrypb.Batch{Strings: []string{"p"}, Requests: request(func(*telemetrypb.Request) {}).Requests}, ingest.ReasonInconsistent},
		"no record":               {&telemetrypb.Batch{Strings: []string{"", "p"}}, ingest.ReasonTruncated},
		"nothing":                 {&telemetrypb.Batch{}, ingest.ReasonTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(protobufMeta, marshal(t, tc.in))
			if n := len(got.Requests) + len(got.Sums) + len(got.Replicas) + len(got.Acks); n > 0 || got.Watermark != nil || len(got.Refused) != 1 || got.Refused[0].Reason != tc.want {
				t.Errorf("got %d records and %+v, want %s", n, got.Refused, tc.want)
			}
		})
	}
}

// TestDecodeProtobufWire feeds what no generated code writes.
func TestDecodeProtobufWire(t *testing.T) {
	sound := []byte(marshal(t, &telemetrypb.Batch{
		Strings: []string{"", "p"}, Requests: []*telemetrypb.Request{{Pool: 1, ArrivedAt: at.UnixNano(), PromptTokens: proto.Int64(7)}},
	}))
	record := func(fields ...byte) string {
		return string(sound) + string(protowire.AppendBytes([]byte{batchRequests<<3 | 2}, fields))
	}
	group := protowire.AppendTag(protowire.AppendTag(nil, 99, protowire.StartGroupType), 99, protowire.EndGroupType)
	for name, tc := range map[string]struct {
		data    string
		records int
		want    []ingest.Reason
	}{
		"sound":                            {string(sound), 1, nil},
		"unknown fields":                   {string(sound) + "\xf8\x3f\x01", 1, nil},
		"group":                            {string(sound) + string(group), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"strings after the records":        {string(sound[5:]) + string(sound[:5]), 1, nil},
		"requests that are a number":       {"\x10\x01" + string(sound), 1, []ingest.Reason{ingest.ReasonWrongType}},
		"JSON":                             {`{"pool":"p"}`, 0, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"field number 0":                   {string(sound) + "\x00\x01" + string(sound), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"end of no group":                  {string(sound) + "\x7c", 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"reserved wire type":               {string(sound) + "\x7f", 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"varint of 11 bytes":               {string(sound) + strings.Repeat("\xff", 11), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"length beyond the end":            {string(sound) + "\x12\x7f", 1, []ingest.Reason{ingest.ReasonTruncated}},
		"length beyond memory":             {string(sound) + "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, []ingest.Reason{ingest.ReasonTruncated}},
		"record cut in a field":            {record(7<<3|1, 1, 2, 3), 1, []ingest.Reason{ingest.ReasonTruncated}},
		"record with a broken varint":      {record(append([]byte{11 << 3}, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"...)...), 1, []ingest.Reason{ingest.ReasonNotProtobuf}},
		"record with the wrong wire type":  {record(1<<3, 1), 1, []ingest.Reason{ingest.ReasonWrongType}},
		"record with an id that is binary": {record(1<<3|2, 1, 0xff), 1, []ingest.Reason{ingest.ReasonInvalidUTF8}},
		"blocks of nine bytes":             {record(append([]byte{0xc2, 1, 9}, make([]byte, 9)...)...), 1, []ingest.Reason{ingest.ReasonWrongType}},
		"string that is binary":            {"\x0a\x00\x0a\x01\xff" + string(sound[5:]), 0, []ingest.Reason{ingest.ReasonInvalidUTF8}},
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

// TestDecodeProtobufCut cuts a batch at every byte: whole records stay, and one refusal stands for the rest.
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
		if want := !ends[n] || last == 0; (len(got.Refused) == 1) != want || len(got.Refused) == 1 && got.Refused[0].Reason != ingest.ReasonTruncated {
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

func TestDecodeProtobufAllocatesTheIDs(t *testing.T) {
	if raceDetector {
		t.Skip("allocations tell nothing under the race detector")
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

// typical is a batch as a gateway would publish it.
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
