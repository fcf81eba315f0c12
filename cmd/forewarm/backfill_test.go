package main

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/pipeline"
)

// pastDays is short, for learning a day takes a race detector a while; -past-days 14 is what a user has.
var pastDays = flag.Int("past-days", 2, "`days` of the past in TestBackfill")

// seasonal is a demand whose days are alike, in requests a second, with a steep morning at eight.
func seasonal(at time.Time) float64 {
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

// vllmHistory gives what two vLLM replicas exposed over some days until end, scraped each half minute, of a season that is
// late by turn.
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
				rate := seasonal(at.Add(-turn)) / 2
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

// prometheusPast is a Prometheus over a block of that history.
func prometheusPast(t *testing.T, days int, end time.Time, turn time.Duration) *prometheusServer {
	dir := filepath.Join(t.TempDir(), "prometheus")
	var all []promstorage.Series
	vllmHistory(days, end, turn, func(l labels.Labels, samples []chunks.Sample) {
		all = append(all, promstorage.NewListSeries(l, samples))
	})
	if _, err := tsdb.CreateBlock(all, dir, int64(2*days+2)*24*time.Hour.Milliseconds(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return startPrometheus(t, dir, "")
}

// victoriaPast is a VictoriaMetrics that was sent that history.
func victoriaPast(t *testing.T, days int, end time.Time, turn time.Duration) *prometheusServer {
	p := startVictoria(t, filepath.Join(t.TempDir(), "victoria"), "")
	vllmHistory(days, end, turn, func(l labels.Labels, samples []chunks.Sample) {
		var text bytes.Buffer
		for _, s := range samples {
			fmt.Fprintf(&text, "%s{instance=%q,model_name=\"llama\"} %g %d\n", l.Get("__name__"), l.Get("instance"), s.F(), s.T())
		}
		resp, err := http.Post(p.url+"/api/v1/import/prometheus", "text/plain", &text)
		if err != nil || resp.StatusCode/100 != 2 {
			t.Fatalf("%v, %v", resp, err)
		}
		_ = resp.Body.Close()
	})
	last := fmt.Sprintf("%s/api/v1/query?query=count(last_over_time({model_name='llama'}[5m]))&time=%d", p.url, end.Unix())
	testenv.Await(t, "VictoriaMetrics to answer with all series", func() bool { _, body := get(last); return strings.Contains(body, `"12"`) })
	return p
}

// TestBackfill: at its first start the daemon learns from a real Prometheus, or VictoriaMetrics, what vLLM's replicas served
// before, and foresees from its first minutes the rise that comes each morning. The second start asks nobody.
func TestBackfill(t *testing.T) {
	t.Run("prometheus", func(t *testing.T) { testBackfill(t, prometheusPast) })
	t.Run("victoria", func(t *testing.T) { testBackfill(t, victoriaPast) })
}

func testBackfill(t *testing.T, serve func(t *testing.T, days int, end time.Time, turn time.Duration) *prometheusServer) {
	now := time.Now().UTC().Truncate(time.Minute)
	// The season is turned so that it is now half past seven in it.
	turn := now.Sub(now.Truncate(24*time.Hour)) - 7*time.Hour - 30*time.Minute
	prometheus := serve(t, *pastDays+1, now, turn)

	dir := t.TempDir()
	lines := []string{
		"pools: [{name: chat, replicas: {max: 40}, kv_capacity_tokens: 100000}]",
		fmt.Sprintf(`backfill: {url: '%s', days: %d, sources: [{pool: chat, match: 'model_name="llama"', queries: {requests: none, decode: none, kv: none}}]}`, prometheus.url, *pastDays),
	}
	p := startDaemonIn(t, dir, lines...)
	began := time.Now()
	testenv.Await(t, "the past to be learned", func() bool { return p.Status().Lag == 0 && p.Status().LagKnown })
	t.Logf("%d days in %s", *pastDays, time.Since(began).Round(time.Millisecond))
	p.stop()
	lessons := uint64(*pastDays * ingest.MaxHistoryMinutes / lessonMinutes)
	if got := p.pipeline.Counters(); got.Records != lessons || len(got.Refused) > 0 {
		t.Errorf("folded: %+v", got)
	}

	// What comes next is folded by hand, for it takes the wall clock an hour.
	cold := pipeline.New(must(p.cfg.Pipeline()))
	const minutes, ahead = 20, 50
	known, errs := map[string]int{}, [2]float64{}
	for i, fold := range []*pipeline.Pipeline{p.pipeline, cold} {
		var forecast float64
		for m := range minutes {
			at := now.Add(time.Duration(m+1) * time.Minute)
			rate := seasonal(at.Add(-turn))
			fold.Apply(&ingest.Batch{
				ReceivedAt: at.Add(time.Minute),
				Sums: []ingest.Sum{{
					Pool: "chat", Class: "c", Start: at, Requests: 60 * rate, PromptTokens: 60 * 1000 * rate, CachedTokens: 60 * 400 * rate, OutputTokens: 60 * 200 * rate,
				}},
				Watermark: &ingest.Watermark{At: at.Add(time.Minute)},
			}, func(o *pipeline.Output) {
				for _, pool := range o.Forecasts {
					for _, f := range pool.Total {
						if i == 0 {
							known[f.Dimension] = f.Known
						}
						if f.Dimension == features.DimPrefill {
							forecast = f.Minute[ahead-1][forecaster.L50]
						}
					}
				}
			})
		}
		errs[i] = math.Abs(forecast - 600*seasonal(now.Add((minutes+ahead)*time.Minute).Add(-turn)))
	}
	if errs[0] > .75*errs[1] {
		t.Errorf("50 minutes before the morning the forecast of prefill is off by %.0f tokens/s; without a past by %.0f", errs[0], errs[1])
	}
	t.Logf("the forecast is off by %.0f tokens/s, without a past by %.0f", errs[0], errs[1])
	for dimension, days := range map[string]int{features.DimRequests: 0, features.DimPrefill: *pastDays, features.DimKV: 0, features.DimDecode: 0} {
		if got := known[dimension]; got < 1435*days || days == 0 && got > minutes {
			t.Errorf("%s: %d minutes are known, of %d days", dimension, got, days)
		}
	}

	prometheus.stop()
	p = startDaemonIn(t, dir, lines...) // Prometheus is gone, and not missed
	if got := p.pipeline.Counters().Records; got != lessons {
		t.Errorf("restored: %d records", got)
	}
}

// What is wrong with the past is said at once, with the query and the mend, and nothing is stored.
func TestBackfillRefuses(t *testing.T) {
	answer := `{"status":"success","data":{"resultType":"matrix","result":[]}}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1/query" { // for the KV capacity
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
			return
		}
		if strings.Contains(answer, `"error"`) {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer srv.Close()
	for want, a := range map[string]string{
		"no query has any value in 14 days": answer,
		`parse error`:                       `{"status":"error","errorType":"bad_data","error":"parse error"}`,
		"the answer has 2 series":           `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"1"},"values":[]},{"metric":{"a":"2"},"values":[]}]}}`,
	} {
		answer = a
		dir := t.TempDir()
		path := writeFile(t, filepath.Join(dir, "forewarm.yaml"), soundPool, "backfill: {url: '"+srv.URL+"'}",
			"nats: {embedded: {listen: '127.0.0.1:0'}}", "storage: {dir: "+filepath.Join(dir, "data")+"}", "server: {listen: '127.0.0.1:0'}")
		cfg, err := loadConfig(path, "")
		if err != nil {
			t.Fatal(err)
		}
		d, err := openDaemon(t.Context(), cfg, zap.NewNop())
		if err == nil {
			_ = d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "remove backfill.url") {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
