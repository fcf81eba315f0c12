package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage"
)

// Records that come after the bound are refused, and their tokens are in the report's totals all the same: from the
// records through the windows and the series to the sentence that people read.
func TestReportHasWhatCameLate(t *testing.T) {
	pool, err := capacity.New(capacity.Config{Name: "p", KVCapacityTokens: 1e6, PrefillTokensPerS: 1e4, DecodeTokensPerS: 1e4, MaxNumSeqs: 64,
		Replicas: capacity.Replicas{Max: 9}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := pipeline.DefaultConfig()
	cfg.Clock, cfg.Pools, cfg.Every = pipeline.EventClock, []capacity.Pool{pool}, time.Hour
	p := pipeline.New(cfg)
	sc := storage.DefaultConfig()
	sc.Dir = t.TempDir()
	h := openList(t, sc)
	emit := func(out *pipeline.Output) {
		if err := h.Store.Append(out.Tick, out.Windows, out.Forecasts, out.Decisions); err != nil {
			t.Fatal(err)
		}
	}

	start := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	rng := rand.New(rand.NewPCG(1, 1))
	late := map[int][]ingest.Request{} // by the minute they come in
	var prompt, cached, output, lateTokens float64
	const minutes, perMinute = 60, 50
	for m := range minutes + 40 {
		b := ingest.Batch{Requests: late[m]}
		for i := range perMinute {
			if m >= minutes {
				break
			}
			r := ingest.Request{
				ID: fmt.Sprint(m, "-", i), Pool: "p", Class: fmt.Sprint("c", i%3), Attempt: 1,
				ArrivedAt:    start.Add(time.Duration(m)*time.Minute + time.Duration(i)*time.Second),
				PromptTokens: rng.Int64N(5000), OutputTokens: rng.Int64N(500), MaxOutputTokens: ingest.Unknown,
			}
			r.CachedTokens = r.PromptTokens / 3
			prompt, cached, output = prompt+float64(r.PromptTokens), cached+float64(r.CachedTokens), output+float64(r.OutputTokens)
			if rng.Float64() < .02 {
				late[m+20] = append(late[m+20], r)
				lateTokens += float64(r.PromptTokens + r.OutputTokens)
				continue
			}
			b.Requests = append(b.Requests, r)
		}
		b.Watermark = &ingest.Watermark{Pool: "p", At: start.Add(time.Duration(m+1) * time.Minute)}
		want := len(late[m])
		p.Apply(&b, emit)
		if len(b.Refused) != want || want > 0 && b.Refused[0].Reason != ingest.ReasonLate {
			t.Fatalf("minute %d: refused %v, want %d that are late", m, b.Refused, want)
		}
	}

	r, err := report.Reconcile(t.Context(), h, start, start.Add((minutes+30)*time.Minute), report.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	total := r.Pools[0].Totals[0]
	for name, x := range map[string][2]float64{
		"requests": {float64(total.Requests), minutes * perMinute}, "prompt": {float64(total.PromptTokens), prompt},
		"cached": {float64(total.CachedTokens), cached}, "output": {float64(total.OutputTokens), output},
		"late": {total.Late.PromptTokens + total.Late.OutputTokens, lateTokens},
	} {
		if math.Abs(x[0]-x[1]) > 1e-6*x[1] {
			t.Errorf("%s: the report has %.1f of %.1f", name, x[0], x[1])
		}
	}
	var md strings.Builder
	if err := report.WriteMarkdown(&md, r); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("They have %.1f %% of all tokens", 100*lateTokens/(prompt+output)); !strings.Contains(md.String(), want) {
		t.Errorf("no %q in\n%s", want, md.String())
	}
	if len(r.Pools[0].Totals) != 4 || total.Class != features.TotalClass {
		t.Errorf("%+v", r.Pools[0].Totals)
	}
}
