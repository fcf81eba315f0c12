package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
)

// startAgent runs an edge aggregator in this process; kill ends it without saving its state.
func startAgent(t *testing.T, dir, upstream string) (conn *nats.Conn, a *agent, stop func(kill bool)) {
	t.Helper()
	data := filepath.Join(dir, "data")
	path := writeFile(t, filepath.Join(dir, "agent.yaml"), "clock: event", soundPool,
		"agent: {name: site-1, upstream: {url: '"+upstream+"'}}", "nats: {embedded: {listen: '127.0.0.1:0'}}",
		"storage: {dir: "+data+"}", "server: {listen: '127.0.0.1:0'}")
	cfg, err := loadConfig(path, "")
	if err != nil {
		t.Fatal(err)
	}
	a, err = openAgent(t.Context(), cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if conn, err = nats.Connect(a.embedded.URL()); err != nil {
		t.Fatal(err)
	}
	return conn, a, func(kill bool) {
		conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if kill { // as if it had been killed: what it saved at its end is not there
			if err := os.RemoveAll(filepath.Join(data, "snapshots")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAgent: requests at an edge become windows at the daemon that forecasts, each counted once, though the agent dies
// and publishes again what it had published.
func TestAgent(t *testing.T) {
	central := startDaemon(t, "clock: event", soundPool)
	forecasts := subscribe(t, central.conn, "forewarm.forecast.>")
	stored := subscribe(t, central.conn, "forewarm.telemetry.window.>")
	dir := t.TempDir()
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	const perMinute, minutes = 30, 12
	for run := range 3 {
		conn, a, stop := startAgent(t, dir, central.embedded.URL())
		edge := &inProcess{daemon: a.daemon, conn: conn}
		for m := run * minutes; m < (run+1)*minutes; m++ {
			at := start.Add(time.Duration(m) * time.Minute)
			for i := range perMinute {
				edge.publish(t, "forewarm.telemetry.request.chat.talk", fmt.Appendf(nil, `{"id":"%d-%d","arrived_at":%d,"prompt_tokens":100,"output_tokens":10,"tenant":"t%d"}`,
					m, i, at.Add(time.Duration(i)*time.Second).UnixMilli(), i%3))
			}
			edge.publish(t, "forewarm.telemetry.replica.chat.r0", fmt.Appendf(nil, `{"at":%d,"state":"ready","running":3}`, at.Add(time.Second).UnixMilli()))
			edge.publish(t, "forewarm.telemetry.watermark.chat", fmt.Appendf(nil, `{"at":%d}`, at.Add(time.Minute).UnixMilli()))
		}
		edge.settle(t)
		stop(run == 1)
	}
	central.settle(t)
	requests, replicas, last := 0.0, 0, uint64(0)
	for m := range next(stored) {
		var b ingest.Batch
		meta, _ := ingest.ParseSubject("forewarm", m.Subject)
		ingest.Decode(meta, m.Data, ingest.DefaultLimits(), &b)
		if len(b.Refused) > 0 || b.Part.Agent != "site-1" {
			t.Fatalf("part %+v, refused %v", b.Part, b.Refused)
		}
		if b.Part.Sequence <= last { // core NATS sees what the stream drops by its message id
			continue
		}
		last = b.Part.Sequence
		replicas += len(b.Replicas)
		for i := range b.Windows {
			requests += b.Windows[i].Figures[ingest.FigureRequests]
		}
	}
	const all = 3 * perMinute * minutes
	if requests != all || replicas != 3*minutes {
		t.Errorf("%g requests and %d reports came through, want %d and %d", requests, replicas, all, 3*minutes)
	}
	if n := metric(t, central, `forewarm_parts_missing_total`); n != 0 {
		t.Errorf("%g parts are missing", n)
	}
	ready := 0
	for range next(forecasts) {
		ready++
	}
	if ready < minutes {
		t.Errorf("%d forecasts", ready)
	}
	if got := central.pipeline.Omissions().Features; got.Late+got.Future > 0 {
		t.Errorf("%d windows were late, %d ahead", got.Late, got.Future)
	}
	if n := metric(t, central, "forewarm_agent_windows_late_total"); n != 0 {
		t.Errorf("%g windows came after their minute had closed", n)
	}
}

// TestLateAgentsAreSaid: windows that come after their minute had closed are counted, but those of the first minute of an agent, for which
// nobody could wait, and /readyz names their agent.
func TestLateAgentsAreSaid(t *testing.T) {
	p := startDaemon(t, "clock: event", soundPool)
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	send := func(agent string, sequence uint64, minute int) {
		at := start.Add(time.Duration(minute) * time.Minute)
		b := ingest.Batch{
			Part:    &ingest.Part{Agent: agent, Epoch: 1, Sequence: sequence, At: at.Add(time.Minute)},
			Windows: []ingest.Window{{Pool: "chat", Class: "talk", Start: at, Figures: [ingest.WindowFigures]float64{ingest.FigureRecords: 1, ingest.FigureRequests: 1, ingest.FigureRequestsKnown: 1}}},
			Minutes: []ingest.Minute{{Pool: "chat", Start: at, LastEvent: at.Add(time.Minute)}},
		}
		p.publish(t, ingest.WindowSubject("forewarm", agent), ingest.AppendProtobuf(nil, &b))
	}
	const minutes = 10
	for m := range minutes {
		if m >= 5 {
			send("far", uint64(m+1), m-2)
		}
		send("near", uint64(m+1), m)
	}
	p.settle(t)
	if n := metric(t, p, "forewarm_agent_windows_late_total"); n != minutes-6 {
		t.Errorf("%g windows were late, want %d", n, minutes-6)
	}
	_, ready := get(p.base + "/readyz")
	if !strings.Contains(ready, `windows come too late for forecasts from agent \"far\" (4 windows so far`) || strings.Contains(ready, `\"near\"`) {
		t.Errorf("readyz: %s", ready)
	}
	for m := minutes; m < minutes+15; m++ {
		send("near", uint64(m+1), m)
	}
	p.settle(t)
	if _, ready = get(p.base + "/readyz"); strings.Contains(ready, "too late") {
		t.Errorf("ten minutes after the last late window: %s", ready)
	}
}
