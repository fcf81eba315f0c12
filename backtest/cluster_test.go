package backtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/google/go-cmp/cmp"
)

// erlangC returns the probability of waiting in M/M/c with offered load a.
func erlangC(c int, a float64) float64 {
	term, sum := 1.0, 1.0
	for k := 1; k < c; k++ {
		term *= a / float64(k)
		sum += term
	}
	last := term * a / float64(c) / (1 - a/float64(c))
	return last / (sum + last)
}

// TestClusterErlangC: with one slot a replica and 1 ms a token, the mean wait is that of M/M/c.
func TestClusterErlangC(t *testing.T) {
	for _, test := range []struct {
		servers int
		rho     float64
	}{{1, .6}, {4, .7}, {10, .75}} {
		const meanTokens = 2000.0 // 2 s of service
		lambda := test.rho * float64(test.servers) / (meanTokens / 1000)
		rng := rand.New(rand.NewPCG(7, uint64(test.servers)))
		cfg := DefaultClusterConfig()
		cfg.Replicas, cfg.MaxNumSeqs, cfg.KVCapacityTokens, cfg.PrefillTokensPerS = test.servers, 1, 1<<40, 1e12
		cfg.ITL = ITL{Base: time.Millisecond}
		cfg.QueueTimeout = 24 * time.Hour
		c := NewCluster(cfg)
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
			t.Errorf("M/M/%d at %g: mean wait %.3f s, want %.3f s by Erlang C", test.servers, test.rho, got, want)
		}
	}
}

// TestClusterKV: the mean KV tokens held are the arrival rate times the token-seconds of a request (Little's law). The
// time per output token is that of the mean batch.
func TestClusterKV(t *testing.T) {
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
		t.Errorf("mean time per output token %.4f s, want %.4f s as at the mean batch", itl, want)
	}
	if got, want := held/samples, lambda*itl*(prompt*output+output*output/2.0); math.Abs(got/want-1) > .05 {
		t.Errorf("%.0f KV tokens held, want %.0f by Little's law", got, want)
	}
}

// TestClusterConservesRequests: the mean number in the system, with those that wait, is the arrival rate times the mean
// time in it (Little's law). In each minute, every request that arrived is finished, failed, due for a retry, queued or
// running.
func TestClusterConservesRequests(t *testing.T) {
	cfg := DefaultClusterConfig()
	cfg.Replicas = 3
	cfg.MaxNumSeqs = 8
	cfg.QueueTimeout, cfg.Patience = 10*time.Second, 60*time.Second
	c := NewCluster(cfg)
	rng := rand.New(rand.NewPCG(2, 3))
	var inside, minutes, spent, ended float64
	const rate, seconds = 1.9, 10 * 3600.
	minute := 60.
	for i, at := uint64(1), rng.ExpFloat64()/rate; at < seconds; i, at = i+1, at+rng.ExpFloat64()/rate {
		for ; at >= minute; minute += 60 {
			c.Advance(DefaultStart.Add(time.Duration(minute * 1e9)))
			requests, replicas := c.Drain()
			here := int64(c.waiting())
			for _, r := range replicas[len(replicas)-3:] {
				here += r.Running
			}
			m := c.Metrics()
			if all := m.Finished + m.Failed + here + int64(len(c.retries)); all != m.Requests {
				t.Fatalf("second %g: %d requests arrived, %d are accounted for", minute, m.Requests, all)
			}
			inside, minutes = inside+float64(here), minutes+1
			for i := range requests {
				spent += requests[i].FinishedAt.Sub(requests[i].ArrivedAt).Seconds()
				ended++
			}
		}
		c.Submit(Arrival{ID: i, At: DefaultStart.Add(time.Duration(at * 1e9)), PromptTokens: 1, OutputTokens: 1 + int64(rng.ExpFloat64()*800)})
	}
	if m := c.Metrics(); m.Rejected == 0 || m.Retries == 0 || m.Failed == 0 || m.Cancelled == 0 {
		t.Errorf("%+v: want attempts that are rejected, cancelled and retried, and failed requests", m)
	}
	attempts := ended / seconds
	if got, want := inside/minutes, attempts*(spent/ended); math.Abs(got/want-1) > .03 {
		t.Errorf("%.2f in the system on average, want %.2f by Little's law", got, want)
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
	// 1000 and 2000 tokens to compute at 1000/s: both share the rate for 2 s, then the longer one has it alone for 1 s.
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

func TestClusterPreempts(t *testing.T) {
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
		t.Fatalf("%+v: want request 1 to finish first, then the newer request 2", requests)
	}
	if got := c.Metrics().Preemptions; got != 1 {
		t.Errorf("%d preemptions, want 1", got)
	}
	if first, second := requests[0].FinishedAt, requests[1].FinishedAt; second.Sub(first) < 10*time.Second {
		t.Errorf("the preempted request ended %s after the other, want 10 s or more: it computes its cache again", second.Sub(first))
	}
	for _, r := range replicas {
		if r.KVUsedTokens > cfg.KVCapacityTokens {
			t.Errorf("%s: %d KV tokens held, of %d at most", r.At, r.KVUsedTokens, cfg.KVCapacityTokens)
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
