package daemon

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestScrapedEngines: a daemon scrapes samples of five engines, and one target that refuses connections. The stream and
// the API have the replicas.
func TestScrapedEngines(t *testing.T) {
	t.Parallel()
	type replicas struct {
		ready, waiting int
		kv             float64 // largest KV use
	}
	want := map[string]replicas{"ray": {2, 2, .5}, "nim": {1, 1, .125}, "dynamo": {2, 3, .25}, "epp": {2, 3, .5}, "inferencepool": {1, 4, .75}}
	samples := map[string]string{"ray": "vllm_ray", "nim": "vllm_nim", "dynamo": "dynamo", "epp": "epp", "inferencepool": "inferencepool"}
	lines := []string{"scrape: {interval: 1s, jobs: ["}
	for pool, sample := range samples {
		text := must(os.ReadFile("../../ingest/scrape/testdata/" + sample + ".txt"))
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			w.Write(text)
		}))
		defer engine.Close()
		lines = append(lines, "  {pool: "+pool+", targets: ['"+engine.Listener.Addr().String()+"']},")
	}
	lines = append(lines, "  {pool: ray, targets: ['127.0.0.1:1']}]}", "pools:") // port 1 is closed
	for pool := range samples {
		lines = append(lines, "  - {name: "+pool+", decode_tokens_per_s: 400, itl: 25ms, replicas: {max: 4}}")
	}
	p := startDaemon(t, lines...)
	reports := testenv.Subscribe(t, p.conn, "forewarm.telemetry.request.>")
	if err := p.conn.Flush(); err != nil { // the scraper publishes on another connection
		t.Fatal(err)
	}

	seen, got := map[string]bool{}, map[string]replicas{}
	for len(seen) < 8 { // the replicas of the five engines
		m := must(reports.NextMsg(testenv.Patience))
		var b ingest.Batch
		codec.Decode(codec.Meta{ContentType: m.Header.Get("Content-Type"), Source: m.Header.Get("Forewarm-Source")}, m.Data, ingest.DefaultLimits(), &b)
		if len(b.Replicas) == 0 || b.Source != "scrape" {
			t.Errorf("a message on %s with headers %v has %+v", m.Subject, m.Header, b)
		}
		for _, r := range b.Replicas {
			if seen[r.Pool+r.Name] {
				continue
			}
			seen[r.Pool+r.Name] = true
			if r.KVCapacityTokens > 0 {
				r.KVUsedRatio = float64(r.KVUsedTokens) / float64(r.KVCapacityTokens)
			}
			s := got[r.Pool]
			got[r.Pool] = replicas{s.ready + 1, s.waiting + int(max(r.Waiting, 0)), max(s.kv, r.KVUsedRatio)}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("replicas, waiting requests and largest KV use are %v, want %v", got, want)
	}

	p.settle(t)
	p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, time.Now().Truncate(time.Minute).Add(2*time.Minute).UnixMilli()))
	testenv.Await(t, "a tick", func() bool { return !p.Status().Tick.IsZero() && len(p.Pools()) == len(samples) })
	for pool, want := range want {
		_, body := testenv.Get(p.base + "/api/v1/pools/" + pool)
		if !strings.Contains(body, fmt.Sprintf(`"ready": %d,`, want.ready)) || !strings.Contains(body, `"observed": true`) {
			t.Errorf("%s has no %d ready replicas in\n%s", pool, want.ready, body)
		}
	}
	testenv.Await(t, "a target that refuses connections to be counted", func() bool {
		return testenv.Metric(t, p.base, "forewarm_scrape_failures_total") > 0
	})
	for name, want := range map[string]float64{
		`forewarm_ingest_refused_total{reason="missing_field"}`: 0,
		`forewarm_ingest_refused_total{reason="unknown_pool"}`:  0,
	} {
		if got := testenv.Metric(t, p.base, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
}
