package testenv

import (
	promstorage "github.com/prometheus/prometheus/storage"

	"bytes"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// Seasonal is a demand whose days are alike, in requests a second, with a steep morning at eight.
func Seasonal(at time.Time) float64 {
	hour := at.Sub(at.Truncate(24 * time.Hour)).Hours()
	return 20 + 15*math.Tanh(4*(hour-8)) - 15*math.Tanh(4*(hour-18))
}

// point is one sample, as the TSDB wants it.
type point struct {
	t int64
	v float64
}

func (p point) T() int64                      { return p.t }
func (p point) F() float64                    { return p.v }
func (p point) ST() int64                     { return 0 }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// vllmHistory calls series with the metrics of two vLLM replicas over some days until end, scraped each half minute.
// turn moves the daily season later.
func vllmHistory(days int, end time.Time, turn time.Duration, series func(l labels.Labels, samples []chunks.Sample)) {
	start := end.AddDate(0, 0, -days)
	const step = 30 * time.Second
	for _, instance := range []string{"a:8000", "b:8000"} {
		for name, perRequest := range map[string]float64{
			"vllm:request_success_total": 1, "vllm:prompt_tokens_total": 1000, "vllm:prompt_tokens_cached_total": 400, "vllm:generation_tokens_total": 200,
			"vllm:kv_cache_usage_perc": 0, "vllm:num_requests_running": 0,
		} {
			var samples []chunks.Sample
			total := 0.0
			for at := start; !at.After(end); at = at.Add(step) {
				rate := Seasonal(at.Add(-turn)) / 2
				total += rate * perRequest * step.Seconds()
				v := total
				if perRequest == 0 {
					v = rate / 25
				}
				samples = append(samples, point{at.UnixMilli(), v})
			}
			series(labels.FromStrings("__name__", name, "instance", instance, "model_name", "llama"), samples)
		}
	}
}

// PrometheusPast is a Prometheus over a block of that history.
func PrometheusPast(t testing.TB, days int, end time.Time, turn time.Duration) *Server {
	dir := filepath.Join(t.TempDir(), "prometheus")
	var all []promstorage.Series
	vllmHistory(days, end, turn, func(l labels.Labels, samples []chunks.Sample) {
		all = append(all, promstorage.NewListSeries(l, samples))
	})
	if _, err := tsdb.CreateBlock(all, dir, int64(2*days+2)*24*time.Hour.Milliseconds(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return StartPrometheus(t, dir, "")
}

// VictoriaPast is a VictoriaMetrics that was sent that history.
func VictoriaPast(t testing.TB, days int, end time.Time, turn time.Duration) *Server {
	p := StartVictoria(t, filepath.Join(t.TempDir(), "victoria"), "")
	vllmHistory(days, end, turn, func(l labels.Labels, samples []chunks.Sample) {
		var text bytes.Buffer
		for _, s := range samples {
			fmt.Fprintf(&text, "%s{instance=%q,model_name=\"llama\"} %g %d\n", l.Get("__name__"), l.Get("instance"), s.F(), s.T())
		}
		resp, err := http.Post(p.URL+"/api/v1/import/prometheus", "text/plain", &text)
		if err != nil || resp.StatusCode/100 != 2 {
			t.Fatalf("%v, %v", resp, err)
		}
		_ = resp.Body.Close()
	})
	last := fmt.Sprintf("%s/api/v1/query?query=count(last_over_time({model_name='llama'}[5m]))&time=%d", p.URL, end.Unix())
	Await(t, "VictoriaMetrics to answer with all series", func() bool { _, body := Get(last); return strings.Contains(body, `"12"`) })
	return p
}
