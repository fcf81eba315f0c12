package testenv

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Seasonal is a demand whose days are alike, in requests a second, with a steep morning at eight.
func Seasonal(at time.Time) float64 {
	hour := at.Sub(at.Truncate(24 * time.Hour)).Hours()
	return 20 + 15*math.Tanh(4*(hour-8)) - 15*math.Tanh(4*(hour-18))
}

// vllmHistory are the metrics of two vLLM replicas over some days until end, scraped each half minute, as OpenMetrics.
// turn moves the daily season later.
func vllmHistory(days int, end time.Time, turn time.Duration) []byte {
	const step = 30 * time.Second
	var text bytes.Buffer
	for _, instance := range []string{"a:8000", "b:8000"} {
		for name, perRequest := range map[string]float64{
			"vllm:request_success_total": 1, "vllm:prompt_tokens_total": 1000, "vllm:prompt_tokens_cached_total": 400, "vllm:generation_tokens_total": 200,
			"vllm:kv_cache_usage_perc": 0, "vllm:num_requests_running": 0,
		} {
			total := 0.0
			for at := end.AddDate(0, 0, -days); !at.After(end); at = at.Add(step) {
				rate := Seasonal(at.Add(-turn)) / 2
				total += rate * perRequest * step.Seconds()
				v := total
				if perRequest == 0 {
					v = rate / 25
				}
				fmt.Fprintf(&text, "%s{instance=%q,model_name=\"llama\"} %g %d\n", name, instance, v, at.Unix())
			}
		}
	}
	text.WriteString("# EOF") // WriteFile ends the line
	return text.Bytes()
}

// PrometheusPast is a Prometheus over blocks of that history.
func PrometheusPast(t testing.TB, days int, end time.Time, turn time.Duration) *Server {
	dir := filepath.Join(t.TempDir(), "prometheus")
	file := WriteFile(t, filepath.Join(t.TempDir(), "history"), string(vllmHistory(days, end, turn)))
	command := exec.CommandContext(t.Context(), Program(t, "prometheus", "promtool"), "tsdb", "create-blocks-from", "openmetrics", file, dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return StartPrometheus(t, nil, dir, "")
}

// VictoriaPast is a VictoriaMetrics that was sent that history.
func VictoriaPast(t testing.TB, days int, end time.Time, turn time.Duration) *Server {
	p := StartVictoria(t, filepath.Join(t.TempDir(), "victoria"), "")
	resp, err := http.Post(p.URL+"/api/v1/import/prometheus", "text/plain", bytes.NewReader(vllmHistory(days, end, turn)))
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
	last := fmt.Sprintf("%s/api/v1/query?query=count(last_over_time({model_name='llama'}[5m]))&time=%d", p.URL, end.Unix())
	Await(t, "VictoriaMetrics to answer with all series", func() bool { _, body := Get(last); return strings.Contains(body, `"12"`) })
	return p
}
