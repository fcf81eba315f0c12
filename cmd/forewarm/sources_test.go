package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestDynamoNeedsNoGlue: what NVIDIA Dynamo publishes by itself, bytes without headers on its own subject, is counted, and
// its cached tokens are known though no row tells them.
func TestDynamoNeedsNoGlue(t *testing.T) {
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
			`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,"request":{"request_id":"r%d","request_received_ms":%d,"output_tokens":60,`+
				`"replay":{"trace_block_size":64,"input_length":600,"input_sequence_hashes":[1,2,3,4,5,%d,%d,%d,%d,%d]}}}`,
			received+2000, i, received, 1<<60+5*i, 1<<60+5*i+1, 1<<60+5*i+2, 1<<60+5*i+3, 1<<60+5*i+4))
		p.publish(t, "dynamo.request_trace.v1", fmt.Appendf(nil, `{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":%d,"tool":{}}`, received))
	}
	p.settle(t)
	for path, want := range map[string]string{
		"/metrics":         fmt.Sprintf("\nforewarm_ingest_records_total %d\n", minutes*6),
		"/metrics?ignored": fmt.Sprintf("\nforewarm_ingest_ignored_total %d\n", minutes*6),
	} {
		if code, body := get(p.base + path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d without %q in\n%s", path, code, want, body)
		}
	}
	// Of each prompt 320 tokens are shared: 280 are computed, six times a minute, but for the very first one.
	_, body := get(p.base + "/api/v1/pools/chat/forecast?dimension=prefill")
	if !strings.Contains(body, `"value": 28`+"\n") || strings.Contains(body, `"value": 60`+"\n") {
		t.Errorf("want 28 tokens/s in\n%s", body)
	}
}
