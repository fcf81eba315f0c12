package plan_test

import (
	"errors"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage"
)

// TestPlanFromHistory: the traffic of a pool is that of its two classes in the store, and their total does not count
// again. Minutes before the first record and minutes without telemetry are not used.
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
				Key: features.Key{Pool: "p", Class: class}, Start: at, Covered: minute != 30, Settled: true, Reports: 255, Known: 255, Records: requests,
				Requests: requests, PromptTokens: 1000 * requests,
				CachedTokens: 250 * requests, OutputTokens: 110 * requests, KVKnown: requests, KVModelled: 3300 * requests, KVRetried: 300 * requests, Attempts: 1.1 * requests, Retries: 0.1 * requests,
				Served: requests, PromptWasted: 75 * requests, OutputWasted: 5 * requests, PromptRetried: 75 * requests, OutputRetried: 10 * requests,
			}
			windows = append(windows, w)
		}
		if err := store.Append(&pipeline.Output{Tick: at.Add(time.Minute), Windows: windows}); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := capacity.New(capacity.Config{Name: "p", PrefillTokensPerS: 5000, Replicas: capacity.Replicas{Max: 4}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := plan.Input{Pool: plan.Pool{Pool: pool, Replicas: 2}}
	demand := map[string][]float64{}
	history := storage.History{Series: store}
	if err := history.Observed(t.Context(), start.AddDate(0, 0, -1), start.Add(time.Hour), func(key features.Key, dimension string, values []float64) error {
		if key.Class == features.TotalClass {
			demand[dimension] = slices.Clone(values)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := in.SetTraffic(demand, "test"); err != nil {
		t.Fatal(err)
	}
	// A tenth of the calls is retried after an attempt that computed its prompt and half of its output.
	got := in.Traffic
	mean := got.Minutes[0] // all are equal
	if len(got.Minutes) != 59 || math.Abs(mean.Requests-3.3) > 1e-9 || math.Abs(mean.Prompt-3225) > 1e-6 || math.Abs(mean.Cached-750) > 1e-6 || math.Abs(mean.Output-315) > 1e-6 {
		t.Errorf("%d minutes of %+v, want 59 of 3.3 attempts/s", len(got.Minutes), mean)
	}
	if kv := mean.KV(5000, .025); math.Abs(kv-9847) > 1 {
		t.Errorf("%g KV tokens, want 9847", kv)
	}
	if want := "The traffic leaves out 1 minute without telemetry."; !slices.Contains(got.Notes, want) {
		t.Errorf("%q, want %q", got.Notes, want)
	}
	if math.Abs(got.Calls-3) > 1e-9 {
		t.Errorf("%g calls/s, want 3", got.Calls)
	}
	if err := in.SetTraffic(nil, "test"); !errors.Is(err, plan.ErrNoTraffic) {
		t.Errorf("without demand: %v", err)
	}
}

// TestUsePool: a plan uses the replicas, lead and KV capacity of the newest decision. A stated number of replicas is
// kept.
func TestUsePool(t *testing.T) {
	d := &alerting.Decision{Ready: 5, Lead: 11 * time.Minute, ByRole: &alerting.Roles{PrefillReady: 3}, Resources: []alerting.ResourceEvidence{{Dimension: features.DimKV, PerReplica: 85_000}}}
	for stated, want := range map[int]int{0: 5, 2: 2} {
		in := plan.Input{Pool: plan.Pool{Replicas: stated}}
		if err := in.UsePool(&capacity.Pool{Config: capacity.Config{KVTarget: .85}, Disaggregated: true}, 4, d); err != nil {
			t.Fatal(err)
		}
		p := &in.Pool
		if p.Replicas != want || p.Prefill != 3 || p.Lead != 11*time.Minute || p.Reported != 100_000 {
			t.Errorf("%d stated: %d and %d replicas, lead %s, %g KV tokens", stated, p.Replicas, p.Prefill, p.Lead, p.Reported)
		}
	}
}

// TestUsePoolWithoutReplicas: that no replica is ready is known if replicas report. Otherwise the configured number
// counts.
func TestUsePoolWithoutReplicas(t *testing.T) {
	for assumed, want := range map[bool]int{true: 4, false: 0} {
		in := plan.Input{Launch: plan.Same, Traffic: plan.Traffic{Minutes: []plan.Load{{Requests: 1, Prompt: 100, Output: 100, Spread: 1}}}}
		pool := capacity.Pool{Config: capacity.Config{Name: "p", Replicas: capacity.Replicas{Initial: 4, Max: 8}}}
		if err := in.UsePool(&pool, 4, &alerting.Decision{SupplyAssumed: assumed}); err != nil || in.Pool.Replicas != want {
			t.Errorf("assumed %v: %d replicas, %v, want %d", assumed, in.Pool.Replicas, err, want)
		}
		if _, err := plan.New(in); (err != nil) != (want == 0) {
			t.Errorf("assumed %v: %v", assumed, err)
		} else if err != nil && err.Error() != `no replica of pool "p" is known to be ready: state how many there are to be` {
			t.Error(err)
		}
	}
}
