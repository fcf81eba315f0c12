package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestKillBetweenDeliveryAndCursor kills the daemon after the receiver has an event, and before the daemon knows it.
// After the restart the same event comes again under the same id, and then never again. The advice for the other
// pool, which was still in the queue, is not lost.
func TestKillBetweenDeliveryAndCursor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newReceiver()
	t.Cleanup(h.server.Close)
	address, page := testenv.FreeAddress(t), testenv.FreeAddress(t)
	keys := testenv.WriteFile(t, filepath.Join(dir, "keys"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	config := testenv.WriteFile(t, filepath.Join(dir, "forewarm.yaml"),
		"clock: event",
		"features: {lateness: 0s}",
		"nats: {embedded: {listen: "+address+"}}",
		"storage: {dir: "+filepath.Join(dir, "data")+", snapshot_every: 100ms}",
		"server: {listen: "+page+"}",
		"log: {level: warn}",
		"sinks: {webhooks: [{name: hook, url: '"+h.server.URL+"', send: [prescale], secret_file: "+keys+"}]}",
		"pools: [{name: a, replicas: {max: 4}}, {name: b, replicas: {max: 4}}]",
	)
	daemon := start(t, "serve", "-config", config)
	up := func() bool { _, err := statusOf(page); return err == nil || daemon.over() }
	testenv.Await(t, "the daemon to answer", up)
	h.mu.Lock()
	h.first = func() { _ = daemon.cmd.Process.Kill() } // before the request is answered
	h.mu.Unlock()

	conn, err := nats.Connect("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for seconds := 0; seconds < 130; seconds += 10 {
		for _, pool := range []string{"a", "b"} {
			at := began.Add(time.Duration(seconds) * time.Second).UnixMilli()
			if err := conn.Publish("forewarm.telemetry.request."+pool+".talk", fmt.Appendf(nil, `{"arrived_at":%d,"prompt_tokens":100,"output_tokens":10}`, at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	testenv.Await(t, "the daemon to die", daemon.over)
	conn.Close()
	if ids, twice := h.counts(); ids != 1 || twice != 0 {
		t.Fatalf("before the kill %d events came, %d of them twice; want one event, once", ids, twice)
	}

	daemon = start(t, "serve", "-config", config)
	testenv.Await(t, "both events", func() bool { ids, twice := h.counts(); return ids+twice >= 3 })
	daemon.stop(t)
	if ids, twice := h.counts(); ids != 2 || twice != 1 {
		t.Errorf("after the restart %d events came, %d of them twice; want the first one twice, and that of the other pool once", ids, twice)
	}

	daemon = start(t, "serve", "-config", config)
	testenv.Await(t, "the daemon to answer", up)
	testenv.Await(t, "the stream to be applied", func() bool { s, err := statusOf(page); return err == nil && s.Lag != nil && *s.Lag == 0 })
	daemon.stop(t)
	if n := h.requests(); n != 3 {
		t.Errorf("%d requests came, want 3: events that are known to be delivered are not sent again", n)
	}
}
