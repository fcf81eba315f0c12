package backtest

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// Pools of requests give what a run of them should: as many replicas as the peak needs serve nearly all within the
// objectives, half as many do not, and every request of the trace is there.
func TestRequestsAreServedOneByOne(t *testing.T) {
	cfg := RunConfig{
		Traces: []string{writeTrace(t, 2*time.Hour)}, Policies: []string{"static_peak", "reactive_floor", "oracle"}, Simulate: Requests, ScoreFrom: .25, PeakReplicas: 6,
	}
	run := func() map[string]Result {
		rows := map[string]Result{}
		for _, r := range mustRun(t, cfg).Policies {
			rows[r.Policy] = r
		}
		return rows
	}
	rows := run()
	for name, r := range rows {
		if !(r.TTFTAttainment > .8 && r.TTFTAttainment <= 1) || !(r.ITLAttainment > .8 && r.ITLAttainment <= 1) || !(r.GPUHours > 0) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if peak := rows["static_peak"]; peak.SaturatedShare > .02 || peak.SLOAttainment < .99 {
		t.Errorf("as many replicas as the peak needs: %+v", peak)
	}
	equal := func(a, b Number) bool { return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b)) }
	if diff := cmp.Diff(rows, run(), cmp.Comparer(equal)); diff != "" {
		t.Errorf("a second run differs: %s", diff)
	}
	cfg.Traces = []string{write(t, "t_s,class,requests,prompt_tokens,cached_tokens,output_tokens\n0,a,60,600,,60\n60,a,60,600,,60\n")}
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "fluid") {
		t.Errorf("sums were served one by one: %v", err)
	}
}

// Copies keep to the minute and the counts of what they stand for, and are the same for every pool of the run.
func TestCopiesOfRequests(t *testing.T) {
	pool, err := PeakPool("p", Load{1000, 100, 50, 1}, 2, capacity.Lag{P50: time.Minute, P90: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	serve := func() *requestPool {
		cfg := DefaultClusterConfig()
		cfg.Start = DefaultStart
		p, err := newRequestPool(pool, cfg, 3, 7)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			p.Submit(&ingest.Request{ArrivedAt: DefaultStart.Add(time.Duration(i) * time.Second), Attempt: 1, PromptTokens: 10, OutputTokens: 5})
		}
		p.Submit(&ingest.Request{ArrivedAt: DefaultStart, Attempt: 2, PromptTokens: 10, OutputTokens: 5}) // replicas serve retries too
		p.spread()
		return p
	}
	a, b := serve(), serve()
	n := a.cluster.arrivals.len()
	for i, x := range a.cluster.arrivals.items {
		if x != b.cluster.arrivals.items[i] {
			t.Errorf("arrival %d: %v in one pool, %v in another", i, x, b.cluster.arrivals.items[i])
		}
		if x.At.Before(DefaultStart) || !x.At.Before(DefaultStart.Add(time.Minute)) || i > 0 && x.At.Before(a.cluster.arrivals.items[i-1].At) {
			t.Errorf("arrival %d at %s: out of its minute or of order", i, x.At)
		}
	}
	if n != 18 {
		t.Errorf("%d arrivals, want three for each of six attempts", n)
	}
}
