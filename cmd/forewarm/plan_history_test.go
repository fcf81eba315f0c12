package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/storage"
)

// TestPlanFromHistory: what a store keeps of two classes is the pool's traffic once, not once more for their total; the
// minutes before the daemon began and those without telemetry are left out.
func TestPlanFromHistory(t *testing.T) {
	c := storage.DefaultConfig()
	c.Dir = t.TempDir()
	store, err := storage.OpenStore(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	start := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	for minute := range 60 {
		at := start.Add(time.Duration(minute) * time.Minute)
		var windows []features.Window
		for class, requests := range map[string]float64{"agent": 60, "chat": 120} {
			w := features.Window{
				Key: features.Key{Pool: "p", Class: class}, Start: at, Covered: minute != 30, Settled: true, Reports: 255, Records: requests,
				Requests: requests, RequestsKnown: requests, PromptKnown: requests, PromptTokens: 1000 * requests, CachedKnown: requests,
				CachedTokens: 250 * requests, OutputKnown: requests, OutputTokens: 100 * requests, KVKnown: requests, KVModelled: 3000 * requests, Attempts: 1.1 * requests, Retries: 0.1 * requests,
			}
			windows = append(windows, w)
		}
		if err := store.Append(at.Add(time.Minute), windows, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := capacity.New(capacity.Config{Name: "p", PrefillTokensPerS: 5000, Replicas: capacity.Replicas{Max: 4}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Pool{Pool: pool, Replicas: 2}
	got, err := historyTraffic(context.Background(), storage.History{Store: store}, &p, "test", start.Add(time.Hour), 1)
	if err != nil {
		t.Fatal(err)
	}
	mean := got.Mean()
	if len(got.Minutes) != 59 || math.Abs(mean.Requests-3) > 1e-9 || math.Abs(mean.Prompt-3000) > 1e-6 || math.Abs(mean.Cached-750) > 1e-6 || math.Abs(mean.Output-300) > 1e-6 {
		t.Errorf("%d minutes of %+v, want 59 of 3 requests/s", len(got.Minutes), mean)
	}
	if kv := mean.KV(5000, .025); math.Abs(kv-9000) > 1 {
		t.Errorf("%g KV tokens are held, want 9000", kv)
	}
	if math.Abs(got.Retried-.1) > 1e-9 {
		t.Errorf("%g of requests were tried again, want a tenth", got.Retried)
	}
	if len(got.Classes) != 2 || got.Classes[0].Name != "chat" {
		t.Errorf("classes %+v", got.Classes)
	}
	p.Name = "other"
	if _, err := historyTraffic(context.Background(), storage.History{Store: store}, &p, "test", start.Add(time.Hour), 1); !errors.Is(err, errNoTraffic) {
		t.Errorf("of another pool: %v", err)
	}
}
