package features

import (
	"fmt"
	"math"
	"testing"

	"github.com/forewarm/forewarm/ingest"
	"pgregory.net/rapid"
)

// drawnRequest has random times between t0 and t0 + 6 min.
func drawnRequest(t *rapid.T, i int) *ingest.Request {
	arrived := rapid.Float64Range(0, 240).Draw(t, "arrived")
	start := arrived + rapid.Float64Range(0, 20).Draw(t, "queue")
	first := start + rapid.Float64Range(0.01, 5).Draw(t, "prefill")
	end := first + rapid.Float64Range(0.01, 90).Draw(t, "decode")
	prompt := rapid.Int64Range(1, 8000).Draw(t, "prompt")
	return changed(request(fmt.Sprint("r", i), arrived), times(start, first, end),
		tokens(prompt, rapid.Int64Range(-1, prompt).Draw(t, "cached"), rapid.Int64Range(0, 2000).Draw(t, "output")))
}

// heldAt computes the tokens that a request holds s seconds after t0, from the definition.
func heldAt(r *ingest.Request, s float64) float64 {
	now := at(s)
	if now.Before(r.StartedAt) || !now.Before(r.FinishedAt) {
		return 0
	}
	held := float64(r.PromptTokens)
	if now.After(r.FirstTokenAt) {
		held += float64(r.OutputTokens) * now.Sub(r.FirstTokenAt).Seconds() / r.FinishedAt.Sub(r.FirstTokenAt).Seconds()
	}
	return held
}

// The KV dimension agrees with samples of what all requests hold, and the sums with exact ones.
func TestOccupancy(t *testing.T) {
	const minutes, step = 8, 0.25
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.Revise = 10 * Minute
		a, h := New(cfg), history{}
		var rs []*ingest.Request
		for i := range rapid.IntRange(1, 12).Draw(t, "n") {
			rs = append(rs, drawnRequest(t, i))
			if reason := a.addRequest(rs[i]); reason != "" {
				t.Fatal(reason)
			}
		}
		cover(a, minutes*60)
		h.closeUntil(t, a, 1, minutes)

		total, output := 0.0, 0.0
		for m := range minutes {
			w, ok := h.newest[windowID{Key{"p", "chat"}, m}]
			if !ok {
				continue // before the first arrival
			}
			area := 0.0
			for x := float64(m)*60 + step/2; x < float64(m+1)*60; x += step {
				for _, r := range rs {
					area += heldAt(r, x) * step
				}
			}
			kv, ok := valueIn(DimKV, &w)
			if peak := edge(rs); !ok || math.Abs(kv-area/60) > 0.01*area/60+peak*step/60 {
				t.Fatalf("minute %d: kv %v, counted %v", m, kv, area/60)
			}
			total += w.KVTokenSeconds
			output += w.OutputTokens
		}
		exact, tokens := 0.0, 0.0
		for _, r := range rs {
			life := r.FinishedAt.Sub(r.StartedAt).Seconds()
			exact += float64(r.PromptTokens)*life + float64(r.OutputTokens)*r.FinishedAt.Sub(r.FirstTokenAt).Seconds()/2
			tokens += float64(r.OutputTokens)
		}
		if math.Abs(total-exact) > 1e-9*exact || math.Abs(output-tokens) > 1e-9*tokens {
			t.Fatalf("%v token-seconds, want %v; %v output tokens, want %v", total, exact, output, tokens)
		}
	})
}

// edge bounds the error of the samples at the starts and ends of requests, per step.
func edge(rs []*ingest.Request) (held float64) {
	for _, r := range rs {
		held += float64(r.PromptTokens + r.OutputTokens)
	}
	return held
}

func valueIn(name string, w *Window) (float64, bool) {
	d, _ := DimensionByName(name)
	return d.Value(w)
}

// Output tokens count in the minutes in which they were generated, if the times are known.
func TestMinutesOfOutput(t *testing.T) {
	for _, tt := range []struct {
		name   string
		r      *ingest.Request
		minute map[int]float64
	}{
		{"no times: at arrival", request("a", 190), map[int]float64{3: 20}},
		{"times: spread", changed(request("a", 190), times(190, 230, 270)), map[int]float64{3: 5, 4: 15}},
		{"one instant", changed(request("a", 190), times(190, 250, 250)), map[int]float64{4: 20}},
		{"end only: at arrival", changed(request("a", 190), func(r *ingest.Request) { r.FinishedAt = at(250) }), map[int]float64{3: 20}},
	} {
		a, h := New(testConfig()), history{}
		mustAdd(t, a, tt.r)
		cover(a, 600)
		h.closeUntil(t, a, 4, 9)
		for m := 3; m < 6; m++ {
			if got := h.window(t, "chat", m).OutputTokens; math.Abs(got-tt.minute[m]) > 1e-9 {
				t.Errorf("%s: minute %d has %v output tokens, want %v", tt.name, m, got, tt.minute[m])
			}
		}
	}
}

func TestOccupancyOutsideTheOpenSpan(t *testing.T) {
	a, h := New(testConfig()), history{}
	mustAdd(t, a, changed(request("a", 0), phase(ingest.PhaseArrived)))
	h.closeUntil(t, a, 1, 5)                                             // minutes 2, 3, 4 can be amended
	addEnd(t, a, changed(request("a", 0), times(0, 60, 240)), true)      // tokens of minutes 1..3
	mustAdd(t, a, changed(request("b", 300), times(300, 301, 300+7200))) // ends after the last open minute
	h.closeUntil(t, a, 6, 6)
	if got, want := h.window(t, "chat", 2).KVTokenSeconds, 100*60+20*(120*120-60*60)/(2*180.0); math.Abs(got-want) > 1e-6 {
		t.Errorf("the oldest open minute has %v token-seconds, want %v, without those of settled minutes", got, want)
	}
	if got, want := h.window(t, "chat", 2).OutputTokens, 2*20/3.0; math.Abs(got-want) > 1e-9 {
		t.Errorf("the oldest open minute has %v output tokens, want %v, with those of the settled minute", got, want)
	}
}

func TestContradictoryTimes(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a,
		changed(request("ends before it starts", 10), times(30, 31, 20)),
		changed(request("ends in 5000 years", 11), func(r *ingest.Request) { r.FinishedAt = r.ArrivedAt.AddDate(5000, 0, 0) }),
		changed(request("first token after the end", 12), times(12, 40, 20)),
		changed(request("starts before it arrives", 13), times(3, 14, 23)))
	w, _ := a.Close(at(60))
	if got := a.Count.BadTimes; got != 2 {
		t.Errorf("BadTimes = %d, want 2", got)
	}
	if got, want := w[0].KVTokenSeconds, 100*8+100*10+20*9/2.0; math.Abs(got-want) > 1e-9 {
		t.Errorf("KVTokenSeconds = %v, want %v, of the two requests with valid times", got, want)
	}
	if w[0].OutputTokens != 80 || w[0].KVModelled == 0 {
		t.Errorf("output %v, modelled %v; want 80 and some, because the others count without times", w[0].OutputTokens, w[0].KVModelled)
	}
}
