package features

import (
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

func sum(s, requests, prompt, cached, output float64) *ingest.Sum {
	return &ingest.Sum{Pool: "p", Class: "chat", Start: at(s), Requests: requests, PromptTokens: prompt, CachedTokens: cached, OutputTokens: output}
}

func TestAddSum(t *testing.T) {
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
		DimKV: (first + second) / 60,
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
	if got := a.AddSum(sum(120, 1, 1, 1, 1)); got != "" {
		t.Errorf("the oldest open minute: %q", got)
	}
	if got := a.AddSum(sum(7200, 1, 1, 1, 1)); got != ingest.ReasonFuture {
		t.Errorf("two hours ahead: %q", got)
	}
}
