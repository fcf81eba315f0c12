package codec

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/ingest"
)

// at is an instant in the traffic of the tests.
var at = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

const atMS = "1795240800000"

func decode(m Meta, data string) *ingest.Batch {
	var b ingest.Batch
	Decode(m, []byte(data), ingest.DefaultLimits(), &b)
	return &b
}

func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty())
}

func TestDecodeRequest(t *testing.T) {
	bare := ingest.Request{
		Pool: "p", Class: "c", Attempt: 1, ArrivedAt: at,
		PromptTokens: 7, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
	}
	with := func(change func(*ingest.Request)) ingest.Request {
		r := bare
		change(&r)
		return r
	}
	for name, tc := range map[string]struct {
		json string
		want ingest.Request
	}{
		"least":           {`{"prompt_tokens":7,"arrived_at":` + atMS + `}`, bare},
		"null is absent":  {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"cached_tokens":null,"pool":null}`, bare},
		"unknown ignored": {`{"prompt_tokens":7,"messages":[{"a":"b"}],"arrived_at":` + atMS + `}`, bare},
		"whole float":     {`{"prompt_tokens":7.0,"arrived_at":` + atMS + `}`, bare},
		"time as a float": {`{"prompt_tokens":7,"arrived_at":` + atMS + `.0}`, bare},
		"time with 1E+12": {`{"prompt_tokens":7,"arrived_at":1.7952408E+12}`, bare},
		"last key wins":   {`{"prompt_tokens":1,"prompt_tokens":7,"arrived_at":` + atMS + `}`, bare},
		"byte order mark": {"\ufeff" + `{"prompt_tokens":7,"arrived_at":` + atMS + `}`, bare},
		"white space":     {" \t\r\n{ \"prompt_tokens\" : 7 , \"arrived_at\" : " + atMS + " } \n", bare},
		"RFC 3339":        {`{"prompt_tokens":7,"arrived_at":"2026-11-21T07:00:00+01:00"}`, bare},
		"record names":    {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"pool":"q","class":"d"}`, with(func(r *ingest.Request) { r.Pool, r.Class = "q", "d" })},
		"escaped":         {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"\u0070ool":"\u00e9\ud83d\ude00"}`, with(func(r *ingest.Request) { r.Pool = "é😀" })},
		"half surrogate":  {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"id":"\ud83d","\ud83d":1}`, with(func(r *ingest.Request) { r.ID = "\ufffd" })},
		"zero is known":   {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"cached_tokens":0}`, with(func(r *ingest.Request) { r.CachedTokens = 0 })},
		"minus zero":      {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"cached_tokens":-0}`, with(func(r *ingest.Request) { r.CachedTokens = 0 })},
		"session":         {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"session":"s"}`, with(func(r *ingest.Request) { r.Session = ingest.HashSession("s") })},
		"session hash":    {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"session_hash":"fffffffffffffffe"}`, with(func(r *ingest.Request) { r.Session = math.MaxUint64 - 1 })},
		"status to phase": {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"status":"rejected"}`, with(func(r *ingest.Request) { r.Phase, r.Status = ingest.PhaseRejected, ingest.StatusRejected })},
		"phase to status": {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"phase":"cancelled"}`, with(func(r *ingest.Request) { r.Phase, r.Status = ingest.PhaseCancelled, ingest.StatusCancelled })},
		"cached of rejected": {`{"arrived_at":` + atMS + `,"status":"rejected","cached_tokens":0}`, with(func(r *ingest.Request) {
			r.Phase, r.Status, r.PromptTokens = ingest.PhaseRejected, ingest.StatusRejected, ingest.Unknown
		})},
		"prompt of rejected": {`{"arrived_at":` + atMS + `,"status":"rejected"}`, with(func(r *ingest.Request) {
			r.Phase, r.Status, r.PromptTokens = ingest.PhaseRejected, ingest.StatusRejected, ingest.Unknown
		})},
		"status error": {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"status":"error"}`, with(func(r *ingest.Request) { r.Status = ingest.StatusError })},
		"all": {
			`{"id":"i","pool":"p","class":"c","model":"m","tenant":"t","tier":"gold","feature":"f","route":"r","region":"eu","replica":"r0",` +
				`"phase":"finished","status":"ok","attempt":2,"arrived_at":` + atMS + `,"started_at":` + atMS + `,"first_token_at":` + atMS + `,` +
				`"finished_at":"2026-11-21T06:00:01.5Z","prompt_tokens":7,"cached_tokens":7,"output_tokens":3,"max_output_tokens":100}`,
			ingest.Request{
				ID: "i", Pool: "p", Class: "c", Model: "m", Tenant: "t", Tier: "gold", Feature: "f", Route: "r", Region: "eu", ReplicaName: "r0",
				Attempt: 2, ArrivedAt: at, StartedAt: at, FirstTokenAt: at, FinishedAt: at.Add(1500 * time.Millisecond),
				PromptTokens: 7, CachedTokens: 7, OutputTokens: 3, MaxOutputTokens: 100,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(Meta{Pool: "p", Class: "c"}, tc.json)
			if d := diff(&ingest.Batch{Requests: []ingest.Request{tc.want}}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodePoolRecords(t *testing.T) {
	for name, tc := range map[string]struct {
		meta Meta
		json string
		want ingest.Batch
	}{
		"replica, least": {
			Meta{Kind: KindReplica, Pool: "p", Replica: "r0"}, `{"at":` + atMS + `,"state":"loading"}`,
			ingest.Batch{Replicas: []ingest.Replica{{
				Pool: "p", Name: "r0", At: at, State: ingest.ReplicaLoading, KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: math.NaN(),
				Running: ingest.Unknown, Waiting: ingest.Unknown, PreemptionsTotal: ingest.Unknown, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
				StartupSeconds: math.NaN(),
			}}},
		},
		"replica, all": {
			Meta{Kind: KindReplica}, `{"pool":"p","replica":"r0","at":` + atMS + `,"state":"ready","kv_capacity_tokens":100,"kv_used_tokens":50,
				"kv_used_ratio":0.5,"running":3,"waiting":0,"preemptions_total":1,"prefix_hits_total":900000000000,"prefix_queries_total":1000000000000,"started_at":` + atMS + `,"startup_seconds":90.5}`,
			ingest.Batch{Replicas: []ingest.Replica{{
				Pool: "p", Name: "r0", At: at, State: ingest.ReplicaReady, KVCapacityTokens: 100, KVUsedTokens: 50, KVUsedRatio: 0.5,
				Running: 3, PreemptionsTotal: 1, PrefixHitsTotal: 9e11, PrefixQueryTotal: 1e12, StartedAt: at, StartupSeconds: 90.5,
			}}},
		},
		"ack": {
			Meta{Kind: KindAck, Pool: "p"}, `{"event_id":"e","generation":4,"stage":"ready","at":` + atMS + `,"replicas":2}`,
			ingest.Batch{Acks: []ingest.Ack{{Pool: "p", EventID: "e", Generation: 4, Stage: ingest.AckReady, At: at, Replicas: 2}}},
		},
		"watermark": {Meta{Kind: KindWatermark}, `{"at":` + atMS + `}`, ingest.Batch{Watermark: &ingest.Watermark{At: at}}},
		"watermark of a pool": {
			Meta{Kind: KindWatermark, Pool: "p"}, `{"at":` + atMS + `}`, ingest.Batch{Watermark: &ingest.Watermark{Pool: "p", At: at}},
		},
		"sum": {
			Meta{Pool: "p", Class: "c", ContentType: "Application/vnd.forewarm.sum+json; charset=utf-8"},
			`{"start":` + atMS + `,"requests":0.5,"prompt_tokens":300000000}`,
			ingest.Batch{Sums: []ingest.Sum{{Pool: "p", Class: "c", Start: at, Requests: 0.5, PromptTokens: 3e8, CachedTokens: math.NaN(), OutputTokens: math.NaN()}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := diff(&tc.want, decode(tc.meta, tc.json)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	request := func(fields string) string { return `{"pool":"p","prompt_tokens":7,"arrived_at":` + atMS + fields + `}` }
	for name, tc := range map[string]struct {
		meta Meta
		data string
		want ingest.Reason
	}{
		"not JSON":                  {Meta{}, "hello", ingest.ReasonNotJSON},
		"two records in one":        {Meta{}, request("") + request(""), ingest.ReasonNotJSON},
		"unquoted key":              {Meta{}, `{pool:"p"}`, ingest.ReasonNotJSON},
		"trailing comma":            {Meta{}, request(","), ingest.ReasonNotJSON},
		"raw control character":     {Meta{}, request(",\"id\":\"a\nb\""), ingest.ReasonNotJSON},
		"empty":                     {Meta{}, "", ingest.ReasonEmpty},
		"truncated":                 {Meta{}, request("")[:30], ingest.ReasonTruncated},
		"array":                     {Meta{}, "[" + request("") + "]", ingest.ReasonWrongType},
		"bare number":               {Meta{}, "7", ingest.ReasonWrongType},
		"string for a number":       {Meta{}, request(`,"output_tokens":"5"`), ingest.ReasonWrongType},
		"number for a string":       {Meta{}, request(`,"class":5`), ingest.ReasonWrongType},
		"number for a session":      {Meta{}, request(`,"session":5`), ingest.ReasonWrongType},
		"bad session hash":          {Meta{}, request(`,"session_hash":"5"`), ingest.ReasonWrongType},
		"object for a number":       {Meta{}, request(`,"output_tokens":{}`), ingest.ReasonWrongType},
		"boolean for a time":        {Meta{}, request(`,"finished_at":true`), ingest.ReasonWrongType},
		"fraction":                  {Meta{}, request(`,"output_tokens":1.5`), ingest.ReasonWrongType},
		"negative":                  {Meta{}, request(`,"output_tokens":-1`), ingest.ReasonNegativeCount},
		"negative beyond int64":     {Meta{}, request(`,"output_tokens":-1e400`), ingest.ReasonNegativeCount},
		"huge":                      {Meta{}, request(`,"output_tokens":100000001`), ingest.ReasonHugeCount},
		"huge beyond int64":         {Meta{}, request(`,"output_tokens":99999999999999999999`), ingest.ReasonHugeCount},
		"huge beyond float64":       {Meta{}, request(`,"output_tokens":1e999`), ingest.ReasonHugeCount},
		"message too large":         {Meta{}, strings.Repeat(" ", 10<<20), ingest.ReasonTooLarge},
		"deep nesting":              {Meta{}, request(`,"x":` + strings.Repeat("[", 5000)), ingest.ReasonTooDeep},
		"one level too deep":        {Meta{}, request(`,"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32)), ingest.ReasonTooDeep},
		"invalid UTF-8":             {Meta{}, request(",\"id\":\"\xff\""), ingest.ReasonInvalidUTF8},
		"invalid UTF-8, ignored":    {Meta{}, request(",\"x\":\"\xc0\x80\""), ingest.ReasonInvalidUTF8},
		"before 2000":               {Meta{}, request(`,"finished_at":"1999-12-31T23:59:59Z"`), ingest.ReasonBadTime},
		"seconds for milliseconds":  {Meta{}, request(`,"finished_at":1795240800`), ingest.ReasonBadTime},
		"after 2199":                {Meta{}, request(`,"finished_at":"2200-01-01T00:00:00Z"`), ingest.ReasonBadTime},
		"nanoseconds":               {Meta{}, request(`,"finished_at":1795240800000000000`), ingest.ReasonBadTime},
		"30 February":               {Meta{}, request(`,"finished_at":"2026-02-30T00:00:00Z"`), ingest.ReasonBadTime},
		"no zone":                   {Meta{}, request(`,"finished_at":"2026-11-21T06:00:00"`), ingest.ReasonBadTime},
		"year too large":            {Meta{}, request(`,"finished_at":1e300`), ingest.ReasonBadTime},
		"year too small":            {Meta{}, request(`,"finished_at":-1e300`), ingest.ReasonBadTime},
		"fraction of a millisecond": {Meta{}, request(`,"finished_at":1795240800000.5`), ingest.ReasonBadTime},
		"unknown phase":             {Meta{}, request(`,"phase":"began"`), ingest.ReasonBadEnum},
		"unknown status":            {Meta{}, request(`,"status":"OK"`), ingest.ReasonBadEnum},
		"attempt 0":                 {Meta{}, request(`,"attempt":0`), ingest.ReasonOutOfRange},
		"long label":                {Meta{}, request(`,"tenant":"` + strings.Repeat("x", 257) + `"`), ingest.ReasonLabelTooLong},
		"long id":                   {Meta{}, request(`,"id":"` + strings.Repeat("x", 257) + `"`), ingest.ReasonLabelTooLong},
		"control character":         {Meta{}, request(`,"tenant":"a\nb"`), ingest.ReasonBadLabel},
		"C1 control character":      {Meta{}, request(`,"tenant":"a\u0085b"`), ingest.ReasonBadLabel},
		"no pool":                   {Meta{}, `{"prompt_tokens":7,"arrived_at":` + atMS + `}`, ingest.ReasonMissingField},
		"no prompt":                 {Meta{}, `{"pool":"p","arrived_at":` + atMS + `}`, ingest.ReasonMissingField},
		"no time":                   {Meta{}, `{"pool":"p","prompt_tokens":7}`, ingest.ReasonMissingField},
		"more cached than prompt":   {Meta{}, request(`,"cached_tokens":8`), ingest.ReasonInconsistent},
		"ends before it arrives":    {Meta{}, request(`,"finished_at":1795240799999`), ingest.ReasonInconsistent},
		"ends before it starts":     {Meta{}, request(`,"started_at":1795240800002,"finished_at":1795240800001`), ingest.ReasonInconsistent},

		"content type":      {Meta{ContentType: "application/msgpack"}, request(""), ingest.ReasonUnknownFormat},
		"sum elsewhere":     {Meta{Kind: KindReplica, ContentType: ContentTypeSum}, `{}`, ingest.ReasonUnknownFormat},
		"long pool":         {Meta{Pool: strings.Repeat("x", 257)}, request(""), ingest.ReasonLabelTooLong},
		"control in pool":   {Meta{Pool: "a\tb"}, request(""), ingest.ReasonBadLabel},
		"pool not UTF-8":    {Meta{Pool: "\xff"}, request(""), ingest.ReasonInvalidUTF8},
		"empty batch":       {Meta{ContentType: ContentTypeNDJSON}, " \n\r\n", ingest.ReasonEmpty},
		"sum of nothing":    {Meta{ContentType: ContentTypeSum}, `{"pool":"p","start":` + atMS + `}`, ingest.ReasonMissingField},
		"sum of cached":     {Meta{ContentType: ContentTypeSum}, `{"pool":"p","start":` + atMS + `,"cached_tokens":1}`, ingest.ReasonMissingField},
		"sum without start": {Meta{ContentType: ContentTypeSum}, `{"pool":"p","requests":1}`, ingest.ReasonMissingField},
		"sum, huge":         {Meta{ContentType: ContentTypeSum}, `{"pool":"p","start":` + atMS + `,"requests":1e13}`, ingest.ReasonHugeCount},
		"sum, cached":       {Meta{ContentType: ContentTypeSum}, `{"pool":"p","start":` + atMS + `,"prompt_tokens":1,"cached_tokens":2}`, ingest.ReasonInconsistent},
		"replica, no name":  {Meta{Kind: KindReplica, Pool: "p"}, `{"at":` + atMS + `,"state":"ready"}`, ingest.ReasonMissingField},
		"replica, no time":  {Meta{Kind: KindReplica, Pool: "p", Replica: "r"}, `{"state":"ready"}`, ingest.ReasonMissingField},
		"replica, no state": {Meta{Kind: KindReplica, Pool: "p", Replica: "r"}, `{"at":` + atMS + `}`, ingest.ReasonMissingField},
		"replica, over-full": {
			Meta{Kind: KindReplica, Pool: "p", Replica: "r"},
			`{"at":` + atMS + `,"state":"ready","kv_capacity_tokens":1000,"kv_used_tokens":5000}`, ingest.ReasonInconsistent,
		},
		"replica, ratio": {Meta{Kind: KindReplica}, `{"kv_used_ratio":1.5}`, ingest.ReasonOutOfRange},
		"replica, ratio as percent sign": {
			Meta{Kind: KindReplica}, `{"kv_used_ratio":"50%"}`, ingest.ReasonWrongType,
		},
		"ack, no event":       {Meta{Kind: KindAck, Pool: "p"}, `{"stage":"ready","at":` + atMS + `}`, ingest.ReasonMissingField},
		"ack, no stage":       {Meta{Kind: KindAck, Pool: "p"}, `{"event_id":"e","at":` + atMS + `}`, ingest.ReasonMissingField},
		"ack, no time":        {Meta{Kind: KindAck, Pool: "p"}, `{"event_id":"e","stage":"ready"}`, ingest.ReasonMissingField},
		"watermark, no time":  {Meta{Kind: KindWatermark}, `{}`, ingest.ReasonMissingField},
		"watermark, bad time": {Meta{Kind: KindWatermark}, `{"at":"soon"}`, ingest.ReasonBadTime},
	} {
		t.Run(name, func(t *testing.T) {
			b := decode(tc.meta, tc.data)
			if len(b.Refused) != 1 || b.Refused[0].Reason != tc.want || b.Refused[0].Detail == "" {
				t.Fatalf("refused %+v, want one %s", b.Refused, tc.want)
			}
			if len(b.Requests)+len(b.Sums)+len(b.Replicas)+len(b.Acks) > 0 || b.Watermark != nil {
				t.Errorf("accepted a part: %+v", b)
			}
			if n := len(b.Refused[0].Detail); n > 400 {
				t.Errorf("detail of %d bytes", n)
			}
		})
	}
}

func TestDecodeBatch(t *testing.T) {
	line := func(i int) string {
		return fmt.Sprintf(`{"id":"%d","pool":"p","prompt_tokens":%d,"arrived_at":%s}`, i, i, atMS)
	}
	small := ingest.DefaultLimits()
	small.BatchRecords = 2
	for name, tc := range map[string]struct {
		limits   ingest.Limits
		data     string
		accepted []string
		refused  []ingest.Reason
	}{
		"whole":             {ingest.DefaultLimits(), line(1) + "\n" + line(2) + "\n", []string{"1", "2"}, nil},
		"no newline at end": {ingest.DefaultLimits(), line(1) + "\r\n\n" + line(2), []string{"1", "2"}, nil},
		"bad line":          {ingest.DefaultLimits(), line(1) + "\n{\"pool\":}\n" + line(3), []string{"1", "3"}, []ingest.Reason{ingest.ReasonNotJSON}},
		"two bad lines":     {ingest.DefaultLimits(), "x\n" + line(2) + "\n[]\n", []string{"2"}, []ingest.Reason{ingest.ReasonNotJSON, ingest.ReasonWrongType}},
		"cut at the end":    {ingest.DefaultLimits(), line(1) + "\n" + line(2)[:20], []string{"1"}, []ingest.Reason{ingest.ReasonTruncated}},
		"at the limit":      {small, line(1) + "\n" + line(2) + "\n\n", []string{"1", "2"}, nil},
		"beyond the limit":  {small, line(1) + "\n" + line(2) + "\n" + line(3) + "\n" + line(4), []string{"1", "2"}, []ingest.Reason{ingest.ReasonBatchTooLong}},
		"bad, beyond it":    {small, "x\n\n" + line(2) + "\ny\nz", []string{"2"}, []ingest.Reason{ingest.ReasonNotJSON, ingest.ReasonBatchTooLong}},
	} {
		t.Run(name, func(t *testing.T) {
			var b ingest.Batch
			Decode(Meta{ContentType: ContentTypeNDJSON}, []byte(tc.data), tc.limits, &b)
			var ids []string
			for _, r := range b.Requests {
				ids = append(ids, r.ID)
			}
			var reasons []ingest.Reason
			for _, r := range b.Refused {
				reasons = append(reasons, r.Reason)
				if r.Reason == ingest.ReasonBatchTooLong && r.Detail != "2 records beyond the limit of 2" {
					t.Errorf("detail %q", r.Detail)
				}
			}
			if d := diff(tc.accepted, ids) + diff(tc.refused, reasons); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeSamples(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*")
	if err != nil || len(paths) == 0 {
		t.Fatal("no samples", err)
	}
	kinds := map[string]Kind{"replica.json": KindReplica, "ack.json": KindAck, "watermark.json": KindWatermark}
	for _, path := range paths {
		data := must(os.ReadFile(path))
		format, name := filepath.Base(filepath.Dir(path)), filepath.Base(path)
		m := Meta{Kind: kinds[name]}
		if m.ContentType, _ = ContentTypeOf(format); format == "sum" {
			m.ContentType = ContentTypeSumNDJSON
		}
		if format == "dynamo" || format == "sglang" {
			m.Pool = "p" // records of these formats have no pool
		}
		if format == EncodingGzip {
			m.ContentType, m.Encoding = ContentTypeNDJSON, format
		}
		b := decode(m, string(data))
		if bad := strings.HasPrefix(name, "bad_"); bad != (len(b.Refused) > 0) {
			t.Errorf("%s: refused %+v", path, b.Refused)
		}
	}
}

func TestDecodeOneWatermarkPerMessage(t *testing.T) {
	b := decode(Meta{Kind: KindWatermark, ContentType: ContentTypeNDJSON}, `{"at":`+atMS+"}\n"+`{"at":`+atMS+`,"pool":"q"}`)
	if b.Watermark == nil || b.Watermark.Pool != "" || len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonBatchTooLong {
		t.Errorf("got %+v", b)
	}
}

// TestDecodeCopiesInput: decoded records do not change when the buffer of the message is overwritten.
func TestDecodeCopiesInput(t *testing.T) {
	data := []byte(`{"id":"id-1","pool":"pool-1","prompt_tokens":7,"arrived_at":` + atMS + "}\n{\"id\":\"broken\",x")
	var b ingest.Batch
	Decode(Meta{ContentType: ContentTypeNDJSON}, data, ingest.DefaultLimits(), &b)
	for i := range data {
		data[i] = '#'
	}
	if r := b.Requests[0]; r.ID != "id-1" || r.Pool != "pool-1" || len(b.Refused) != 1 {
		t.Errorf("records changed with the buffer: %+v", b)
	}
}

// TestDecodeJSONAllocatesTheIDs: decoding allocates only the id of each record.
func TestDecodeJSONAllocatesTheIDs(t *testing.T) {
	if raceDetector {
		t.Skip("the number of allocations is different under the race detector")
	}
	millis, dates := jsonRecords(typical(10).Requests)
	escaped := []byte(`{"id":"a\u00e9\" b","pool":"p\/q","session":"one \"conversation\" of many","prompt_tokens":7,"arrived_at":` + atMS + `}`)
	for _, record := range [][]byte{millis[0], dates[0], escaped, bytes.Join(millis, []byte("\n"))} {
		var b ingest.Batch
		if n := testing.AllocsPerRun(200, func() {
			b.Reset()
			Decode(Meta{ContentType: ContentTypeNDJSON}, record, ingest.DefaultLimits(), &b)
		}); n > float64(len(b.Requests)) || len(b.Refused) > 0 {
			t.Errorf("%g allocations for %d requests and refusals %+v", n, len(b.Requests), b.Refused)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
