package alerting

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func decided() Decision {
	return Decision{
		Pool: "llama70b-h100", Tick: noon, Sequence: 918, Generation: 12, Publish: true, Mode: Active, Action: ScaleOut,
		Ready: 14, Desired: 19, Needed: 19, Limit: 40, Floor: 14, NeededBy: noon.Add(18 * time.Minute), Expires: noon.Add(15 * time.Minute),
		Binding: "kv", Probability: .8642137, ETA: forecaster.ETA{P10: 12 * time.Minute, P50: 19 * time.Minute, P90: forecaster.Never},
		Lead: 13 * time.Minute, Quantile: .95, QuantileFrom: QuantileDefault, Confidence: forecaster.Seasonal,
		Resources: []ResourceEvidence{{Dimension: "kv", PerReplica: 100, Demand: 1350, NeedQuantile: 1780, NeedReplicas: 18, Probability: .8642137,
			ETA: forecaster.ETA{P10: 12 * time.Minute, P50: 19 * time.Minute, P90: forecaster.Never}}},
		Drivers: []forecaster.Driver{{
			Class: "agent", Cause: "prompt_length", Factor: 2.1, Share: .61,
			Tenant: "acme", TenantShare: .6217, TenantMargin: .0085, Feature: "search", FeatureShare: .4,
		}},
		Reserves: capacity.Reserves{Failure: 1}, AskedAt: noon, Model: "network", Reason: "KV memory full in ~19 min.",
	}
}

// golden compares got with a file in testdata, which -update rewrites.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = "testdata/" + file
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// The JSON of an event is a contract with its consumers.
func TestEventGolden(t *testing.T) {
	d := decided()
	e, err := Notice{Decision: &d}.CloudEvent(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "prescale.golden.json", string(got)+"\n")
}

func TestEmptyEvent(t *testing.T) {
	d := Decision{Pool: "p", Tick: noon.In(time.FixedZone("", 3600)), Action: Hold, ETA: never}
	e, err := Notice{Decision: &d}.CloudEvent(nil)
	if err != nil {
		t.Fatal(err)
	}
	data := NewPrescale(&d)
	if data.NeededBy != nil || data.SaturationETA != (SaturationETA{}) {
		t.Errorf("needed by %v, ETA %v; want null", data.NeededBy, data.SaturationETA)
	}
	if data.Drivers == nil || data.Constraints == nil || data.Warnings == nil {
		t.Error("empty lists are null in JSON")
	}
	if got := e.Time.Format(time.RFC3339); got != "2026-03-02T12:00:00Z" {
		t.Errorf("time %s is not in UTC", got)
	}
}

func TestGenerationOf(t *testing.T) {
	for _, pool := range []string{"chat", "a-7", ""} {
		d := Decision{Pool: pool, Generation: 29_300_000}
		if g := GenerationOf(pool, d.EventID()); g != d.Generation {
			t.Errorf("%s: %d", d.EventID(), g)
		}
	}
	for _, id := range []string{"", "chat", "chat-", "chat--1", "chat-x", "talk-7", "chat-99999999999999999999"} {
		if g := GenerationOf("chat", id); g != 0 {
			t.Errorf("%q is read as generation %d", id, g)
		}
	}
}
