package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestForeignSubjectsAreRelayed: records that NVIDIA Dynamo publishes on its own subject, without headers, are counted,
// with their cached tokens. Records of a gateway's log are counted, too. Dead letters contain no prompt.
func TestForeignSubjectsAreRelayed(t *testing.T) {
	t.Parallel()
	p := startDaemon(t,
		"clock: event",
		"features: {lateness: 0s}",
		"nats: {embedded: {listen: '127.0.0.1:0'}, sources: [{subject: dynamo.request_trace.v1, format: dynamo, pool: chat}, {subject: gateway.log, format: envoy, pool: chat}]}",
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
	// Of each prompt 320 tokens are cached: 280 are computed, six times a minute.
	if got := testenv.Metric(t, p.base, `forewarm_demand_prefill_tokens_per_second{class="*",pool="chat"}`); got != 28 {
		t.Errorf("%g tokens/s, want 28", got)
	}

	letters := testenv.Subscribe(t, p.conn, "forewarm.deadletter")
	p.publish(t, "gateway.log", []byte(`{"start_time":"2026-03-02T08:09:00Z","response_code":"200","body":"my secret"}`))
	p.publish(t, "gateway.log", []byte(`{"start_time":"2026-03-02T08:09:00Z","duration":"900","response_code":"200","genai_tokens_input":"7","genai_tokens_output":2}`))
	for name, want := range map[string]float64{
		"forewarm_ingest_records_total": minutes*6 + 1, "forewarm_ingest_ignored_total": minutes * 6,
		`forewarm_ingest_refused_total{reason="missing_field"}`: 1,
	} {
		testenv.Await(t, name, func() bool { return testenv.Metric(t, p.base, name) == want })
	}
	for m := range testenv.Messages(letters) {
		if len(m.Data) > 0 {
			t.Errorf("dead letter %s, want no part of the record", m.Data)
		}
	}
}
