package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

func TestPastIsUnknownWhereNothingIsKnown(t *testing.T) {
	at := func(minute int, v float64) Point { return Point{origin.Add(time.Duration(minute) * time.Minute), v} }
	points := []Point{at(-200, 9), at(-10, 1), at(-9, 1), at(-7, 1), at(-6, math.NaN()), at(-5, 1)}
	xs, ys := past(points, origin)
	known := map[float64]bool{}
	for i, y := range ys {
		if !math.IsNaN(y) {
			known[xs[i]] = true
		}
	}
	if diff := cmp.Diff(map[float64]bool{-9.5: true, -8.5: true, -6.5: true, -4.5: true}, known); diff != "" {
		t.Errorf("known minutes, by their middles (-want +got):\n%s", diff)
	}
}

func TestCapacityGrowsWhenPendingReplicasAreReady(t *testing.T) {
	p := fullReader().pools[1]
	f := p.total(features.DimKV)
	got := capacityAhead(&p, f, false) // one pending since 3 minutes, lead 13 minutes
	if got[9] != 500_000 || got[10] != 600_000 {
		t.Errorf("capacity at minutes 9 and 10: %g, %g; want 500000, 600000", got[9], got[10])
	}
	p.Projection.Reserve = 2
	if all, left := capacityAhead(&p, f, false), capacityAhead(&p, f, true); all[9] != 500_000 || left[9] != 300_000 {
		t.Errorf("capacity at minute 9: %g, after a failure %g; want 500000 and 300000", all[9], left[9])
	}
	p.Projection.Reserve = 0
	if c := capacityAhead(&p, f, true); c != nil {
		t.Errorf("none is kept, and a failure would leave %v", c)
	}
	if c := capacityAhead(&p, p.total(features.DimRequests), false); c != nil {
		t.Errorf("capacity of a dimension without one: %v", c)
	}
}

func TestCapacityFarAboveIsNoted(t *testing.T) {
	p := fullReader().pools[1]
	p.Projection.Resources[0].PerReplica = 1e9
	c := newChart(&p, p.total(features.DimKV), wideWidth, wideHeight)
	if strings.Contains(string(c.SVG), `class="limit"`) || c.Note != "capacity 5G, above the picture" {
		t.Errorf("note %q, %s", c.Note, c.SVG)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 999: "999", 1234: "1.23k", 5e6: "5M", 2.5e10: "25G", -4000: "-4k"} {
		if got := si(v); got != want {
			t.Errorf("si(%g) = %q, want %q", v, got, want)
		}
	}
}

// A pool whose past is known has a picture of everything, and nothing in them is not a number.
func TestChartsOfEverything(t *testing.T) {
	b := NewBoard()
	for m := range 90 {
		past := fullOutput()
		past.Forecasts, past.Windows = past.Forecasts[:1], nil
		for i := range past.Forecasts[0].Total {
			past.Forecasts[0].Total[i].Origin = origin.Add(time.Duration(m-89) * time.Minute)
		}
		for i, class := range []string{"agent", "rag"} {
			w := features.Window{Key: features.Key{Pool: "chat", Class: class}, Start: origin.Add(time.Duration(m-90) * time.Minute), Covered: true, Settled: m < 80,
				Requests: 60, RequestsKnown: 60, Attempts: 66, Retries: 6, PromptTokens: 6000, PromptKnown: 60, CachedTokens: 1500, CachedKnown: 60, OutputTokens: 600, OutputKnown: 60,
				Reports: features.ReportsAttempts}
			w.Prompt, w.TTFT = &sketch.Quantile{}, &sketch.Quantile{}
			for n := range 100 {
				w.Prompt.Add(float64(100 * (i + 1) * n))
				w.TTFT.Add(.01 * float64(n))
			}
			past.Windows = append(past.Windows, w)
		}
		past.Services[0].Curve = &capacity.ServiceCurve{Source: capacity.Learned, Knee: 900, Objective: .05,
			Points: []capacity.Load{{TokensPerS: 100, ITL: .02}, {TokensPerS: 600, ITL: .03}, {TokensPerS: 1000, ITL: .06}}}
		decode := past.Projections[0].Resources[0]
		decode.Dimension, decode.Demand, decode.PerReplica = features.DimDecode, 2500, 900
		past.Projections[0].Resources = append(past.Projections[0].Resources, decode)
		b.Observe(past)
	}
	p := b.Pools()[1]
	wide, all := charts(&p, features.DimKV)
	var titles []string
	for _, f := range append(all, *wide) {
		titles = append(titles, f.Title)
		if text := string(f.SVG); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || !strings.Contains(text, "<path") {
			t.Errorf("%s: %s", f.Title, text)
		}
	}
	want := []string{"Requests", "Mix of classes", "Prompt tokens served from cache", "Retries, share of attempts",
		"Length of prompts, 95th percentile", "Time to the first token, 95th percentile", "Service curve of a replica", "Active tokens (KV memory)"}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Of 100 values each, the longer class's twice as long: 95 of 100 are at most 18,000 or so.
	if tail := find(p.Tails, "prompt"); len(tail) != 80 || math.Abs(tail[0].Value-18000)/18000 > .02 {
		t.Errorf("tail of prompts: %d points, %v", len(tail), tail[:1])
	}
	if mix := p.Mix[origin.Add(-time.Minute)]; mix["agent"] != 110 || mix["rag"] != 110 {
		t.Errorf("mix %v, want 110 tokens/s each", mix)
	}
	if x := find(p.Expected, features.DimKV); len(x) != 90 || !x[89].Start.Equal(origin.Add(14*time.Minute)) {
		t.Errorf("%d minutes were forecast", len(x))
	}
	curve := all[6]
	if curve.Note != "knee at 900 tokens/s, of which 56 % is in use" { // 2,500 tokens/s on five replicas
		t.Errorf("note %q", curve.Note)
	}
}
