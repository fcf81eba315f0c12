package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestCloseToEvent measures the time from the watermark that closes a minute of ten thousand classes to the decision in
// the log, and to the event if there is one. FOREWARM_EVENT_MINUTES is the number of minutes.
func TestCloseToEvent(t *testing.T) {
	minutes, err := strconv.Atoi(os.Getenv("FOREWARM_EVENT_MINUTES"))
	if err != nil {
		t.Skip("set FOREWARM_EVENT_MINUTES to measure, on a machine that does nothing else")
	}
	const classes = 10_000
	b := &bench{t: t}
	s := &site{config: filepath.Join(t.TempDir(), "forewarm.yaml"), data: filepath.Join(t.TempDir(), "data"), nats: testenv.FreeAddress(t), http: testenv.FreeAddress(t)}
	testenv.WriteFile(t, s.config, "nats: {embedded: {listen: "+s.nats+"}, stream: {max_bytes: 268435456}}", "clock: event",
		fmt.Sprintf("features: {max_classes: %d, lateness: 10s}", classes), "decision: {mode: active}",
		"storage: {dir: "+s.data+", snapshot_every: 1m}", "server: {listen: "+s.http+"}", "log: {level: warn}",
		"pools:", "  - {name: chat, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 4000}}")
	daemon := start(t, "serve", "-config", s.config)
	testenv.Await(t, "the daemon to answer", func() bool { _, err := statusOf(s.http); return err == nil || daemon.over() })
	conn, err := nats.Connect("nats://" + s.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	closed := make(map[string][]time.Duration)
	decisions, events := testenv.Subscribe(t, conn, "forewarm.decision.chat"), testenv.Subscribe(t, conn, "forewarm.prescale.chat")
	publisher, err := jetstream.NewPublisher(b.connect("nats://" + s.nats))
	b.check(err)
	sent := uint64(0)
	for m := range minutes {
		sent = b.sendMinute(publisher, m, classes, sent)
		testenv.Await(t, "the minute to be applied", func() bool {
			st, err := statusOf(s.http)
			return daemon.over() || err == nil && st.Sequence >= sent
		})
		began := time.Now()
		if decisions, _, _ := decisions.Pending(); decisions > 0 {
			t.Fatalf("minute %d was closed before its watermark", m)
		}
		end := benchStart.Add(time.Duration(m+1)*time.Minute + 10*time.Second)
		if _, err := conn.Request("forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, end.UnixMilli()), testenv.Patience); err != nil {
			t.Fatal(err)
		}
		sent++
		if _, err := decisions.NextMsg(testenv.Patience); err != nil {
			t.Fatalf("minute %d has no decision: %v\n%s", m, err, daemon.out.String())
		}
		closed["decision"] = append(closed["decision"], time.Since(began))
		if _, err := events.NextMsg(200 * time.Millisecond); err == nil { // most minutes have none
			closed["event"] = append(closed["event"], time.Since(began))
		}
	}
	daemon.stop(t)
	for _, what := range []string{"decision", "event"} {
		all := closed[what]
		if slices.Sort(all); len(all) > 0 {
			t.Logf("from a minute's close to its %s, %d classes, %d of them: median %s, p99 %s, most %s", what, classes, len(all),
				all[len(all)/2].Round(time.Millisecond), all[(len(all)*99-1)/100].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
		}
	}
}
