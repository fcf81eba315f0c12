package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/storage/remote"
)

// TestBacktestPrometheus reads two vLLM replicas from a real Prometheus. The page compares Forewarm with the replicas
// that were recorded, and names what cannot be known.
func TestBacktestPrometheus(t *testing.T) {
	end := time.Now().UTC().Truncate(time.Minute).Add(-24 * time.Hour)
	prometheus := testenv.PrometheusPast(t, 2, end, 0)
	page := filepath.Join(t.TempDir(), "page.html")
	client := testenv.WriteFile(t, filepath.Join(t.TempDir(), "http.yml"), "http_headers: {X-Scope-OrgID: {values: [llm]}}")
	code, out, errs := runHere(t.Context(),
		"backtest", "-prometheus", prometheus.URL, "-pool", "chat", "-match", `model_name="llama"`, "-days", "3", "-until", end.Format(time.RFC3339), "-http-config", client,
		"-query", "kv_capacity=vector(100000)", "-policies", "forewarm,recorded", "-every", "30m", "-decide", "5m", "-report", page)
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
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, want := range []string{"3 days: recorded minutes, 288", "recorded", "the page is in"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	for want, args := range map[string][]string{
		"no query has any value in 1 days before " + end.AddDate(0, 0, -30).Format(time.RFC3339): {"-until", end.AddDate(0, 0, -30).Format(time.RFC3339), "-days", "1"},
		"parse error: unclosed left parenthesis":                                                 {"-query", "decode=sum(", "-days", "1"},
		"the answer has 2 series":                                                                {"-query", "decode=vllm:num_requests_running", "-until", end.Format(time.RFC3339), "-days", "1"},
		"-preset is \"x\": it must be ":                                                          {"-preset", "x"},
		"-days is 0":                                                                             {"-days", "0"},
		"-until is \"x\"":                                                                        {"-until", "x"},
		"-prometheus takes the place of a trace: leave out t.csv":                                {"t.csv"},
	} {
		code, _, errs := runHere(t.Context(), append([]string{"backtest", "-prometheus", prometheus.URL, "-report", page}, args...)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, want %q: %s", args, code, want, errs)
		}
	}
}

// Replicas are those of the one source, or of the one that states how to count them.
func TestReplicasOf(t *testing.T) {
	one, other := remote.Source{Pool: "p", Class: "a", Match: `x="a"`}, remote.Source{Pool: "p", Class: "b", Queries: remote.Queries{Replicas: "count(up{$match})"}}
	for want, sources := range map[string][]remote.Source{
		`count(vllm:num_requests_running{x="a"})`: {one},
		"count(up{})": {one, other},
		"":            {one, one},
	} {
		if q := replicasOf(sources); q.Query != want || (q.Query == "") == (q.Reason == "") {
			t.Errorf("%+v, want %q", q, want)
		}
	}
}

// Minutes before the first that is known are left out, and classes keep their places in time.
func TestTrim(t *testing.T) {
	nan, start := math.NaN(), time.Unix(0, 0)
	r := &backtest.Recorded{Start: start, Replicas: []float64{1, 2, 3}, Series: []backtest.RecordedSeries{{Values: []float64{nan, 5, nan}}, {Values: []float64{nan, nan, 7}}}}
	trim(r)
	if got := fmt.Sprint(r.Start.Sub(start), r.Replicas, r.Series[0].Values, r.Series[1].Values); got != "1m0s [2 3] [5 NaN] [NaN 7]" {
		t.Error(got)
	}
}
