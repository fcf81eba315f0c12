package features

import (
	"math"
	"regexp"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

func TestDimensionRowsAreComplete(t *testing.T) {
	series := regexp.MustCompile(`^forewarm_demand_[a-z_]+_(per_second|tokens)$`)
	seen := map[string]bool{}
	for _, d := range Dimensions {
		if d.Unit == "" || d.Help == "" || d.reports == 0 || d.parts == nil {
			t.Errorf("%s: unit, help or extractor is missing", d.Name)
		}
		if !series.MatchString(d.Series) {
			t.Errorf("%s: series name %q", d.Name, d.Series)
		}
		if seen[d.Name] || seen[d.Series] {
			t.Errorf("%s: name or series is used twice", d.Name)
		}
		seen[d.Name], seen[d.Series] = true, true
		if got, ok := DimensionByName(d.Name); !ok || got.Series != d.Series {
			t.Errorf("%s: not found by name", d.Name)
		}
	}
	if _, ok := DimensionByName("no such"); ok {
		t.Error("a dimension that does not exist is found")
	}
}

// Each dimension has a value other than zero before and after a restart, so a sum that is missing in the snapshot is
// noticed.
func TestDimensionsInSnapshot(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a,
		changed(request("a", 5), tokens(700, 100, 60), times(6, 7, 20)),
		changed(request("b", 8), tokens(200, 50, 20), func(r *ingest.Request) { r.Status = ingest.StatusError }),
		changed(request("b", 30), attempt(2), tokens(200, 0, 30)))
	b := restarted(t, a, testConfig())
	want, _ := a.Close(at(60))
	got, _ := b.Close(at(60))
	if len(want) != 1 || len(got) != 1 {
		t.Fatalf("%d and %d windows, want one", len(want), len(got))
	}
	for _, d := range Dimensions {
		v, ok := d.Value(&want[0])
		back, backOK := d.Value(&got[0])
		if !ok || !backOK || v == 0 || v != back {
			t.Errorf("%s: %v (%v) before, %v (%v) after the snapshot", d.Name, v, ok, back, backOK)
		}
	}
	// The failed attempt is wasted: 150 prompt and 20 output tokens. Its retry serves the call, so both calls are
	// served.
	if w := &want[0]; w.Served != 2 || w.PromptWasted != 150 || w.OutputWasted != 20 || w.Requests != 2 {
		t.Errorf("%g of %g calls are served, %g and %g tokens are wasted; want 2 of 2, 150 and 20", w.Served, w.Requests, w.PromptWasted, w.OutputWasted)
	}
}

func TestDimensionsOfAWindow(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a,
		changed(request("a", 1), tokens(700, 100, 60)),
		changed(request("b", 2), tokens(300, ingest.Unknown, 40)),
		changed(request("b", 50), attempt(2), tokens(300, ingest.Unknown, 40)))
	w, _ := a.Close(at(60))
	wantDims(t, w[0], map[string]float64{
		DimRequests: 2.0 / 60,
		DimPrefill:  (1000.0 - 100) / 60, // if cached is unknown, all of the prompt counts
		DimCached:   100.0 / 60,
		DimDecode:   100.0 / 60,
		DimRetry:    1.0 / 60, // its tokens are not in the other dimensions
		// Σ prompt·uncached/1000 + 0.01·(prompt·output + output²/2), over the minute
		DimKV: (700*600/1000.0 + .01*(700*60+60*60/2) + 300*300/1000.0 + .01*(300*40+40*40/2)) / 60,
	})
}

func TestUnknownIsNotZero(t *testing.T) {
	nan := math.NaN()
	a := New(testConfig())
	a.AddSum(&ingest.Sum{Pool: "p", Class: "binned", Start: at(0), Requests: 6, PromptTokens: 600, CachedTokens: nan, OutputTokens: nan})
	a.AddSum(&ingest.Sum{Pool: "p", Class: "tokens", Start: at(0), Requests: nan, PromptTokens: nan, CachedTokens: nan, OutputTokens: 120})
	cover(a, 120)
	var h history
	h.closeUntil(t, a, 1, 3)

	wantDims(t, h.window(t, "binned", 0), map[string]float64{
		DimRequests: .1, DimPrefill: 10, DimCached: unknown, DimDecode: unknown, DimKV: unknown, DimRetry: unknown,
	})
	wantDims(t, h.window(t, "tokens", 0), map[string]float64{
		DimRequests: unknown, DimPrefill: unknown, DimCached: unknown, DimDecode: 2, DimKV: unknown,
	})
	// Silence while telemetry is alive: zero for what the class reports, unknown for what it never did.
	wantDims(t, h.window(t, "binned", 1), map[string]float64{
		DimRequests: 0, DimPrefill: 0, DimCached: unknown, DimDecode: unknown, DimKV: unknown, DimRetry: unknown,
	})
	wantDims(t, h.window(t, "tokens", 1), map[string]float64{DimRequests: unknown, DimPrefill: unknown, DimDecode: 0})
	// Silence of the telemetry: nothing is known.
	if w := h.window(t, "binned", 2); w.Covered {
		t.Error("a minute without evidence is covered")
	}
	for _, d := range Dimensions {
		wantDims(t, h.window(t, "binned", 2), map[string]float64{d.Name: unknown})
	}
}

// The output of a running request is unknown.
func TestOutputOfRunningRequests(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, request("old", -60), changed(request("a", 1), phase(ingest.PhaseArrived), tokens(100, ingest.Unknown, ingest.Unknown)))
	w, _ := a.Close(at(60))
	for i := range w {
		if w[i].Start.Equal(t0) {
			wantDims(t, w[i], map[string]float64{DimRequests: 1.0 / 60, DimPrefill: 100.0 / 60, DimDecode: unknown, DimKV: unknown})
			return
		}
	}
	t.Fatal("no window of the newest minute")
}

// Tokens that earlier requests generated in a minute are known, although no request that arrived in it has ended.
func TestOutputOfEarlierRequests(t *testing.T) {
	a, h := New(testConfig()), history{}
	mustAdd(t, a, changed(request("old", 30), times(30, 60, 90)),
		changed(request("a", 61), phase(ingest.PhaseArrived), tokens(100, ingest.Unknown, ingest.Unknown)))
	h.closeUntil(t, a, 1, 2)
	wantDims(t, h.window(t, "chat", 1), map[string]float64{DimDecode: 20. / 60})
}
