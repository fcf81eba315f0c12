package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/pipeline"
)

// TestOverload stops the pipeline, as if there were more messages than the machine can handle. The stream keeps them,
// the daemon fetches few of them, and reports that it lags. In the end it has counted every message.
func TestOverload(t *testing.T) {
	t.Parallel()
	const messages = 20_000
	d := must(newDaemon(t, t.TempDir(), "clock: event", "features: {lateness: 0s}", "nats: {embedded: {listen: '127.0.0.1:0'}}",
		"pools: [{name: chat, decode_tokens_per_s: 400, replicas: {max: 4}}]", "server: {listen: '127.0.0.1:0'}"))
	busy := make(chan struct{})
	d.onTick = func(*pipeline.Output) { <-busy }
	p := runDaemon(t, d)
	release := sync.OnceFunc(func() { close(busy) })
	defer release()

	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for i := range messages {
		at := start.Add(time.Duration(i) * 5 * time.Minute / messages)
		p.publish(t, "forewarm.telemetry.request.chat.talk", fmt.Appendf(nil,
			`{"id":"r%d","arrived_at":%q,"prompt_tokens":500,"output_tokens":200}`, i, at.Format(time.RFC3339Nano)))
	}
	testenv.Await(t, "the daemon to lag by all that is after the first minute", func() bool {
		s := d.Status()
		return s.Lag != nil && *s.Lag > messages*3/4 && s.Sequence > messages/5-50 // the current batch is not counted yet
	})
	if code, page := testenv.Get(p.base + "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(page, "messages behind the stream, limit 10000") {
		t.Errorf("readyz of a daemon that lags: %d %s", code, page)
	}
	testenv.Await(t, "the metrics to have the lag", func() bool {
		_, page := testenv.Get(p.base + "/metrics")
		return strings.Contains(page, fmt.Sprintf("forewarm_stream_lag_messages %d\n", *d.Status().Lag))
	})
	stream := must(d.js.Stream(t.Context(), d.stream.Load().Config.Name))
	var delivered uint64 // an interrupted reader leaves its consumer on the server for some time
	for c := range stream.ListConsumers(t.Context()).Info() {
		delivered = max(delivered, c.Delivered.Stream)
	}
	if taken := int64(delivered - d.Status().Sequence); taken < 1 || taken > 2048 {
		t.Errorf("%d messages are in memory, want 1 to 2048", taken)
	}

	release()
	p.settle(t)
	testenv.Await(t, "the daemon to be ready again", func() bool {
		code, _ := testenv.Get(p.base + "/readyz")
		return code == http.StatusOK
	})
	p.stop()
	if got := d.pipeline.Counters(); got.Records != messages || len(got.Refused) > 0 {
		t.Errorf("%d of %d messages were counted, refused: %v", got.Records, messages, got.Refused)
	}
}
