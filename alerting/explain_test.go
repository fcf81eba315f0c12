package alerting

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// later are decisions of the hour after decided: replicas become ready, and demand grows above the former capacity.
func later() (after []Decision) {
	for i, s := range []struct {
		ready, pending int
		demand         float64
	}{{14, 5, 1380}, {14, 5, 1420}, {17, 2, 1640}, {19, 0, 1805}, {19, 0, 1500}} {
		d := decided()
		d.Tick, d.Ready, d.Pending = noon.Add(time.Duration(i+1)*10*time.Minute), s.ready, s.pending
		d.Resources[0].Demand = s.demand
		after = append(after, d)
	}
	return after
}

func TestExplainGolden(t *testing.T) {
	full := decided()
	full.Resources = append(full.Resources, ResourceEvidence{Dimension: "decode", PerReplica: 4.2e6, Demand: 3.1e7, NeedQuantile: 5.2e7, NeedReplicas: 13, ETA: never})
	full.KeepQuantile = 1 - .05/3
	full.Warnings = []string{"the forecast is stale"}
	full.Events = []forecaster.EventEffect{{Name: "spring launch", Factor: 2.4, Low: 1.9, High: 3}}
	full.ByRole = &Roles{Prefill: 6, Decode: 19, PrefillReady: 4, PrefillNeeded: 7, PrefillLimit: 6, PrefillReserves: capacity.Reserves{Failure: 1, Warm: 1}, PrefillDrivers: full.Drivers}
	full.Prompts = []ResourceEvidence{{Dimension: "prefill", PerReplica: 12000, Demand: 4.1e4, NeedQuantile: 5.6e4, NeedReplicas: 5, Probability: .4,
		ETA: forecaster.ETA{P10: 3 * time.Minute, P50: 25 * time.Minute, P90: forecaster.Never}}}
	full.ByRole.PrefillConstraints = []Constraint{{Key: "disaggregated.prefill_replicas.max", Bound: 6, Wanted: 7}}
	full.Basis = &Basis{Warmup: WarmupBasis{StatedP50: 360, StatedP90: 720, P50: 402, P90: 726, Seen: 7}}
	limited := decided()
	limited.Mode, limited.SupplyAssumed, limited.Desired, limited.Limit = Advisory, true, 16, 16
	for _, r := range []*ResourceEvidence{&full.Resources[0], &limited.Resources[0]} {
		r.Ahead = .9
	}
	full.Prompts[0].Ahead = .55
	limited.Constraints = []Constraint{{Key: "replicas.max", Bound: 16, Wanted: 19}}
	blind := Decision{Pool: "p", Generation: 3, Tick: noon, Expires: noon.Add(time.Hour), Mode: Active, Action: Hold, Ready: 4, Desired: 4, Needed: 4, Limit: 8,
		Lead: 13 * time.Minute, Quantile: .95, QuantileFrom: QuantileDefault, Confidence: forecaster.Cold, ETA: never, Stale: true,
		Reason: "no telemetry since 11:48 UTC (12 min): holding 4 replicas."}
	var text bytes.Buffer
	for _, x := range []Explanation{Explain(&full, later()), Explain(&limited, later()[:1]), Explain(&blind, nil)} {
		if err := x.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		text.WriteString("\n---\n\n")
		if _, err := json.Marshal(x); err != nil {
			t.Errorf("to JSON: %v", err)
		}
	}
	golden(t, "explain.golden.txt", text.String())
}

func TestExplainPeak(t *testing.T) {
	d := decided()
	got := Explain(&d, later()).After
	if diff := cmp.Diff(&Peak{Tick: noon.Add(20 * time.Minute), Resource: "kv", Replicas: 14, Demand: 1420, Use: 1420. / 1400}, got.Peak); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Peak{Tick: noon.Add(40 * time.Minute), Resource: "kv", Replicas: 14, Demand: 1805, Use: 1805. / 1400}, got.Without); diff != "" {
		t.Error(diff)
	}
	if len(got.Changes) != 3 || got.Changes[1].Ready != 17 {
		t.Errorf("changes %+v", got.Changes)
	}
}
