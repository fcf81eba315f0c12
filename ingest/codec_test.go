package ingest

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
)

// at is an instant in the traffic of the tests.
var at = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

const atMS = "1795240800000"

func decode(m Meta, data string) *Batch {
	var b Batch
	Decode(m, []byte(data), DefaultLimits(), &b)
	return &b
}

func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Batch{}))
}

func TestDecodeRequest(t *testing.T) {
	bare := Request{
		Pool: "p", Class: "c", Attempt: 1, ArrivedAt: at,
		PromptTokens: 7, CachedTokens: Unknown, OutputTokens: Unknown, MaxOutputTokens: Unknown,
	}
	with := func(change func(*Request)) Request {
		r := bare
		change(&r)
		return r
	}
	for name, tc := range map[string]struct {
		json string
		want Request
	}{
		"least":           {`{"prompt_tokens":7,"arrived_at":` + atMS + `}`, bare},
		"null is absent":  {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"cached_tokens":null,"pool":null}`, bare},
		"unknown ignored": {`{"prompt_tokens":7,"messages":[{"a":"b"}],"arrived_at":` + atMS + `}`, bare},
		"whole float":     {`{"prompt_tokens":7.0,"arrived_at":` + atMS + `}`, bare},
		"time as a float": {`{"prompt_tokens":7,"arrived_at":` + atMS + `.0}`, bare},
		"time by 10^12":   {`{"prompt_tokens":7,"arrived_at":1.7952408E+12}`, bare},
		"last key wins":   {`{"prompt_tokens":1,"prompt_tokens":7,"arrived_at":` + atMS + `}`, bare},
		"byte order mark": {"\ufeff" + `{"prompt_tokens":7,"arrived_at":` + atMS + `}`, bare},
		"white space":     {" \t\r\n{ \"prompt_tokens\" : 7 , \"arrived_at\" : " + atMS + " } \n", bare},
		"RFC 3339":        {`{"prompt_tokens":7,"arrived_at":"2026-11-21T07:00:00+01:00"}`, bare},
		"record names":    {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"pool":"q","class":"d"}`, with(func(r *Request) { r.Pool, r.Class = "q", "d" })},
		"escaped":         {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"\u0070ool":"\u00e9\ud83d\ude00"}`, with(func(r *Request) { r.Pool = "é😀" })},
		"half a pair":     {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"id":"\ud83d","\ud83d":1}`, with(func(r *Request) { r.ID = "\ufffd" })},
		"zero is known":   {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"cached_tokens":0}`, with(func(r *Request) { r.CachedTokens = 0 })},
		"minus zero":      {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"cached_tokens":-0}`, with(func(r *Request) { r.CachedTokens = 0 })},
		"session":         {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"session":"s"}`, with(func(r *Request) { r.Session = HashSession("s") })},
		"session hash":    {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"session_hash":"fffffffffffffffe"}`, with(func(r *Request) { r.Session = math.MaxUint64 - 1 })},
		"status to phase": {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"status":"rejected"}`, with(func(r *Request) { r.Phase, r.Status = PhaseRejected, StatusRejected })},
		"phase to status": {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"phase":"cancelled"}`, with(func(r *Request) { r.Phase, r.Status = PhaseCancelled, StatusCancelled })},
		"prompt of one turned away": {`{"arrived_at":` + atMS + `,"status":"rejected"}`, with(func(r *Request) {
			r.Phase, r.Status, r.PromptTokens = PhaseRejected, StatusRejected, Unknown
		})},
		"error is the end": {`{"prompt_tokens":7,"arrived_at":` + atMS + `,"status":"error"}`, with(func(r *Request) { r.Status = StatusError })},
		"all": {
			`{"id":"i","pool":"p","class":"c","model":"m","tenant":"t","tier":"gold","feature":"f","route":"r","region":"eu","replica":"r0",` +
				`"phase":"finished","status":"ok","attempt":2,"arrived_at":` + atMS + `,"started_at":` + atMS + `,"first_token_at":` + atMS + `,` +
				`"finished_at":"2026-11-21T06:00:01.5Z","prompt_tokens":7,"cached_tokens":7,"output_tokens":3,"max_output_tokens":100}`,
			Request{
				ID: "i", Pool: "p", Class: "c", Model: "m", Tenant: "t", Tier: "gold", Feature: "f", Route: "r", Region: "eu", ReplicaName: "r0",
				Attempt: 2, ArrivedAt: at, StartedAt: at, FirstTokenAt: at, FinishedAt: at.Add(1500 * time.Millisecond),
				PromptTokens: 7, CachedTokens: 7, OutputTokens: 3, MaxOutputTokens: 100,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(Meta{Pool: "p", Class: "c"}, tc.json)
			if d := diff(&Batch{Requests: []Request{tc.want}}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodePoolRecords(t *testing.T) {
	for name, tc := range map[string]struct {
		meta Meta
		json string
		want Batch
	}{
		"replica, least": {
			Meta{Kind: KindReplica, Pool: "p", Replica: "r0"}, `{"at":` + atMS + `,"state":"loading"}`,
			Batch{Replicas: []Replica{{
				Pool: "p", Name: "r0", At: at, State: ReplicaLoading, KVCapacityTokens: Unknown, KVUsedTokens: Unknown, KVUsedRatio: math.NaN(),
				Running: Unknown, Waiting: Unknown, PreemptionsTotal: Unknown, PrefixHitsTotal: Unknown, PrefixQueryTotal: Unknown,
				StartupSeconds: math.NaN(),
			}}},
		},
		"replica, all": {
			Meta{Kind: KindReplica}, `{"pool":"p","replica":"r0","at":` + atMS + `,"state":"ready","kv_capacity_tokens":100,"kv_used_tokens":50,
				"kv_used_ratio":0.5,"running":3,"waiting":0,"preemptions_total":1,"prefix_hits_total":900000000000,"prefix_queries_total":1000000000000,"started_at":` + atMS + `,"startup_seconds":90.5}`,
			Batch{Replicas: []Replica{{
				Pool: "p", Name: "r0", At: at, State: ReplicaReady, KVCapacityTokens: 100, KVUsedTokens: 50, KVUsedRatio: 0.5,
				Running: 3, PreemptionsTotal: 1, PrefixHitsTotal: 9e11, PrefixQueryTotal: 1e12, StartedAt: at, StartupSeconds: 90.5,
			}}},
		},
		"ack": {
			Meta{Kind: KindAck, Pool: "p"}, `{"event_id":"e","generation":4,"stage":"ready","at":` + atMS + `,"replicas":2}`,
			Batch{Acks: []Ack{{Pool: "p", EventID: "e", Generation: 4, Stage: AckReady, At: at, Replicas: 2}}},
		},
		"watermark": {Meta{Kind: KindWatermark}, `{"at":` + atMS + `}`, Batch{Watermark: &Watermark{At: at}}},
		"watermark of a pool": {
			Meta{Kind: KindWatermark, Pool: "p"}, `{"at":` + atMS + `}`, Batch{Watermark: &Watermark{Pool: "p", At: at}},
		},
		"sum": {
			Meta{Pool: "p", Class: "c", ContentType: "Application/vnd.forewarm.sum+json; charset=utf-8"},
			`{"start":` + atMS + `,"requests":0.5,"prompt_tokens":300000000}`,
			Batch{Sums: []Sum{{Pool: "p", Class: "c", Start: at, Requests: 0.5, PromptTokens: 3e8, CachedTokens: math.NaN(), OutputTokens: math.NaN()}}},
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
		want Reason
	}{
		"not JSON":                  {Meta{}, "hello", ReasonNotJSON},
		"two records in one":        {Meta{}, request("") + request(""), ReasonNotJSON},
		"unquoted key":              {Meta{}, `{pool:"p"}`, ReasonNotJSON},
		"trailing comma":            {Meta{}, request(","), ReasonNotJSON},
		"raw control character":     {Meta{}, request(",\"id\":\"a\nb\""), ReasonNotJSON},
		"empty":                     {Meta{}, "", ReasonTruncated},
		"truncated":                 {Meta{}, request("")[:30], ReasonTruncated},
		"array":                     {Meta{}, "[" + request("") + "]", ReasonWrongType},
		"bare number":               {Meta{}, "7", ReasonWrongType},
		"string for a number":       {Meta{}, request(`,"output_tokens":"5"`), ReasonWrongType},
		"number for a string":       {Meta{}, request(`,"class":5`), ReasonWrongType},
		"number for a session":      {Meta{}, request(`,"session":5`), ReasonWrongType},
		"bad session hash":          {Meta{}, request(`,"session_hash":"5"`), ReasonWrongType},
		"object for a number":       {Meta{}, request(`,"output_tokens":{}`), ReasonWrongType},
		"boolean for a time":        {Meta{}, request(`,"finished_at":true`), ReasonWrongType},
		"fraction":                  {Meta{}, request(`,"output_tokens":1.5`), ReasonWrongType},
		"negative":                  {Meta{}, request(`,"output_tokens":-1`), ReasonNegativeCount},
		"negative beyond int64":     {Meta{}, request(`,"output_tokens":-1e400`), ReasonNegativeCount},
		"huge":                      {Meta{}, request(`,"output_tokens":100000001`), ReasonHugeCount},
		"huge beyond int64":         {Meta{}, request(`,"output_tokens":99999999999999999999`), ReasonHugeCount},
		"huge beyond float64":       {Meta{}, request(`,"output_tokens":1e999`), ReasonHugeCount},
		"message too large":         {Meta{}, strings.Repeat(" ", 10<<20), ReasonTooLarge},
		"deep nesting":              {Meta{}, request(`,"x":` + strings.Repeat("[", 5000)), ReasonTooDeep},
		"one level too deep":        {Meta{}, request(`,"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32)), ReasonTooDeep},
		"invalid UTF-8":             {Meta{}, request(",\"id\":\"\xff\""), ReasonInvalidUTF8},
		"invalid UTF-8, ignored":    {Meta{}, request(",\"x\":\"\xc0\x80\""), ReasonInvalidUTF8},
		"before 2000":               {Meta{}, request(`,"finished_at":"1999-12-31T23:59:59Z"`), ReasonBadTime},
		"seconds for milliseconds":  {Meta{}, request(`,"finished_at":1795240800`), ReasonBadTime},
		"after 2199":                {Meta{}, request(`,"finished_at":"2200-01-01T00:00:00Z"`), ReasonBadTime},
		"nanoseconds":               {Meta{}, request(`,"finished_at":1795240800000000000`), ReasonBadTime},
		"no calendar day":           {Meta{}, request(`,"finished_at":"2026-02-30T00:00:00Z"`), ReasonBadTime},
		"no zone":                   {Meta{}, request(`,"finished_at":"2026-11-21T06:00:00"`), ReasonBadTime},
		"beyond any year":           {Meta{}, request(`,"finished_at":1e300`), ReasonBadTime},
		"before any year":           {Meta{}, request(`,"finished_at":-1e300`), ReasonBadTime},
		"fraction of a millisecond": {Meta{}, request(`,"finished_at":1795240800000.5`), ReasonBadTime},
		"unknown phase":             {Meta{}, request(`,"phase":"began"`), ReasonBadEnum},
		"unknown status":            {Meta{}, request(`,"status":"OK"`), ReasonBadEnum},
		"attempt 0":                 {Meta{}, request(`,"attempt":0`), ReasonOutOfRange},
		"long label":                {Meta{}, request(`,"tenant":"` + strings.Repeat("x", 257) + `"`), ReasonLabelTooLong},
		"long id":                   {Meta{}, request(`,"id":"` + strings.Repeat("x", 257) + `"`), ReasonLabelTooLong},
		"control character":         {Meta{}, request(`,"tenant":"a\nb"`), ReasonBadLabel},
		"C1 control character":      {Meta{}, request(`,"tenant":"a\u0085b"`), ReasonBadLabel},
		"no pool":                   {Meta{}, `{"prompt_tokens":7,"arrived_at":` + atMS + `}`, ReasonMissingField},
		"no prompt":                 {Meta{}, `{"pool":"p","arrived_at":` + atMS + `}`, ReasonMissingField},
		"no time":                   {Meta{}, `{"pool":"p","prompt_tokens":7}`, ReasonMissingField},
		"more cached than prompt":   {Meta{}, request(`,"cached_tokens":8`), ReasonInconsistent},
		"ends before it arrives":    {Meta{}, request(`,"finished_at":1795240799999`), ReasonInconsistent},
		"ends before it starts":     {Meta{}, request(`,"started_at":1795240800002,"finished_at":1795240800001`), ReasonInconsistent},

		"content type":      {Meta{ContentType: "application/msgpack"}, request(""), ReasonUnknownFormat},
		"sum elsewhere":     {Meta{Kind: KindReplica, ContentType: ContentTypeSum}, `{}`, ReasonUnknownFormat},
		"long pool":         {Meta{Pool: strings.Repeat("x", 257)}, request(""), ReasonLabelTooLong},
		"control in pool":   {Meta{Pool: "a\tb"}, request(""), ReasonBadLabel},
		"pool not UTF-8":    {Meta{Pool: "\xff"}, request(""), ReasonInvalidUTF8},
		"empty batch":       {Meta{ContentType: ContentTypeNDJSON}, " \n\r\n", ReasonTruncated},
		"sum of nothing":    {Meta{ContentType: ContentTypeSum}, `{"pool":"p","start":` + atMS + `}`, ReasonMissingField},
		"sum without start": {Meta{ContentType: ContentTypeSum}, `{"pool":"p","requests":1}`, ReasonMissingField},
		"sum, huge":         {Meta{ContentType: ContentTypeSum}, `{"pool":"p","start":` + atMS + `,"requests":1e13}`, ReasonHugeCount},
		"sum, cached":       {Meta{ContentType: ContentTypeSum}, `{"pool":"p","start":` + atMS + `,"prompt_tokens":1,"cached_tokens":2}`, ReasonInconsistent},
		"replica, no name":  {Meta{Kind: KindReplica, Pool: "p"}, `{"at":` + atMS + `,"state":"ready"}`, ReasonMissingField},
		"replica, no time":  {Meta{Kind: KindReplica, Pool: "p", Replica: "r"}, `{"state":"ready"}`, ReasonMissingField},
		"replica, no state": {Meta{Kind: KindReplica, Pool: "p", Replica: "r"}, `{"at":` + atMS + `}`, ReasonMissingField},
		"replica, ratio":    {Meta{Kind: KindReplica}, `{"kv_used_ratio":1.5}`, ReasonOutOfRange},
		"replica, ratio as percent sign": {
			Meta{Kind: KindReplica}, `{"kv_used_ratio":"50%"}`, ReasonWrongType,
		},
		"history, no class":     {Meta{Kind: KindHistory, Pool: "p"}, `{"dimension":"kv","start":` + atMS + `,"values":[1]}`, ReasonMissingField},
		"history, no dimension": {Meta{Kind: KindHistory, Pool: "p", Class: "*"}, `{"start":` + atMS + `,"values":[1]}`, ReasonMissingField},
		"history, no start":     {Meta{Kind: KindHistory, Pool: "p", Class: "*"}, `{"dimension":"kv","values":[1]}`, ReasonMissingField},
		"history, no values":    {Meta{Kind: KindHistory, Pool: "p", Class: "*"}, `{"dimension":"kv","start":` + atMS + `,"values":[]}`, ReasonMissingField},
		"history of text":       {Meta{Kind: KindHistory, Pool: "p", Class: "*"}, `{"dimension":"kv","start":` + atMS + `,"values":[1,"2"]}`, ReasonWrongType},
		"history, no array":     {Meta{Kind: KindHistory, Pool: "p", Class: "*"}, `{"dimension":"kv","start":` + atMS + `,"values":{}}`, ReasonWrongType},
		"history below zero":    {Meta{Kind: KindHistory, Pool: "p", Class: "*"}, `{"dimension":"kv","start":` + atMS + `,"values":[-1]}`, ReasonNegativeCount},
		"history too long":      {Meta{Kind: KindHistory, Pool: "p", Class: "*"}, `{"dimension":"kv","start":` + atMS + `,"values":[0` + strings.Repeat(",0", MaxHistoryMinutes) + `]}`, ReasonBatchTooLong},
		"ack, no event":         {Meta{Kind: KindAck, Pool: "p"}, `{"stage":"ready","at":` + atMS + `}`, ReasonMissingField},
		"ack, no stage":         {Meta{Kind: KindAck, Pool: "p"}, `{"event_id":"e","at":` + atMS + `}`, ReasonMissingField},
		"ack, no time":          {Meta{Kind: KindAck, Pool: "p"}, `{"event_id":"e","stage":"ready"}`, ReasonMissingField},
		"watermark, no time":    {Meta{Kind: KindWatermark}, `{}`, ReasonMissingField},
		"watermark of nonsense": {Meta{Kind: KindWatermark}, `{"at":"soon"}`, ReasonBadTime},
	} {
		t.Run(name, func(t *testing.T) {
			b := decode(tc.meta, tc.data)
			if len(b.Refused) != 1 || b.Refused[0].Reason != tc.want || b.Refused[0].Detail == "" {
				t.Fatalf("refused %+v, want one %s", b.Refused, tc.want)
			}
			if len(b.Requests)+len(b.Sums)+len(b.Replicas)+len(b.Acks) > 0 || b.Watermark != nil {
				t.Errorf("accepted something of it: %+v", b)
			}
			r := b.Refused[0]
			if limit := DefaultLimits().RefusedBytes; len(r.Record) > limit {
				t.Errorf("kept %d bytes, the limit is %d", len(r.Record), limit)
			}
			if len(r.Detail) > 400 {
				t.Errorf("detail of %d bytes", len(r.Detail))
			}
		})
	}
}

func TestDecodeBatch(t *testing.T) {
	line := func(i int) string {
		return fmt.Sprintf(`{"id":"%d","pool":"p","prompt_tokens":%d,"arrived_at":%s}`, i, i, atMS)
	}
	small := DefaultLimits()
	small.BatchRecords = 2
	for name, tc := range map[string]struct {
		limits   Limits
		data     string
		accepted []string
		refused  []Reason
	}{
		"whole":             {DefaultLimits(), line(1) + "\n" + line(2) + "\n", []string{"1", "2"}, nil},
		"no newline at end": {DefaultLimits(), line(1) + "\r\n\n" + line(2), []string{"1", "2"}, nil},
		"bad line":          {DefaultLimits(), line(1) + "\n{\"pool\":}\n" + line(3), []string{"1", "3"}, []Reason{ReasonNotJSON}},
		"two bad lines":     {DefaultLimits(), "x\n" + line(2) + "\n[]\n", []string{"2"}, []Reason{ReasonNotJSON, ReasonWrongType}},
		"cut at the end":    {DefaultLimits(), line(1) + "\n" + line(2)[:20], []string{"1"}, []Reason{ReasonTruncated}},
		"at the limit":      {small, line(1) + "\n" + line(2) + "\n\n", []string{"1", "2"}, nil},
		"beyond the limit":  {small, line(1) + "\n" + line(2) + "\n" + line(3) + "\n" + line(4), []string{"1", "2"}, []Reason{ReasonBatchTooLong}},
	} {
		t.Run(name, func(t *testing.T) {
			var b Batch
			Decode(Meta{ContentType: ContentTypeNDJSON}, []byte(tc.data), tc.limits, &b)
			var ids []string
			for _, r := range b.Requests {
				ids = append(ids, r.ID)
			}
			var reasons []Reason
			for _, r := range b.Refused {
				reasons = append(reasons, r.Reason)
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
	kinds := map[string]Kind{"replica.json": KindReplica, "ack.json": KindAck, "watermark.json": KindWatermark, "history.json": KindHistory}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		format, name := filepath.Base(filepath.Dir(path)), filepath.Base(path)
		m := Meta{Kind: kinds[name]}
		if m.ContentType, _ = ContentTypeOf(format); format == "sum" {
			m.ContentType = ContentTypeSumNDJSON
		}
		if format == "dynamo" || format == "sglang" {
			m.Pool = "p" // its producers know none
		}
		if format == EncodingGzip || format == EncodingZstd {
			m.ContentType, m.Encoding = ContentTypeNDJSON, format
		}
		b := decode(m, string(data))
		if bad := strings.HasPrefix(name, "bad_"); bad != (len(b.Refused) > 0) {
			t.Errorf("%s: refused %+v", path, b.Refused)
		}
	}
}

func TestDecodeCountsWhatABatchIsTooLongBy(t *testing.T) {
	limits := DefaultLimits()
	limits.BatchRecords = 1
	var b Batch
	Decode(Meta{ContentType: ContentTypeNDJSON}, []byte("x\n\ny\nz"), limits, &b)
	if want := "2 records beyond the limit of 1"; len(b.Refused) != 2 || b.Refused[1].Detail != want {
		t.Errorf("refused %+v, want a second one that says %q", b.Refused, want)
	}
}

func TestDecodeTakesOneWatermarkAMessage(t *testing.T) {
	b := decode(Meta{Kind: KindWatermark, ContentType: ContentTypeNDJSON}, `{"at":`+atMS+"}\n"+`{"at":`+atMS+`,"pool":"q"}`)
	if b.Watermark == nil || b.Watermark.Pool != "" || len(b.Refused) != 1 || b.Refused[0].Reason != ReasonBatchTooLong {
		t.Errorf("got %+v", b)
	}
}

func TestDecodeKeepsNothingOfItsInput(t *testing.T) {
	data := []byte(`{"id":"id-1","pool":"pool-1","prompt_tokens":7,"arrived_at":` + atMS + "}\n{\"id\":\"broken\",x")
	var b Batch
	Decode(Meta{ContentType: ContentTypeNDJSON}, data, DefaultLimits(), &b)
	for i := range data {
		data[i] = '#'
	}
	if r := b.Requests[0]; r.ID != "id-1" || r.Pool != "pool-1" || string(b.Refused[0].Record) != `{"id":"broken",~` {
		t.Errorf("records changed with the buffer: %+v", b)
	}
}

func TestDecodeJSONAllocatesNothingForARecord(t *testing.T) {
	if raceDetector {
		t.Skip("allocations tell nothing under the race detector")
	}
	millis, dates := jsonRecords(typical(10).Requests)
	escaped := []byte(`{"id":"a\u00e9\" b","pool":"p\/q","session":"one \"conversation\" of many","prompt_tokens":7,"arrived_at":` + atMS + `}`)
	for _, record := range [][]byte{millis[0], dates[0], escaped, bytes.Join(millis, newline)} {
		var b Batch
		if n := testing.AllocsPerRun(200, func() {
			b.Reset()
			Decode(Meta{ContentType: ContentTypeNDJSON}, record, DefaultLimits(), &b)
		}); n > 0 || len(b.Refused) > 0 {
			t.Errorf("%g allocations for %d requests and refusals %+v", n, len(b.Requests), b.Refused)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, records := range []int{1, 1000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			var data []byte
			for i := range records {
				data = AppendRequest(data, &Request{
					ID: fmt.Sprintf("req-%08d", i), Pool: "llama-70b", Class: "chat", Model: "llama-3-70b", Tenant: fmt.Sprintf("tenant-%d", i%50),
					Attempt: 1, Session: uint64(i), ArrivedAt: at, FirstTokenAt: at.Add(time.Second), FinishedAt: at.Add(time.Minute),
					PromptTokens: 1234, CachedTokens: 1000, OutputTokens: 250, MaxOutputTokens: Unknown,
				})
				data = append(data, '\n')
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			var batch Batch
			for b.Loop() {
				batch.Reset()
				Decode(Meta{ContentType: ContentTypeNDJSON}, data, DefaultLimits(), &batch)
			}
			b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
