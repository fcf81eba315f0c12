package backtest

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

// learnedOf runs three hours of rising and falling traffic through a simulated pool. It returns the service rates that
// the pipeline uses at the end, and the KV tokens that a running sequence held on average. stated is the pool's
// configuration. With restart, the pipeline is saved and restored after 140 minutes: the remaining 40 are too few to
// learn everything again.
func learnedOf(t *testing.T, cfg ClusterConfig, stated capacity.Config, restart bool) (service pipeline.PoolOutput, context float64) {
	t.Helper()
	pool, err := capacity.New(stated, nil)
	if err != nil {
		t.Fatal(err)
	}
	pc := pipeline.DefaultConfig()
	pc.Clock, pc.Pools, pc.Decision.Mode = pipeline.EventClock, []capacity.Pool{pool}, alerting.Active
	p := pipeline.New(pc)
	const end = 180 * time.Minute
	var arrivals []Arrival
	for _, a := range (surge{end: 5 * end, factor: 1}).arrivals(7) {
		a.At = DefaultStart.Add(a.At.Sub(DefaultStart) / 5) // five times the usual rate: an eighth, a half, all of it, for twenty minutes each
		if a.ID%[...]uint64{8, 2, 1}[int(a.At.Sub(DefaultStart)/(20*time.Minute))%3] == 0 {
			arrivals = append(arrivals, a)
		}
	}
	take := func(out *pipeline.Output) {
		if len(out.Pools) > 0 {
			service = out.Pools[0]
		}
	}
	running, held := 0.0, 0.0
	var batch ingest.Batch
	served(t, cfg, arrivals, end, func(now time.Time, rs []ingest.Request, replicas []ingest.Replica) {
		batch.Requests, batch.Replicas = append(batch.Requests, rs...), append(batch.Replicas, replicas...)
		for i := range replicas {
			running, held = running+float64(max(replicas[i].Running, 0)), held+float64(max(replicas[i].KVUsedTokens, 0))
		}
		if now.Equal(now.Truncate(features.Minute)) {
			batch.Watermark = &ingest.Watermark{Pool: cfg.Pool, At: now}
			p.Apply(&batch, take)
			batch = ingest.Batch{}
		}
		if restart && now.Equal(DefaultStart.Add(140*time.Minute)) {
			var b bytes.Buffer
			if err := p.Encode(&b); err != nil {
				t.Fatal(err)
			}
			if p, err = pipeline.Restore(pc, &b); err != nil {
				t.Fatal(err)
			}
		}
	})
	return service, held / running
}

// TestLearnsTheSimulatedPool: the pipeline learns from telemetry alone, to within 10 %, the prefill and decode rates
// that the simulated pool has at its objective. One pool is limited by its KV cache. The other is limited by its
// latency, has rates that are stated twice too high, which the pipeline must overrule and warn of, and is restarted.
func TestLearnsTheSimulatedPool(t *testing.T) {
	for _, x := range []struct {
		limit       string
		kvCapacity  int64
		itl         time.Duration
		statedTwice bool
	}{
		{"cache", 128_000, 60 * time.Millisecond, false},
		{"latency", 400_000, 24 * time.Millisecond, true},
	} {
		cfg := DefaultClusterConfig()
		cfg.Pool, cfg.Replicas = "sim", 2
		cfg.PrefillTokensPerS, cfg.MaxNumSeqs, cfg.KVCapacityTokens, cfg.Objective = 20_000, 256, x.kvCapacity, x.itl
		stated := cfg.Capacity(3000)
		stated.Rates = capacity.Learned
		stated.MaxNumSeqs, stated.PrefillTokensPerS, stated.DecodeTokensPerS = 0, 2*stated.PrefillTokensPerS, 2*stated.DecodeTokensPerS
		if !x.statedTwice {
			stated.PrefillTokensPerS, stated.DecodeTokensPerS = 0, 0
		}
		got, context := learnedOf(t, cfg, stated, x.statedTwice)
		for _, y := range []struct {
			name        string
			truth, rate float64
			basis       capacity.Basis
		}{
			{"decode", cfg.DecodeTokensPerS(context), got.Trusted.Rates.DecodeTokensPerS, got.Trusted.Decode},
			{"prefill", cfg.PrefillTokensPerS, got.Trusted.Rates.PrefillTokensPerS, got.Trusted.Prefill},
		} {
			t.Logf("limited by %s: %s %.0f tokens/s, learned %.0f (%.0f…%.0f)", x.limit, y.name, y.truth, y.basis.Learned.Value, y.basis.Learned.Low, y.basis.Learned.High)
			if math.Abs(y.basis.Learned.Value/y.truth-1) > .1 || math.Abs(y.rate/y.truth-1) > .15 || y.basis.Source != capacity.Learned {
				t.Errorf("limited by %s: %s %.0f tokens/s, want %.0f: %+v", x.limit, y.name, y.rate, y.truth, y.basis)
			}
		}
		if n := len(got.Trusted.Warnings); x.statedTwice && (n != 2 || !strings.Contains(got.Trusted.Warnings[0], "as rates: learned says")) || !x.statedTwice && n != 0 {
			t.Errorf("limited by %s: warnings %q", x.limit, got.Trusted.Warnings)
		}
	}
}
