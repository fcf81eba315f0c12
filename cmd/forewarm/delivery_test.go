package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/internal/testenv"
)

// hook is a webhook's consumer that remembers the ids of what it was sent, and does something about the first.
type hook struct {
	*httptest.Server
	mu    sync.Mutex
	ids   []string
	first func()
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		h.ids = append(h.ids, r.Header.Get("webhook-id"))
		first := h.first
		h.first = nil
		h.mu.Unlock()
		if first != nil {
			first()
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) got() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ids)
}

// TestKillBetweenDeliveryAndCursor kills the daemon after the consumer has an event, and before the daemon knows it.
// After the restart the same event comes again under the same id, and then never again. The advice for the other
// pool, which was still in the queue, is not lost.
func TestKillBetweenDeliveryAndCursor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHook(t)
	address, page := testenv.FreeAddress(t), testenv.FreeAddress(t)
	keys := testenv.WriteFile(t, filepath.Join(dir, "keys"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	config := testenv.WriteFile(t, filepath.Join(dir, "forewarm.yaml"),
		"clock: event",
		"features: {lateness: 0s}",
		"nats: {embedded: {listen: "+address+"}}",
		"storage: {dir: "+filepath.Join(dir, "data")+", snapshot_every: 100ms}",
		"server: {listen: "+page+"}",
		"log: {level: warn}",
		"sinks: {webhooks: [{name: hook, url: '"+h.URL+"', send: [prescale], secret_file: "+keys+"}]}",
		"pools: [{name: a, replicas: {max: 4}}, {name: b, replicas: {max: 4}}]",
	)
	daemon := start(t, "serve", "-config", config)
	up := func() bool { _, err := statusOf(page); return err == nil || daemon.over() }
	testenv.Await(t, "the daemon to answer", up)
	h.mu.Lock()
	h.first = func() { _ = daemon.cmd.Process.Kill() } // with the request in hand, before it is answered
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
	before := h.got()
	if len(before) != 1 {
		t.Fatalf("before the death %q came, want one event", before)
	}

	daemon = start(t, "serve", "-config", config)
	testenv.Await(t, "both events", func() bool { return len(h.got()) >= 3 })
	daemon.stop(t)
	after := h.got()[1:]
	slices.Sort(after)
	if len(after) != 2 || !slices.Contains(after, before[0]) || after[0] == after[1] {
		t.Errorf("first %q, after the restart %q: want the same again, and that of the other pool", before, after)
	}

	daemon = start(t, "serve", "-config", config)
	testenv.Await(t, "the daemon to answer", up)
	testenv.Await(t, "the stream to be applied", func() bool { s, err := statusOf(page); return err == nil && s.Lag != nil && *s.Lag == 0 })
	daemon.stop(t)
	if again := h.got()[3:]; len(again) > 0 {
		t.Errorf("%q was sent again after it was known to be delivered", again)
	}
}
