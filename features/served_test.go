package features

import (
	"math"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

// TestServed: the service of a pool has the attempts of all its classes, in the minute of their arrival.
func TestServed(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a,
		changed(request("a", 1), tokens(400, 100, 11), times(3, 4, 6)),
		changed(request("b", 2), ofClass("batch"), tokens(200, ingest.Unknown, 1)),
		changed(request("starts before it arrives", 50), tokens(200, ingest.Unknown, 1), times(40, 45, 55)))
	s := a.pools[0].Coverage.at(t0.Unix() / 60).Served
	for name, is := range map[string][2]float64{
		"times to the first token": {s.TTFT.Count(), 1}, "their mean": {s.TTFT.Mean(), 3},
		"times per token": {s.ITL.Count(), 1}, "and their mean": {s.ITL.Mean(), .2},
		"prefills": {s.Prefills.N, 2}, "prompt tokens that were not cached": {s.Prefills.Tokens, 300 + 200},
		"seconds from the queue to the first token": {s.Prefills.Seconds, 1 + 5},
		"token-seconds of prompts":                  {s.PromptSeconds, 400 * 1},
	} {
		if math.Abs(is[0]-is[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, is[0], is[1])
		}
	}
}

// TestMeanITL: the mean is over tokens, not over attempts. It is unknown if the times of many tokens are.
func TestMeanITL(t *testing.T) {
	a := New(testConfig())
	served := func() *Served { return &a.pools[0].Coverage.at(t0.Unix() / 60).Served }
	mustAdd(t, a,
		changed(request("short", 1), tokens(100, ingest.Unknown, 2), times(1, 2, 3)),
		changed(request("long", 1), tokens(100, ingest.Unknown, 10), times(1, 2, 11)))
	if got := served().MeanITL(); math.Abs(got-1) > 1e-9 {
		t.Errorf("%v s per token, want 1", got)
	}
	if sum := (&ingest.Sum{Pool: "p", Start: at(0), Requests: 1, PromptTokens: 1, OutputTokens: 9}); a.AddSum(sum) != "" {
		t.Fatal("the sum is refused")
	}
	if got := served().MeanITL(); !math.IsNaN(got) {
		t.Errorf("%v s per token, though the times of 9 of 21 tokens are unknown", got)
	}
}

// TestCompleteLatencies: a minute with an attempt that has arrived and not ended is not complete.
func TestCompleteLatencies(t *testing.T) {
	a := New(testConfig())
	arrived := changed(request("b", 1), func(r *ingest.Request) { r.Phase = ingest.PhaseArrived })
	mustAdd(t, a, changed(request("a", 1), times(1, 2, 6)), arrived)
	complete := func(s float64) bool {
		_, pools := a.Close(at(s))
		return pools[0].Latencies[len(pools[0].Latencies)-int(s/60)].Complete
	}
	before := complete(60)
	a.AddAttempt(changed(request("b", 1), times(1, 41, 61)), Earlier{ArrivalCounted: true, PromptCounted: true})
	if after := complete(120); before || !after {
		t.Errorf("complete %v with a running attempt and %v after its end, want false and true", before, after)
	}
}

// TestLatencies: a slow attempt of one class that is reported late raises the latency of its minute. The attempts of
// the other classes still count.
func TestLatencies(t *testing.T) {
	a := New(testConfig())
	for range 8 {
		mustAdd(t, a, changed(request("a", 1), times(1, 2, 6)))
	}
	_, pools := a.Close(at(60))
	first := pools[0].Latencies[len(pools[0].Latencies)-1]
	for range 2 {
		mustAdd(t, a, changed(request("b", 1), ofClass("batch"), times(1, 41, 61)))
	}
	_, pools = a.Close(at(120))
	l := pools[0].Latencies
	late, now := l[len(l)-2], l[len(l)-1]
	if first.Minute != t0.Unix()/60 || first.Reports != 16 || math.Abs(first.TTFT-1) > .01 {
		t.Errorf("before the late report: %+v", first)
	}
	if late.Minute != first.Minute || late.Reports != 20 || math.Abs(late.TTFT-40) > .4 {
		t.Errorf("after the late report: %+v", late)
	}
	if now.Minute != first.Minute+1 || now.Reports != 0 || !math.IsNaN(now.TTFT) {
		t.Errorf("a minute without attempts: %+v", now)
	}
	a.Close(at(180))
	_, pools = a.Close(at(240)) // the minute settles
	if m := &pools[0]; !m.Settled.Equal(t0) || m.Served.TTFT.Count() != 10 {
		t.Errorf("the service of %s settles with %v attempts, want %s with 10", m.Settled, m.Served.TTFT.Count(), t0)
	}
}
