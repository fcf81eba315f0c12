package daemon

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestPrescaleConsumer runs the example consumer. It scales by the events of a daemon, and the daemon learns the
// warm-up lag from its acknowledgements.
func TestPrescaleConsumer(t *testing.T) {
	t.Parallel()
	consumer := filepath.Join(t.TempDir(), "prescale")
	if out, err := exec.Command("go", "build", "-o", consumer, "../../deploy/examples/prescale").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	dir := t.TempDir()
	calls, script := filepath.Join(dir, "calls"), filepath.Join(dir, "scale.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho $1 >> "+calls+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := startDaemon(t,
		"clock: event", "features: {lateness: 0s}", "decision: {mode: active}",
		"pools: [{name: chat, decode_tokens_per_s: 100, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 9}}]",
	)
	answers := testenv.Subscribe(t, p.conn, "forewarm.prescale.ack.chat")
	events := testenv.Subscribe(t, p.conn, "forewarm.prescale.chat")

	cmd := exec.CommandContext(t.Context(), consumer, p.embedded.URL(), "chat", script)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()

	js := must(p.conn.JetStream())
	testenv.Await(t, "the example to subscribe", func() bool { // a consumer that starts late sees only the last event, which may be to hold
		stream, err := js.StreamNameBySubject("forewarm.prescale.chat")
		for range js.ConsumerNames(stream) {
			return err == nil
		}
		return false
	})

	// The minutes end now, because the consumer ignores expired events. The load rises at the end.
	const minutes = 70
	now := time.Now().Truncate(time.Minute)
	for m := range minutes {
		perMinute := 10
		if m >= minutes-10 {
			perMinute = 40
		}
		p.publishMinute(t, "chat.talk", now.Add(time.Duration(m-minutes)*time.Minute), perMinute, 500, 300)
	}
	p.settle(t)
	before := leadSeconds(t, p)

	asked, last := map[string]bool{}, 0 // of events that have not expired
	testenv.Await(t, "the consumer to scale to the last number", func() bool {
		for m, err := events.NextMsg(time.Millisecond); err == nil; m, err = events.NextMsg(time.Millisecond) {
			e := parse[alerting.Event](t, m.Data).Data
			if m.Header.Get("Content-Type") != alerting.StructuredType || m.Header.Get("Nats-Msg-Id") != e.ID {
				t.Fatalf("%s, headers %v", m.Data, m.Header)
			}
			if e.ExpiresAt.After(time.Now()) {
				asked[e.ID], last = e.Action == alerting.ScaleOut, e.DesiredReplicas
			}
		}
		got, err := os.ReadFile(calls)
		return err == nil && strings.HasSuffix("\n"+string(got), "\n"+strconv.Itoa(last)+"\n")
	})
	m, err := answers.NextMsg(testenv.Patience)
	if err != nil {
		t.Fatalf("no answer: %v\n%s", err, out.String())
	}
	var answer struct {
		EventID string `json:"event_id"`
		Stage   string
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil || !asked[answer.EventID] || answer.Stage != "ready" {
		t.Errorf("answered %s, events %v (%v)", m.Data, asked, err)
	}
	p.publishMinute(t, "chat.talk", now, 40, 500, 300)
	p.publishMinute(t, "chat.talk", now.Add(time.Minute), 1, 500, 300) // ends the minute before
	p.settle(t)
	if refused := testenv.Metric(t, p.base, `forewarm_ingest_refused_total{reason="missing_field"}`); refused > 0 {
		t.Errorf("%g records refused", refused)
	}
	if after := leadSeconds(t, p); after == before {
		t.Errorf("the lead time is still %g s after an acknowledgement", after)
	}
}

// leadSeconds is the lead time of the last decision.
func leadSeconds(t *testing.T, p *inProcess) float64 {
	t.Helper()
	var pool struct {
		Decision struct {
			Lead float64 `json:"lead_time_seconds"`
		}
	}
	if p.getJSON(t, "/api/v1/pools/chat", &pool); pool.Decision.Lead == 0 {
		t.Fatal("the last decision has no lead time")
	}
	return pool.Decision.Lead
}
