package codec

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// dynamoRow is a compact row with further members in its request.
func dynamoRow(members string) string {
	return `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1795240801000,"request":{"request_id":"r",` +
		`"request_received_ms":` + atMS + `,"replay":{"trace_block_size":64,"input_length":130,"input_sequence_hashes":[1,2,3]}` + members + `}}`
}

func TestDecodeDynamo(t *testing.T) {
	compact := ingest.Request{
		ID: "r", Pool: "p", Class: "c", Attempt: 1, ArrivedAt: at, FinishedAt: at.Add(time.Second),
		PromptTokens: 130, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
	}
	with := func(change func(*ingest.Request)) ingest.Request {
		r := compact
		change(&r)
		return r
	}
	full := must(os.ReadFile("testdata/dynamo/full.json"))
	for name, tc := range map[string]struct {
		row  string
		want ingest.Request
	}{
		"compact": {dynamoRow(""), compact},
		"full, several lines": {string(full), ingest.Request{
			ID: "7c1e0f3a-full", Pool: "p", Class: "c", Model: "llama-3.1-70b", Attempt: 1, Session: ingest.HashSession("research-42:researcher"),
			ArrivedAt: at, StartedAt: at.Add(12500 * time.Microsecond), FirstTokenAt: at.Add(101125 * time.Microsecond), FinishedAt: at.Add(time.Second),
			PromptTokens: 130, CachedTokens: 64, OutputTokens: 16, MaxOutputTokens: ingest.Unknown,
		}},
		"wrapped":              {`{"timestamp":5,"event":` + dynamoRow("") + `}`, compact},
		"members in any order": {`{"request":{"replay":{"input_sequence_hashes":[7],"input_length":9,"trace_block_size":64},"request_id":"r"},"event_time_unix_ms":1795240801000,"event_type":"request_end","schema":"dynamo.request.trace.v1"}`, with(func(r *ingest.Request) { r.ArrivedAt, r.PromptTokens = time.Time{}, 9 })},
		"input beside replay":  {dynamoRow(`,"input_tokens":128`), with(func(r *ingest.Request) { r.PromptTokens = 128 })},
		"input 0 is unknown":   {dynamoRow(`,"input_tokens":0,"cached_tokens":64`), with(func(r *ingest.Request) { r.CachedTokens = 64 })},
		"hit rate":             {dynamoRow(`,"kv_hit_rate":0.4923`), with(func(r *ingest.Request) { r.CachedTokens = 64 })},
		"hit rate 0":           {dynamoRow(`,"kv_hit_rate":0.0`), with(func(r *ingest.Request) { r.CachedTokens = 0 })},
		"cached wins":          {dynamoRow(`,"cached_tokens":0,"kv_hit_rate":0.9`), with(func(r *ingest.Request) { r.CachedTokens = 0 })},
		"nulls":                {dynamoRow(`,"cached_tokens":null,"model":null,"kv_hit_rate":null,"worker":null,"total_time_ms":null`), compact},
		"stop":                 {dynamoRow(`,"finish_reason_metadata":{"finish_reason":"stop","backend_finish_reason":"eos"}`), compact},
		"engine error":         {dynamoRow(`,"finish_reason_metadata":{"finish_reason":"stop","backend_finish_reason":"error: out of memory"}`), with(func(r *ingest.Request) { r.Status = ingest.StatusError })},
		"cancelled":            {dynamoRow(`,"finish_reason_metadata":{"backend_finish_reason":"cancelled"}`), with(func(r *ingest.Request) { r.Phase, r.Status = ingest.PhaseCancelled, ingest.StatusCancelled })},
		"no end": {strings.Replace(dynamoRow(`,"ttft_ms":10`), "1795240801000", atMS, 1),
			with(func(r *ingest.Request) { r.FirstTokenAt, r.FinishedAt = at.Add(10*time.Millisecond), time.Time{} })},
		"end in whole milliseconds": {dynamoRow(`,"ttft_ms":1000.4`), with(func(r *ingest.Request) {
			r.FirstTokenAt = at.Add(1000400 * time.Microsecond)
			r.FinishedAt = r.FirstTokenAt
		})},
		"impossible times":          {dynamoRow(`,"total_time_ms":-1,"ttft_ms":3e10`), compact},
		"wait below 0":              {dynamoRow(`,"prefill_wait_time_ms":-0.001,"ttft_ms":250`), with(func(r *ingest.Request) { r.FirstTokenAt = at.Add(250 * time.Millisecond) })},
		"first token after the end": {dynamoRow(`,"total_time_ms":1000,"ttft_ms":1000.01`), compact},
		"session is a number":       {strings.Replace(dynamoRow(""), `"request":`, `"agent_context":{"session_id":12,"session_final":true,"kv_hints":null},"request":`, 1), with(func(r *ingest.Request) { r.Session = ingest.HashSession("12") })},
		"arrival from the end":      {strings.Replace(dynamoRow(`,"total_time_ms":1000`), `"request_received_ms":`+atMS+`,`, "", 1), compact},
		"no replay": {`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1795240801000,"request":{"request_id":"r","input_tokens":5}}`,
			with(func(r *ingest.Request) { r.ArrivedAt, r.PromptTokens = time.Time{}, 5 })},
		"times as floats": {strings.Replace(dynamoRow(""), atMS, atMS+".0", 1), compact},
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(Meta{ContentType: ContentTypeDynamo, Pool: "p", Class: "c"}, tc.row)
			if d := diff(&ingest.Batch{Requests: []ingest.Request{tc.want}}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeDynamoRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		row  string
		want ingest.Reason
	}{
		"other schema":    {strings.Replace(dynamoRow(""), "trace.v1", "trace.v2", 1), ingest.ReasonUnknownFormat},
		"no schema":       {`{"event_type":"request_end"}`, ingest.ReasonUnknownFormat},
		"no event type":   {`{"schema":"dynamo.request.trace.v1"}`, ingest.ReasonMissingField},
		"no request":      {`{"schema":"dynamo.request.trace.v1","event_type":"request_end"}`, ingest.ReasonMissingField},
		"request is text": {`{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":"secret"}`, ingest.ReasonMissingField},
		"no time":         {`{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":{"input_tokens":5}}`, ingest.ReasonMissingField},
		"no prompt":       {`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1795240801000,"request":{"output_tokens":5}}`, ingest.ReasonMissingField},
		"more cached":     {dynamoRow(`,"cached_tokens":131`), ingest.ReasonInconsistent},
		"hit rate 1.5":    {dynamoRow(`,"kv_hit_rate":1.5`), ingest.ReasonOutOfRange},
		"negative output": {dynamoRow(`,"output_tokens":-1`), ingest.ReasonNegativeCount},
		"truncated":       {dynamoRow("")[:80], ingest.ReasonTruncated},
		"wrapped twice":   {`{"event":{"event":` + dynamoRow("") + `}}`, ingest.ReasonMissingField},
		"deep":            {`{"event_type":"request_payload","payload":` + strings.Repeat("[", 50), ingest.ReasonTooDeep},
		"large":           {`{"event_type":"request_payload","payload":"` + strings.Repeat("secret", 2<<20), ingest.ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			b := decode(Meta{ContentType: ContentTypeDynamo, Pool: "p"}, tc.row)
			if len(b.Refused) != 1 || b.Refused[0].Reason != tc.want || len(b.Requests)+b.Ignored > 0 {
				t.Fatalf("got %+v, want one refusal %s", b, tc.want)
			}
			if r := b.Refused[0]; strings.Contains(r.Detail, "secret") {
				t.Errorf("the detail may contain a prompt: %s", r.Detail)
			}
		})
	}
	for name, m := range map[string]Meta{"no pool": {}, "replica subject": {Kind: KindReplica, Pool: "p"}} {
		m.ContentType = ContentTypeDynamo
		if b := decode(m, dynamoRow("")); len(b.Refused) != 1 || len(b.Requests) > 0 {
			t.Errorf("%s: got %+v, want a refusal", name, b)
		}
	}
}

func TestDecodeDynamoIgnoresOtherEvents(t *testing.T) {
	rows := must(os.ReadFile("testdata/dynamo/rows.jsonl"))
	b := decode(Meta{ContentType: ContentTypeDynamo, Pool: "p"}, string(rows))
	want := ingest.Batch{Ignored: 3, Requests: []ingest.Request{{
		ID: "wrapped", Pool: "p", Model: "m", Attempt: 1, Session: ingest.HashSession("s"), Status: ingest.StatusError, ArrivedAt: at.Add(time.Second),
		PromptTokens: 32, CachedTokens: 16, OutputTokens: 5, MaxOutputTokens: ingest.Unknown,
	}}}
	if d := diff(&want, b); d != "" {
		t.Error(d)
	}
}

// TestDecodeDynamoThroughPipelines reads rows of log pipelines that write arrays, or numbers as strings. Without a pool
// in the subject, the model is the pool.
func TestDecodeDynamoThroughPipelines(t *testing.T) {
	const row = `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1795240801000,"request":{"request_id":"7","model":"m",` +
		`"input_tokens":130,"cached_tokens":64,"output_tokens":3,"request_received_ms":1795240800000,"ttft_ms":20.5,"replay":{"trace_block_size":64,"input_length":130,"input_sequence_hashes":[9223372036854775809,2,3]}}}`
	want := decode(Meta{ContentType: ContentTypeDynamo}, row)
	if len(want.Requests) != 1 || want.Requests[0].Pool != "m" {
		t.Fatalf("got %+v", want)
	}
	quotes := regexp.MustCompile(`([:[,])([0-9.]+)`)
	for name, data := range map[string]string{
		"strings": quotes.ReplaceAllString(row, `$1"$2"`),
		"array":   "\ufeff[\n" + row + "\n]\r\n",
	} {
		if d := diff(want, decode(Meta{ContentType: ContentTypeDynamo}, data)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	for _, number := range []string{`"1.5"`, `"x"`, `"."`, `true`} {
		data := strings.Replace(row, ":130,", ":"+number+",", 1)
		if b := decode(Meta{ContentType: ContentTypeDynamo}, data); len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonWrongType {
			t.Errorf("%s for a count: got %+v", number, b)
		}
	}
}

func FuzzDecodeDynamo(f *testing.F) {
	for _, sample := range samples(f, "dynamo") {
		f.Add(sample)
	}
	f.Add([]byte(dynamoRow(`,"kv_hit_rate":0.5`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b ingest.Batch
		Decode(Meta{ContentType: ContentTypeDynamo, Pool: "p"}, data, ingest.DefaultLimits(), &b)
		n := checkBatch(t, &b)
		if n += b.Ignored + len(b.Refused); n > len(data)+1 { // plus one: a record may be followed by the refusal of an array that ends too early
			t.Fatalf("%d bytes became %d records", len(data), n)
		}
	})
}

func BenchmarkDecodeDynamo(b *testing.B) {
	row := []byte(strings.Replace(dynamoRow(`,"output_tokens":16`), "[1,2,3]", "["+strings.Repeat("14879255164371896291,", 99)+"1]", 1))
	row = bytes.Replace(row, []byte(`"input_length":130`), []byte(`"input_length":6400`), 1)
	b.SetBytes(int64(len(row)))
	b.ReportAllocs()
	var batch ingest.Batch
	for b.Loop() {
		batch.Reset()
		Decode(Meta{ContentType: ContentTypeDynamo, Pool: "p"}, row, ingest.DefaultLimits(), &batch)
	}
	if len(batch.Requests) != 1 {
		b.Fatalf("%+v", batch)
	}
}
