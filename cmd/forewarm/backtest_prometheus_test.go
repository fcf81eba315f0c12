package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/storage/remote"
)

// TestBacktestPrometheus reads two vLLM replicas from a real Prometheus. The page compares Forewarm with the recorded
// replicas, and names what is unknown.
func TestBacktestPrometheus(t *testing.T) {
	end := time.Now().UTC().Truncate(time.Minute).Add(-24 * time.Hour)
	prometheus := testenv.PrometheusPast(t, 2, end, 0)
	page := filepath.Join(t.TempDir(), "page.html")
	// configured is a file with the pool and a query of its own. It has the KV capacity, because the metrics do not.
	configured := func(decode string) string {
		return testenv.WriteFile(t, filepath.Join(t.TempDir(), "c.yaml"), "pools: [{name: chat, kv_capacity_tokens: 100000, replicas: {max: 4}}]",
			"backfill:", "  url: "+prometheus.URL, "  sources: [{pool: chat, queries: {decode: '"+decode+"'}}]")
	}
	code, out, errs := runHere(t.Context(),
		"backtest", "-prometheus", prometheus.URL, "-config", configured(""), "-pool", "chat", "-match", `model_name="llama"`, "-days", "3", "-until", end.Format(time.RFC3339),
		"-policies", "forewarm,recorded", "-every", "30m", "-report", page)
	if code != 0 {
		t.Fatal(errs)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"What happened, and what Forewarm would have done", "What Forewarm would have forecast", "not requests", "Known of decode: 28", prometheus.URL,
		"Backtest of pool chat", "<td>recorded</td>", "<td>kv</td>",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, want := range []string{"3 days: recorded minutes, 288", "recorded", "the page is in"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for want, args := range map[string][]string{
		"no query has any value in 1 days before " + end.AddDate(0, 0, -30).Format(time.RFC3339): {"-until", end.AddDate(0, 0, -30).Format(time.RFC3339), "-days", "1"},
		"parse error: unclosed left parenthesis":                                                 {"-config", configured("sum("), "-days", "1"},
		"the answer has 2 series":                                                                {"-config", configured("vllm:num_requests_running"), "-until", end.Format(time.RFC3339), "-days", "1"},
	} {
		code, _, errs := runHere(t.Context(), append([]string{"backtest", "-prometheus", prometheus.URL, "-report", page}, args...)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, want %q: %s", args, code, want, errs)
		}
	}
}

// TestSourceOf: a pool's source is that of the configuration, unless flags name another one.
func TestSourceOf(t *testing.T) {
	cfg := &config.Config{Backfill: remote.BackfillConfig{Sources: []remote.Source{{Pool: "q"}, {Pool: "p", Match: `x="a"`}}}}
	for pool, want := range map[string]string{"p": `x="a"`, "other": ""} {
		if got := new(prometheusFlags).sourceOf(cfg, pool); got.Pool != pool || got.Match != want {
			t.Errorf("%s: %+v, want match %q", pool, got, want)
		}
	}
	stated := prometheusFlags{source: remote.Source{Match: `x="b"`}}
	if got := stated.sourceOf(cfg, "q"); got.Match != `x="b"` {
		t.Errorf("%+v, want the match of the flags", got)
	}
}
