package features

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"pgregory.net/rapid"
)

// servedBefore computes the token-seconds that a request held and the tokens that it generated before t, from the
// definition.
func servedBefore(r *ingest.Request, t time.Time) (area, output float64) {
	since := func(from time.Time) float64 { return min(max(t.Sub(from), 0), r.FinishedAt.Sub(from)).Seconds() }
	decoding := since(r.FirstTokenAt)
	output = float64(r.OutputTokens) * decoding / r.FinishedAt.Sub(r.FirstTokenAt).Seconds()
	return float64(r.PromptTokens)*since(r.StartedAt) + output*decoding/2, output
}

// In any order of records, settled windows have all that was reported, and of late records what was served in open
// minutes.
func TestSumsOfSettledWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(testConfig())
		var want, got Window
		add := func(r *ingest.Request, before Earlier, settled time.Time) {
			reason := a.AddAttempt(r, before)
			if reason != "" && reason != ingest.ReasonLate {
				t.Fatalf("refused as %s", reason)
			}
			if reason == "" && !before.ArrivalCounted {
				want.Requests++
			}
			if reason == "" && !before.PromptCounted {
				want.PromptTokens += float64(r.PromptTokens)
			}
			if r.Phase == ingest.PhaseArrived {
				return
			}
			allArea, allOutput := servedBefore(r, r.FinishedAt)
			area, output := servedBefore(r, settled)
			want.KVTokenSeconds += allArea - area
			want.OutputTokens += allOutput
			if reason == ingest.ReasonLate {
				want.OutputTokens -= output
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
			ends = append(ends, pending{r, arrival + rapid.IntRange(0, 5).Draw(t, "end record"), Earlier{ArrivalCounted: phased, PromptCounted: phased}})
		}
		add(changed(request("first", 0), tokens(0, 0, 0), times(0, 0, 1)), Earlier{}, at(0))
		for m := 1; m <= 25; m++ {
			for _, e := range ends {
				if e.end == m-1 {
					add(e.r, e.before, at(float64(m-1)*60).Add(-testConfig().Revise))
				}
			}
			cover(a, float64(m)*60)
			windows, _ := a.Close(at(float64(m) * 60))
			for _, w := range windows {
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
				t.Fatalf("%s: %v in settled windows, want %v", name, x[0], x[1])
			}
		}
	})
}
