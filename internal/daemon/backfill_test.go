package daemon

import (
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
)

// pastDays is short, because learning a day takes some time. The default of backfill.days is 14.
var pastDays = flag.Int("past-days", 2, "`days` of the past in TestScenarioBackfill")

// TestScenarioBackfill: at its first start, the daemon learns past traffic of vLLM from a real Prometheus.
// Then it forecasts the rise of each morning from its first minutes on. The second start asks for nothing.
func TestScenarioBackfill(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Minute)
	// The daily traffic is shifted, so that now is at half past seven of its day.
	turn := now.Sub(now.Truncate(24*time.Hour)) - 7*time.Hour - 30*time.Minute
	prometheus := testenv.PrometheusPast(t, *pastDays+1, now, turn)

	dir := t.TempDir()
	lines := []string{
		"pools: [{name: chat, replicas: {max: 40}, kv_capacity_tokens: 100000}]",
		fmt.Sprintf(`backfill: {url: '%s', days: %d, sources: [{pool: chat, match: 'model_name="llama"', queries: {requests: none, decode: none, kv: none}}]}`, prometheus.URL, *pastDays),
	}
	p := startDaemonIn(t, dir, lines...)
	began := time.Now()
	lessons := uint64(*pastDays * ingest.MaxHistoryMinutes / learnStepMinutes)
	testenv.Await(t, "the past to be learned", func() bool { return p.exporter.Records.Get() >= lessons && caughtUp(p.Status()) })
	t.Logf("%d days in %s", *pastDays, time.Since(began).Round(time.Millisecond))
	p.stop()
	if got := p.pipeline.Counters(); got.Records != lessons || len(got.Refused) > 0 {
		t.Errorf("counted: %+v", got)
	}

	// The next minutes are applied directly, because they would take an hour.
	cold := pipeline.New(p.cfg.Pipeline())
	const minutes, ahead = 20, 50
	known, errs := map[string]int{}, [2]float64{}
	for i, pipe := range []*pipeline.Pipeline{p.pipeline, cold} {
		var forecast float64
		for m := range minutes {
			at := now.Add(time.Duration(m+1) * time.Minute)
			rate := testenv.Seasonal(at.Add(-turn))
			pipe.Apply(&ingest.Batch{
				ReceivedAt: at.Add(time.Minute),
				Sums: []ingest.Sum{{
					Pool: "chat", Class: "c", Start: at, Requests: 60 * rate, PromptTokens: 60 * 1000 * rate, CachedTokens: 60 * 400 * rate, OutputTokens: 60 * 200 * rate,
				}},
				Watermark: &ingest.Watermark{At: at.Add(time.Minute)},
			}, func(o *pipeline.Output) {
				for _, pool := range o.Pools {
					for _, f := range pool.Forecast.Total {
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
		errs[i] = math.Abs(forecast - 600*testenv.Seasonal(now.Add((minutes+ahead)*time.Minute).Add(-turn)))
	}
	if errs[0] > .75*errs[1] {
		t.Errorf("50 minutes before the rise the error of the forecast of prefill is %.0f tokens/s; without a past it is %.0f", errs[0], errs[1])
	}
	t.Logf("the error of the forecast is %.0f tokens/s, without a past %.0f", errs[0], errs[1])
	for dimension, days := range map[string]int{features.DimRequests: 0, features.DimPrefill: *pastDays, features.DimKV: 0, features.DimDecode: 0} {
		if got := known[dimension]; got < 1435*days || days == 0 && got > minutes {
			t.Errorf("%s: %d minutes are known, want %d days", dimension, got, days)
		}
	}

	prometheus.Stop()
	p = startDaemonIn(t, dir, lines...) // without Prometheus
	if got := p.pipeline.Counters().Records; got != lessons {
		t.Errorf("restored: %d records", got)
	}
}

// TestBackfillRefuses: if the past cannot be read, the daemon does not start. The error says why and how to fix it.
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
		d, err := newDaemon(t, t.TempDir(), onePool, "backfill: {url: '"+srv.URL+"'}", "nats: {embedded: {listen: '127.0.0.1:0'}}")
		if err == nil {
			_ = d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "remove backfill.url") {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// caughtUp reports whether the whole stream is applied.
func caughtUp(s server.Status) bool { return s.Lag != nil && *s.Lag == 0 }
