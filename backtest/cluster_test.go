package backtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/google/go-cmp/cmp"
)

// stationConfig is a cluster that is a plain queueing station: c servers, each serving one request at a time at 1 ms
// per token.
func stationConfig(servers int) ClusterConfig {
	cfg := DefaultClusterConfig()
	cfg.Replicas = servers
	cfg.MaxNumSeqs, cfg.KVCapacityTokens, cfg.PrefillTokensPerS = 1, 1<<40, 1e12
	cfg.ITL = ITL{Base: time.Millisecond}
	cfg.QueueTimeout = 24 * time.Hour
	return cfg
}

// erlangC is the probability of waiting in M/M/c with offered load a.
func erlangC(c int, a float64) float64 {
	term, sum := 1.0, 1.0
	for k := 1; k < c; k++ {
		term *= a / float64(k)
		sum += term
	}
	last := term * a / float64(c) / (1 - a/float64(c))
	return last / (sum + last)
}

func TestClusterWaitsAsErlangCSays(t *testing.T) {
	for _, test := range []struct {
		servers int
		rho     float64
	}{{1, .6}, {4, .7}, {10, .75}} {
		const meanTokens = 2000.0 // 2 s of service
		lambda := test.rho * float64(test.servers) / (meanTokens / 1000)
		rng := rand.New(rand.NewPCG(7, uint64(test.servers)))
		c := NewCluster(stationConfig(test.servers))
		at, wait, n := 0.0, 0.0, 0.0
		for i := range 100_000 {
			at += rng.ExpFloat64() / lambda
			c.Submit(Arrival{ID: uint64(i + 1), At: DefaultStart.Add(time.Duration(at * 1e9)), PromptTokens: 1, OutputTokens: 1 + int64(rng.ExpFloat64()*meanTokens)})
			if i%10_000 == 9_999 {
				c.Advance(DefaultStart.Add(time.Duration(at * 1e9)))
				requests, _ := c.Drain()
				for _, r := range requests {
					wait += r.StartedAt.Sub(r.ArrivedAt).Seconds()
					n++
				}
			}
		}
		a := test.rho * float64(test.servers)
		want := erlangC(test.servers, a) * (meanTokens / 1000) / (float64(test.servers) - a)
		if got := wait / n; math.Abs(got/want-1) > .08 {
			t.Errorf("M/M/%d at %g: mean wait %.3f s, Erlang C says %.3f s", test.servers, test.rho, got, want)
		}
	}
}

// Token-seconds of KV held, sampled each minute, are the arrival rate times each request's area under its occupancy
// curve (Little's law), with ITL by its own fixed point.
func TestClusterHoldsKVAsLittleSays(t *testing.T) {
	cfg := DefaultClusterConfig()
	cfg.Replicas = 1
	cfg.KVCapacityTokens, cfg.MaxNumSeqs, cfg.PrefillTokensPerS = 1<<40, 1<<20, 1e9
	rng := rand.New(rand.NewPCG(1, 2))
	c := NewCluster(cfg)
	const lambda, prompt, output = 2.0, 1000, 300
	at, held, samples, itl, finished := 0.0, 0.0, 0.0, 0.0, 0.0
	for i := 0; at < 6*3600; i++ {
		at += rng.ExpFloat64() / lambda
		c.Submit(Arrival{ID: uint64(i + 1), At: DefaultStart.Add(time.Duration(at * 1e9)), PromptTokens: prompt, OutputTokens: output})
		c.Advance(DefaultStart.Add(time.Duration(at * 1e9)))
		requests, replicas := c.Drain()
		for _, r := range replicas {
			held += float64(r.KVUsedTokens)
			samples++
		}
		for _, r := range requests {
			itl += r.FinishedAt.Sub(r.FirstTokenAt).Seconds() / (output - 1)
			finished++
		}
	}
	itl /= finished
	n := lambda * itl * output
	if want := cfg.ITL.At(int(math.Round(n)), n*(prompt+output/2)); math.Abs(itl/want-1) > .03 {
		t.Errorf("mean ITL %.4f s, at the mean batch it is %.4f s", itl, want)
	}
	if got, want := held/samples, lambda*itl*(prompt*output+output*output/2.0); math.Abs(got/want-1) > .05 {
		t.Errorf("KV held %.0f tokens, Little's law says %.0f", got, want)
	}
}

func TestClusterPrefillIsShared(t *testing.T) {
	cfg := DefaultClusterConfig()
	cfg.Replicas = 1
	cfg.PrefillTokensPerS = 1000
	c := NewCluster(cfg)
	for id := range uint64(2) {
		c.Submit(Arrival{ID: id + 1, At: DefaultStart, PromptTokens: 2000 + 1000*int64(id), CachedTokens: 1000, OutputTokens: 1})
	}
	c.Advance(DefaultStart.Add(time.Minute))
	requests, _ := c.Drain()
	// 1000 and 2000 tokens to compute at 1000/s: side by side for 2 s, then the longer one alone for 1 s.
	want := []time.Duration{2 * time.Second, 3 * time.Second}
	for i, r := range requests {
		if got := r.FirstTokenAt.Sub(DefaultStart).Round(time.Millisecond); got != want[i] {
			t.Errorf("request %s: first token after %s, want %s", r.ID, got, want[i])
		}
	}
	if len(requests) != 2 {
		t.Fatalf("%d requests finished, want 2", len(requests))
	}
}

func TestClusterPreemptsTheNewestAndRecomputes(t *testing.T) {
	cfg := DefaultClusterConfig()
	cfg.Replicas = 1
	cfg.KVCapacityTokens = 10_000
	c := NewCluster(cfg)
	for id := range uint64(2) {
		c.Submit(Arrival{ID: id + 1, At: DefaultStart.Add(time.Duration(id) * time.Millisecond), PromptTokens: 4000, OutputTokens: 3000})
	}
	c.Advance(DefaultStart.Add(5 * time.Minute))
	requests, replicas := c.Drain()
	if len(requests) != 2 || requests[0].ID != "1" {
		t.Fatalf("want request 1, then request 2 finished, got %+v", requests)
	}
	if got := c.Metrics().Preemptions; got != 1 {
		t.Errorf("%d preemptions, want 1", got)
	}
	if first, second := requests[0].FinishedAt, requests[1].FinishedAt; second.Sub(first) < 10*time.Second {
		t.Errorf("the preempted request ended %s after the other: it must have waited for its cache", second.Sub(first))
	}
	for _, r := range replicas {
		if r.KVUsedTokens > cfg.KVCapacityTokens {
			t.Errorf("%s: %d tokens held of %d", r.At, r.KVUsedTokens, cfg.KVCapacityTokens)
		}
	}
	if last := replicas[len(replicas)-1]; last.KVUsedTokens != 0 {
		t.Errorf("an idle replica holds %d tokens", last.KVUsedTokens)
	}
}

func TestClusterRejectsAndRetries(t *testing.T) {
	cfg := DefaultClusterConfig()
	cfg.Replicas, cfg.MaxAttempts = 0, 2
	c := NewCluster(cfg)
	c.Submit(Arrival{ID: 1, At: DefaultStart, PromptTokens: 10, OutputTokens: 10})
	c.Advance(DefaultStart.Add(3 * time.Minute))
	requests, _ := c.Drain()
	var got []ingest.Request
	for _, r := range requests {
		got = append(got, ingest.Request{ID: r.ID, Attempt: r.Attempt, Phase: r.Phase, Status: r.Status, OutputTokens: r.OutputTokens})
	}
	want := []ingest.Request{
		{ID: "1", Attempt: 1, Phase: ingest.PhaseRejected, Status: ingest.StatusRejected, OutputTokens: ingest.Unknown},
		{ID: "1", Attempt: 2, Phase: ingest.PhaseRejected, Status: ingest.StatusRejected, OutputTokens: ingest.Unknown},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if m := c.Metrics(); m.Failed != 1 || m.Finished != 0 {
		t.Errorf("want one failed request: %+v", m)
	}
}

func TestWarmupDrawsAreLognormal(t *testing.T) {
	var draws []float64
	p := FluidPool{p50: 480, p90: 660, seed: 5}
	for k := range uint64(20_000) {
		draws = append(draws, p.lag(k).Seconds())
	}
	slices.Sort(draws)
	for p, want := range map[float64]float64{.5: 480, .9: 660} {
		if got := draws[int(p*float64(len(draws)))]; math.Abs(got/want-1) > .02 {
			t.Errorf("quantile %g of the warm-up is %.0f s, want %.0f s", p, got, want)
		}
	}
}

// Two runs of a day's hour are equal to the byte, whatever the steps in which the clock is advanced.
func TestClusterIsDeterministic(t *testing.T) {
	run := func(step time.Duration) ([]ingest.Request, Metrics) {
		c := NewCluster(DefaultClusterConfig())
		w := surge{end: 20 * time.Minute}.arrivals(9)
		var all []ingest.Request
		for at := DefaultStart; at.Before(DefaultStart.Add(20 * time.Minute)); at = at.Add(step) {
			for ; len(w) > 0 && !w[0].At.After(at.Add(step)); w = w[1:] {
				c.Submit(w[0])
			}
			c.Advance(at.Add(step))
			requests, _ := c.Drain()
			all = append(all, requests...)
		}
		return all, c.Metrics()
	}
	a, am := run(time.Minute)
	b, bm := run(10 * time.Second)
	if diff := cmp.Diff(a, b); diff != "" || len(a) == 0 {
		t.Errorf("%d records; steps of the clock show in them: %s", len(a), diff)
	}
	if diff := cmp.Diff(am, bm); diff != "" || am.Minutes != 20 {
		t.Errorf("%d minutes; %s", am.Minutes, diff)
	}
}
