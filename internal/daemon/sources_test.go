package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestDynamoNeedsNoGlue: what NVIDIA Dynamo publishes by itself, bytes without headers on its own subject, is counted, and
// its cached tokens are known though no row tells them.
func TestDynamoNeedsNoGlue(t *testing.T) {
	t.Parallel()
	p := startDaemon(t,
		"clock: event",
		"features: {lateness: 0s}",
		"nats: {embedded: {listen: '127.0.0.1:0'}, sources: [{subject: dynamo.request_trace.v1, format: dynamo, pool: chat}]}",
		"pools: [{name: chat, decode_tokens_per_s: 400, itl: 25ms, replicas: {max: 4}}]",
	)
	const minutes = 10
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC).UnixMilli()
	for i := range minutes * 6 {
		received := start + int64(i)*10_000
		p.publish(t, "dynamo.request_trace.v1", fmt.Appendf(nil,
			`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,"request":{"request_id":"r%d","request_received_ms":%d,"output_tokens":60,"cached_tokens":320,`+
				`"replay":{"trace_block_size":64,"input_length":600,"input_sequence_hashes":[1,2,3,4,5,%d,%d,%d,%d,%d]}}}`,
			received+2000, i, received, 1<<60+5*i, 1<<60+5*i+1, 1<<60+5*i+2, 1<<60+5*i+3, 1<<60+5*i+4))
		p.publish(t, "dynamo.request_trace.v1", fmt.Appendf(nil, `{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":%d,"tool":{}}`, received))
	}
	p.settle(t)
	for path, want := range map[string]string{
		"/metrics":         fmt.Sprintf("\nforewarm_ingest_records_total %d\n", minutes*6),
		"/metrics?ignored": fmt.Sprintf("\nforewarm_ingest_ignored_total %d\n", minutes*6),
	} {
		if code, body := testenv.Get(p.base + path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d without %q in\n%s", path, code, want, body)
		}
	}
	// Of each prompt 320 tokens are cached: 280 are computed, six times a minute.
	_, body := testenv.Get(p.base + "/api/v1/pools/chat/forecast?dimension=prefill")
	if !strings.Contains(body, `"last": 28,`) {
		t.Errorf("want 28 tokens/s in\n%s", body)
	}
}

// TestAccessLogOverNATS: what a gateway logs is counted, and its refusals keep no prompt.
func TestAccessLogOverNATS(t *testing.T) {
	t.Parallel()
	p := startDaemon(t,
		"clock: event",
		"nats: {embedded: {listen: '127.0.0.1:0'}, sources: [{subject: gateway.log, format: envoy, pool: chat}]}",
		"pools: [{name: chat, replicas: {max: 4}}]",
	)
	letters := testenv.Subscribe(t, p.conn, "forewarm.deadletter")
	p.publish(t, "gateway.log", []byte(`{"start_time":"2026-03-02T08:00:00Z","response_code":"200","body":"my secret"}`))
	p.publish(t, "gateway.log", []byte(`{"start_time":"2026-03-02T08:00:00Z","duration":"900","response_code":"200","genai_tokens_input":"7","genai_tokens_output":2}`))
	testenv.Await(t, "the line to be relayed and counted", func() bool { return testenv.Metric(t, p.base, "forewarm_ingest_records_total") > 0 })
	if n := int(testenv.Metric(t, p.base, "forewarm_ingest_records_total")); n != 1 {
		t.Errorf("%d records were counted, want 1", n)
	}
	for m := range testenv.Next(letters) {
		if len(m.Data) > 0 {
			t.Errorf("dead letter %s, want none of the record", m.Data)
		}
	}
	if n := refused(t, p, ingest.ReasonMissingField); n != 1 {
		t.Errorf("%d were refused, want 1", n)
	}
}
