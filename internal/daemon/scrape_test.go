package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/pipeline"
)

// TestScrapedEnginesAreSupply: what an engine exposes becomes the state of its replica on the telemetry stream, and is
// read back from there as what any other engine reports.
func TestScrapedEnginesAreSupply(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../ingest/scrape/testdata/vllm.txt")
	if err != nil {
		t.Fatal(err)
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write(text)
	}))
	defer engine.Close()
	address := engine.Listener.Addr().String()
	p := startDaemon(t,
		"scrape: {interval: 1s, timeout: 1s, jobs: [{pool: chat, targets: ['"+address+"', '127.0.0.1:1']}]}",
		"pools: [{name: chat, decode_tokens_per_s: 400, itl: 25ms, replicas: {max: 4}}]",
	)
	reports := testenv.Subscribe(t, p.conn, "forewarm.telemetry.replica.>")
	m, err := reports.NextMsg(testenv.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if want := ingest.ReplicaSubject("forewarm", "chat", address); m.Subject != want || m.Header.Get("Content-Type") != "application/json" || m.Header.Get("Forewarm-Source") != "scrape" {
		t.Errorf("a report on %s with %v, want %s", m.Subject, m.Header, want)
	}
	if state := foldReplica(t, m.Data); state.Ready != 1 || state.KVCapacityTokens != 432_000 || state.KVUsedMax != 0.4375 || state.WaitingPerReady != 3 {
		t.Errorf("the pipeline makes %+v of %s", state, m.Data)
	}
	p.settle(t)
	p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, time.Now().Truncate(time.Minute).Add(time.Minute).UnixMilli()))
	testenv.Await(t, "a tick", func() bool { return !p.Status().Tick.IsZero() && len(p.Pools()) > 0 })
	_, body := testenv.Get(p.base + "/api/v1/pools/chat")
	if !strings.Contains(body, `"ready": 1`) || !strings.Contains(body, `"observed": true`) {
		t.Errorf("no ready replica in\n%s", body)
	}
	_, metrics := testenv.Get(p.base + "/metrics")
	for _, want := range []string{"\nforewarm_scrape_targets 2\n", "forewarm_scrape_failures_total{reason=\"timeout\"} 0\n", "forewarm_scrape_duration_seconds_bucket"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %q", want)
		}
	}
	if strings.Contains(metrics, "forewarm_scrape_failures_total{reason=\"refused\"} 0\n") {
		t.Error("that nobody listens on port 1 was not counted")
	}
}

// foldReplica is the state of a pool of which one report is all that is known.
func foldReplica(t *testing.T, report []byte) (state features.PoolState) {
	t.Helper()
	cfg := pipeline.DefaultConfig()
	cfg.DefaultPool = &capacity.Pool{}
	p := pipeline.New(cfg)
	var b ingest.Batch
	codec.Decode(codec.Meta{Kind: codec.KindReplica}, report, ingest.DefaultLimits(), &b)
	if len(b.Replicas) != 1 {
		t.Fatalf("%s is no report: %+v", report, b.Refused)
	}
	b.Watermark = &ingest.Watermark{At: b.Replicas[0].At.Truncate(time.Minute).Add(time.Minute)}
	p.Apply(&b, func(o *pipeline.Output) {
		for _, minute := range o.Pools { // a tick before the report knows of no pool
			state = minute.State
		}
	})
	return state
}
