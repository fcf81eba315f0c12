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

// learnedOf runs hours of rising and falling traffic through a simulated pool, and gives what the pipeline took its
// replicas to serve at the end, and the tokens that a running sequence held on average. stated is the pool's
// configuration; with restart it is saved and restored when too little is left to learn all of it again.
func learnedOf(t *testing.T, cfg ClusterConfig, stated capacity.Config, restart bool) (pipeline.PoolService, float64) {
	t.Helper()
	pool, err := capacity.New(stated, nil)
	if err != nil {
		t.Fatal(err)
	}
	pc := pipeline.DefaultConfig()
	pc.Clock, pc.Pools, pc.Every, pc.Decision.Mode = pipeline.EventClock, []capacity.Pool{pool}, 30*time.Minute, alerting.Active
	p := pipeline.New(pc)
	const end = 180 * time.Minute
	var arrivals []Arrival
	for _, a := range (surge{end: 5 * end, factor: 1}).arrivals(7) {
		a.At = DefaultStart.Add(a.At.Sub(DefaultStart) / 5) // five times the rate, half, or an eighth of it, twenty minutes each
		if a.ID%[...]uint64{8, 2, 1}[int(a.At.Sub(DefaultStart)/(20*time.Minute))%3] == 0 {
			arrivals = append(arrivals, a)
		}
	}
	var last pipeline.PoolService
	take := func(out *pipeline.Output) {
		if len(out.Services) > 0 {
			last = out.Services[0]
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
			p = restored(t, p, pc)
		}
	})
	return last, held / running
}

// TestLearnsTheSimulatedPool: from the telemetry of a pool alone, what it serves at its objective comes within 10 % of
// what its laws say, in prefill and decode, whether the cache or the latency binds, a restart or not. With twice as
// much stated, the pipeline believes what it sees and says so.
func TestLearnsTheSimulatedPool(t *testing.T) {
	for _, x := range []struct {
		binds       string
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
			{"decode", cfg.DecodeTokensPerS(context), got.Rates.Decode(), got.Decode},
			{"prefill", cfg.PrefillTokensPerS, got.Rates.PrefillTokensPerS, got.Prefill},
		} {
			t.Logf("%s binds: %s %.0f tokens/s, learned %.0f (%.0f…%.0f)", x.binds, y.name, y.truth, y.basis.Learned.Value, y.basis.Learned.Low, y.basis.Learned.High)
			if math.Abs(y.basis.Learned.Value/y.truth-1) > .1 || math.Abs(y.rate/y.truth-1) > .15 || y.basis.Source != capacity.Learned || y.basis.Disagrees != x.statedTwice {
				t.Errorf("%s binds: %s taken as %.0f tokens/s, the truth is %.0f: %+v", x.binds, y.name, y.rate, y.truth, y.basis)
			}
		}
		if n := len(got.Warnings); x.statedTwice && (n != 2 || !strings.Contains(got.Warnings[0], "as rates: learned says")) || !x.statedTwice && n != 0 {
			t.Errorf("%s binds: warnings %q", x.binds, got.Warnings)
		}
	}
}

func restored(t *testing.T, p *pipeline.Pipeline, pc pipeline.Config) *pipeline.Pipeline {
	t.Helper()
	var b bytes.Buffer
	if err := p.Encode(&b); err != nil {
		t.Fatal(err)
	}
	again, err := pipeline.Restore(pc, &b)
	if err != nil {
		t.Fatal(err)
	}
	return again
}
