package features

import (
	"fmt"
	"math"
	"testing"

	"github.com/forewarm/forewarm/ingest"
	"pgregory.net/rapid"
)

// Whatever comes when, settled windows and what came late add up to all that was reported.
func TestWindowsAndLateAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(testConfig())
		var want, got Late
		add := func(r *ingest.Request, before Earlier) {
			switch reason := a.AddAttempt(r, before); reason {
			case "", ingest.ReasonLate:
			default:
				t.Fatalf("refused as %s", reason)
			}
		}
		type pending struct {
			r      *ingest.Request
			end    int
			before Earlier
		}
		phased := rapid.Bool().Draw(t, "phased")
		var ends []pending
		for i := range rapid.IntRange(1, 30).Draw(t, "n") {
			r := drawnRequest(t, i)
			r.CachedTokens = max(r.CachedTokens, 0)
			arrival := rapid.IntRange(0, 9).Draw(t, "arrival record") // in minutes
			if phased {
				ends = append(ends, pending{changed(r, phase(ingest.PhaseArrived), tokens(r.PromptTokens, ingest.Unknown, ingest.Unknown)), arrival, Earlier{}})
			}
			ends = append(ends, pending{r, arrival + rapid.IntRange(0, 5).Draw(t, "end record"), Earlier{Arrival: phased, Prompt: phased}})
			want.Requests++
			want.PromptTokens += float64(r.PromptTokens)
			want.OutputTokens += float64(r.OutputTokens)
			want.KVTokenSeconds += float64(r.PromptTokens)*r.FinishedAt.Sub(r.StartedAt).Seconds() + float64(r.OutputTokens)*r.FinishedAt.Sub(r.FirstTokenAt).Seconds()/2
		}
		mustAddOne(t, a, changed(request("first", 0), tokens(0, 0, 0)))
		want.Requests++
		for m := 1; m <= 25; m++ {
			for _, e := range ends {
				if e.end == m-1 {
					add(e.r, e.before)
				}
			}
			cover(a, float64(m)*60)
			windows, _ := a.Close(at(float64(m) * 60))
			for _, w := range windows {
				if w.Late != nil {
					if !w.Settled {
						t.Fatal("a window that is not settled hands out what came late")
					}
					add := *w.Late
					got.Requests, got.PromptTokens, got.OutputTokens = got.Requests+add.Requests, got.PromptTokens+add.PromptTokens, got.OutputTokens+add.OutputTokens
					got.KVTokenSeconds += add.KVTokenSeconds
				}
				if w.Settled {
					got.Requests, got.PromptTokens, got.OutputTokens = got.Requests+w.Requests, got.PromptTokens+w.PromptTokens, got.OutputTokens+w.OutputTokens
					got.KVTokenSeconds += w.KVTokenSeconds
				}
			}
		}
		for name, x := range map[string][2]float64{
			"requests": {got.Requests, want.Requests}, "prompt": {got.PromptTokens, want.PromptTokens},
			"output": {got.OutputTokens, want.OutputTokens}, "area": {got.KVTokenSeconds, want.KVTokenSeconds},
		} {
			if math.Abs(x[0]-x[1]) > 1e-6*max(1, x[1]) {
				t.Fatalf("%s: %v in windows and late, want %v", name, x[0], x[1])
			}
		}
	})
}

func mustAddOne(t reporter, a *Aggregator, r *ingest.Request) {
	if reason := a.AddRequest(r); reason != "" {
		t.Fatalf("refused as %s", reason)
	}
}

func TestLateIsHandedOutOnceWithTheNextWindowThatSettles(t *testing.T) {
	a, h := New(testConfig()), history{}
	mustAdd(t, a, request("first", 0))
	h.closeUntil(t, a, 1, 6) // minutes 3, 4, 5 are open
	for i, r := range []*ingest.Request{
		changed(request("a", 10), tokens(100, 40, 20)),
		changed(request("b", 10), ofClass("other"), tokens(100, ingest.Unknown, 20), times(10, 20, 30)),
		changed(request("c", 10), phase(ingest.PhaseRejected)),
		changed(request("d", 10), attempt(2)),
	} {
		if reason := a.AddRequest(r); reason != ingest.ReasonLate {
			t.Fatalf("record %d: %q, want late", i, reason)
		}
	}
	nan := math.NaN()
	if reason := a.AddSum(&ingest.Sum{Pool: "p", Class: "chat", Start: at(30), Requests: 7, PromptTokens: 70, CachedTokens: nan, OutputTokens: 14}); reason != ingest.ReasonLate {
		t.Fatalf("a sum: %q, want late", reason)
	}
	b := restarted(t, a, testConfig())
	h.closeUntil(t, b, 7, 12)
	for class, want := range map[string]Late{
		"chat":  {Records: 4, Requests: 9, PromptTokens: 270, CachedTokens: 40, OutputTokens: 34},
		"other": {Records: 1, Requests: 1, PromptTokens: 100, OutputTokens: 20, KVTokenSeconds: 100*20 + 20*10/2},
	} {
		var got []string
		for m := range 9 {
			if w, ok := h.newest[windowID{Key{"p", class}, m}]; ok && w.Late != nil {
				got = append(got, fmt.Sprint(m, *w.Late))
			}
		}
		if len(got) != 1 || got[0] != fmt.Sprint(3, want) {
			t.Errorf("%s: %v, want %v with minute 3", class, got, want)
		}
	}
}
