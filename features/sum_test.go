package features

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

func sum(s, requests, prompt, cached, output float64) *ingest.Sum {
	return &ingest.Sum{Pool: "p", Class: "chat", Start: at(s), Requests: requests, PromptTokens: prompt, CachedTokens: cached, OutputTokens: output}
}

func TestSumsAddUp(t *testing.T) {
	a := New(testConfig())
	for _, s := range []*ingest.Sum{sum(0, 10, 1000, 400, 200), sum(30, 20, 2000, 2500, 400), sum(59, 0, 0, 0, 0)} {
		if reason := a.AddSum(s); reason != "" {
			t.Fatal(reason)
		}
	}
	w, _ := a.Close(at(60))
	first, second := 10*(100*60/1000.+.01*(100*20+20*20/2.)), 20*(0+.01*(100*20+20*20/2.))
	wantDims(t, w[0], map[string]float64{
		DimRequests: 30. / 60, DimPrefill: 600. / 60, DimCached: 2400. / 60, DimDecode: 600. / 60, DimRetry: unknown,
		DimKV: (first + second) / 60, DimKVMax: unknown,
	})
}

func TestSumsOutsideTheOpenSpan(t *testing.T) {
	a := New(testConfig())
	a.AddSum(sum(0, 1, 1, 1, 1))
	for m := 1; m <= 5; m++ {
		a.Close(at(float64(m) * 60))
	}
	if got := a.AddSum(sum(119, 1, 1, 1, 1)); got != ingest.ReasonLate {
		t.Errorf("a settled minute: %q", got)
	}
	if got := a.AddSum(sum(120, 1, 1, 1, 1)); got != "" || a.Counters().Amended != 1 {
		t.Errorf("the oldest open minute: %q", got)
	}
	if got := a.AddSum(sum(7200, 1, 1, 1, 1)); got != ingest.ReasonFuture {
		t.Errorf("two hours ahead: %q", got)
	}
}

// Long prompts with short outputs mixed with the opposite: the product of means is 3 times the mean of products.
func TestSumsLearnFromRequestsOfTheirClass(t *testing.T) {
	a := New(testConfig())
	var exact float64
	for i := range 100 {
		r := request(fmt.Sprint(i), float64(i)/2)
		r.PromptTokens, r.OutputTokens = 10, 1000
		if i%2 == 0 {
			r.PromptTokens, r.OutputTokens = 1000, 10
		}
		mustAdd(t, a, r)
	}
	w, _ := a.Close(at(60))
	exact, _ = value(DimKV, &w[0])
	a.AddSum(sum(60, 100, 50*1010, 50*1010, 50*1010)) // all cached: leaves out prefill, which has no ratio
	w, _ = a.Close(at(120))
	got, _ := value(DimKV, &w[len(w)-1])
	prefill := 50 * 1000 * 1000 / 1000. / 60
	if want := exact - prefill; math.Abs(got-want) > 0.01*want {
		t.Errorf("kv of the sum = %v, want %v as of its requests", got, want)
	}
}

// What a class was like hours ago no longer corrects its sums.
func TestOldRequestsFade(t *testing.T) {
	cfg := testConfig()
	cfg.ClassTTL = 24 * time.Hour
	a := New(cfg)
	mustAdd(t, a, changed(request("a", 1), tokens(1000, 0, 10)), changed(request("b", 2), tokens(10, 0, 1000)))
	for m := 1; m <= 600; m++ {
		a.Close(at(float64(m) * 60))
	}
	mustAdd(t, a, changed(request("c", 36001), tokens(100, 0, 20)))
	a.AddSum(sum(36060, 10, 1000, 1000, 200))
	a.Close(at(36060))
	w, _ := a.Close(at(36120))
	got, _ := value(DimKV, &w[len(w)-1])
	if want := 10 * .01 * (100*20 + 20*20/2.) / 60; math.Abs(got-want) > 0.01*want {
		t.Errorf("kv = %v, want %v", got, want)
	}
}
