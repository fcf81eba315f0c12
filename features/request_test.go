package features

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
	"github.com/google/go-cmp/cmp"
)

// The record at the end of a request adds what the record at its arrival did not have. What both have counts once.
func TestArrivalAndEnd(t *testing.T) {
	sums := func(arrived, ended func(*ingest.Request), late bool) (prompt, cached float64) {
		a, h := New(testConfig()), history{}
		mustAdd(t, a, changed(request("a", 10), phase(ingest.PhaseArrived), arrived))
		h.closeUntil(t, a, 1, 1)
		next := 2
		if late {
			next = 11
			h.closeUntil(t, a, 2, 10)
		}
		arrival := changed(request("a", 10), arrived)
		addEnd(t, a, changed(request("a", 10), func(r *ingest.Request) { r.FinishedAt = at(550) }, ended), arrival.PromptTokens >= 0)
		cover(a, 900)
		h.closeUntil(t, a, next, 15)
		for _, w := range h.newest {
			prompt, cached = prompt+w.PromptTokens, cached+w.CachedTokens
		}
		return prompt, cached
	}
	const none = ingest.Unknown
	for name, tt := range map[string]struct {
		arrived, ended         func(*ingest.Request)
		late                   bool
		wantPrompt, wantCached float64
	}{
		"both at both":              {tokens(100, 40, none), tokens(100, 40, 20), false, 100, 40},
		"cached at the end":         {tokens(100, none, none), tokens(100, 40, 20), false, 100, 40},
		"cached when settled":       {tokens(100, none, none), tokens(100, 40, 20), true, 100, 0},
		"prompt at the end":         {tokens(none, none, none), tokens(100, 40, 20), false, 100, 40},
		"prompt when settled":       {tokens(none, none, none), tokens(100, 40, 20), true, 100, 40},
		"more cached than prompted": {tokens(100, 170, none), tokens(100, 170, 20), false, 100, 100},
	} {
		if prompt, cached := sums(tt.arrived, tt.ended, tt.late); prompt != tt.wantPrompt || cached != tt.wantCached {
			t.Errorf("%s: prompt %v, cached %v, want %v, %v", name, prompt, cached, tt.wantPrompt, tt.wantCached)
		}
	}
}

// If the minute of the arrival has settled when a request ends, its tokens count in the minutes that are still open.
func TestEndAfterArrivalSettled(t *testing.T) {
	a, h := New(testConfig()), history{}
	mustAdd(t, a,
		changed(request("timed", 10), phase(ingest.PhaseArrived)),
		changed(request("ends", 10), phase(ingest.PhaseArrived)),
		changed(request("past", 10), phase(ingest.PhaseArrived)))
	h.closeUntil(t, a, 1, 10) // open: minutes 7, 8, 9 and on
	addEnd(t, a, changed(request("timed", 10), times(540, 550, 560), tokens(100, 60, 20)), true)
	addEnd(t, a, changed(request("ends", 10), func(r *ingest.Request) { r.FinishedAt = at(550) }), true)
	if got := a.AddAttempt(changed(request("past", 10), times(11, 12, 13)), Earlier{ArrivalCounted: true, PromptCounted: true}); got != ingest.ReasonLate {
		t.Errorf("an end in settled minutes: %q, want late", got)
	}
	if got := a.addRequest(request("new", 10)); got != ingest.ReasonLate {
		t.Errorf("a request of a settled minute: %q, want late", got)
	}
	cover(a, 900)
	h.closeUntil(t, a, 11, 15)
	if w := h.window(t, "chat", 0); w.Requests != 3 || w.OutputTokens != 0 {
		t.Errorf("minute 0: %v requests, %v output tokens, want 3, 0", w.Requests, w.OutputTokens)
	}
	timed, ends := 100*20+20*10/2., 100*10+20*(539.9*539.9-529.9*529.9)/(2*539.9)
	if w := h.window(t, "chat", 9); w.OutputTokens != 40 || math.Abs(w.KVTokenSeconds-timed-ends) > 1e-6 {
		t.Errorf("minute 9: %v output tokens, %v token-seconds, want 40, %v", w.OutputTokens, w.KVTokenSeconds, timed+ends)
	}
	requests, cached := 0.0, 0.0
	for _, w := range h.newest {
		requests, cached = requests+w.Requests, cached+w.CachedTokens
	}
	if requests != 3 || cached != 0 { // the prompt is in a settled minute: cached tokens cannot be subtracted from another one
		t.Errorf("%v requests and %v cached tokens in total, want 3 and 0", requests, cached)
	}
}

func TestOutcomes(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a,
		changed(request("a", 1), phase(ingest.PhaseRejected), tokens(500, ingest.Unknown, ingest.Unknown)),
		changed(request("b", 2), func(r *ingest.Request) { r.Status = ingest.StatusRejected }),
		changed(request("c", 3), phase(ingest.PhaseCancelled), times(3, 4, 10)),
		changed(request("d", 4), func(r *ingest.Request) { r.Status = ingest.StatusCancelled }),
		changed(request("e", 5), func(r *ingest.Request) { r.Status = ingest.StatusError }),
		changed(request("a", 9), attempt(2)))
	got, _ := a.Close(at(60))
	w := got[0]
	if w.Requests != 5 || w.Retries != 1 || w.Records != 6 {
		t.Errorf("requests %v, retries %v, records %v", w.Requests, w.Retries, w.Records)
	}
	if w.PromptTokens != 900 || w.PromptRetried != 100 || w.OutputTokens != 80 || w.OutputRetried != 20 || w.KVKnown != 4 {
		t.Errorf("prompt %v, retried %v, output %v, retried %v, KV known of %v; rejected requests have a prompt, and hold nothing",
			w.PromptTokens, w.PromptRetried, w.OutputTokens, w.OutputRetried, w.KVKnown)
	}
}

func TestShapes(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, changed(request("a", 1), tokens(400, 100, 11), times(3, 4, 6)),
		changed(request("b", 2), tokens(200, ingest.Unknown, 1)),
		changed(request("starts before it arrives", 50), tokens(200, ingest.Unknown, 1), times(40, 45, 55)))
	got, _ := a.Close(at(60))
	w := got[0]
	for name, s := range map[string]struct {
		s           sketch.Quantile
		count, mean float64
	}{"prompt": {w.Prompt, 3, 800. / 3}, "output": {w.Output, 3, 13. / 3}} {
		if s.s.Count() != s.count || s.s.Mean() < s.mean*.999 || s.s.Mean() > s.mean*1.001 {
			t.Errorf("%s: %v values of mean %v, want %v of %v", name, s.s.Count(), s.s.Mean(), s.count, s.mean)
		}
	}
	if w.PromptOfCachedKnown != 400 {
		t.Errorf("the prompt tokens of requests whose cached tokens are known are %v, want 400", w.PromptOfCachedKnown)
	}
	mustAdd(t, a, changed(request("c", 61), tokens(ingest.Unknown, 5, ingest.Unknown)))
	got, _ = a.Close(at(120))
	if w := got[len(got)-1]; w.Prompt.Count() != 0 || w.Known&(ReportsCached|ReportsPrompt) != 0 {
		t.Errorf("a request that reports nothing: %+v", w)
	}
}

func TestMaxClasses(t *testing.T) {
	a := New(testConfig()) // at most 4
	mustAdd(t, a, changed(request("", 1), ofClass(TotalClass)))
	for i := range 10 {
		mustAdd(t, a, changed(request("", float64(i)), ofClass(fmt.Sprint("c", i))))
	}
	mustAdd(t, a, changed(request("", 20), ofClass("c2")))
	w, _ := a.Close(at(60))
	got := map[string]float64{}
	for _, w := range w {
		got[w.Class] = w.Requests
	}
	if diff := cmp.Diff(map[string]float64{"c0": 1, "c1": 1, "c2": 2, "c3": 1, OverflowClass: 7}, got); diff != "" {
		t.Errorf("requests by class (-want +got):\n%s", diff)
	}
	if n := a.Count.OverflowRecords; n != 7 {
		t.Errorf("OverflowRecords = %d, want 7", n)
	}
}

// The same records in another order, none of them late, make the same windows.
func TestRecordsOutOfOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cfg := testConfig()
	cfg.Revise = 10 * Minute
	var rs []*ingest.Request
	for i := range 300 {
		r := changed(request(fmt.Sprint(i), float64(i)), ofClass(fmt.Sprint("c", i%3)),
			times(float64(i)+1, float64(i)+2, float64(i)+2+rng.Float64()*100))
		r.Tenant = fmt.Sprint("t", i%5)
		rs = append(rs, r)
	}
	windows := func(order []int) map[windowID]Window {
		a, h := New(cfg), history{}
		mustAdd(t, a, request("first", 0))
		for n, i := range order {
			mustAdd(t, a, rs[i])
			if m := (n + 1) / 60; (n+1)%60 == 0 && m <= 8 {
				h.closeUntil(t, a, m, m)
			}
		}
		h.closeUntil(t, a, len(order)/60+1, 20)
		for id, w := range h.newest {
			w.Tenants, w.Features, w.Nowcast = nil, nil, nil // these depend on the order
			h.newest[id] = w
		}
		return h.newest
	}
	order := make([]int, len(rs))
	for i := range order {
		order[i] = i
	}
	want := windows(order)
	for range 5 {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if diff := cmp.Diff(want, windows(order), about); diff != "" {
			t.Fatalf("shuffled (-in order +shuffled):\n%s", diff)
		}
	}
}

// If a class is forgotten while one of its requests runs, the end of the request creates the class again.
func TestEndAfterClassForgotten(t *testing.T) {
	cfg := testConfig()
	cfg.ClassTTL = Minute
	a := New(cfg)
	mustAdd(t, a, changed(request("a", 1), ofClass("agent"), phase(ingest.PhaseArrived)))
	for m := 1; m <= 120; m++ {
		a.Close(at(float64(m) * 60))
	}
	if len(a.pools[0].classes) != 0 {
		t.Fatal("the class was not forgotten")
	}
	addEnd(t, a, changed(request("a", 1), ofClass("agent"), times(1, 2, 120*60+1)), false)
	if !bytes.Equal(bytesOf(t, a), bytesOf(t, restarted(t, a, cfg))) {
		t.Error("the restored state is another one")
	}
	if windows, _ := a.Close(at(121 * 60)); len(windows) == 0 || windows[len(windows)-1].Class != "agent" {
		t.Errorf("%d windows, want one of agent", len(windows))
	}
}
