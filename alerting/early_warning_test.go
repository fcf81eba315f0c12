package alerting

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/forecaster"
)

// warnedFrom is a decision for a pool without a reserve.
func warnedFrom(threshold, soon, ahead float64, p50 time.Duration) Decision {
	d := decided()
	d.WarnFrom = threshold
	d.Reserves.Failure = 0
	d.Resources[0].Probability, d.Resources[0].Ahead, d.Resources[0].ETA.P50 = soon, ahead, p50
	d.Probability, d.ETA.P50 = soon, p50
	return d
}

// An early warning has its probability and its time.
func TestEarlyWarning(t *testing.T) {
	cfg := DefaultConfig()
	d := warnedFrom(.2, .12, .31, forecaster.Never)
	got := Conditions(&d, &forecaster.PoolForecast{}, cfg)
	if len(got) != 1 || got[0].Name != SaturationAhead || got[0].Fading || got[0].Severity != Warning {
		t.Fatalf("%+v: want a warning", got)
	}
	for key, want := range map[string]string{
		"summary": "may be full within 28 min (30 % likely)", "saturation_probability": "0.31",
	} {
		if !strings.Contains(got[0].Annotations[key], want) {
			t.Errorf("%s is %q, want %q in it", key, got[0].Annotations[key], want)
		}
	}
	d = warnedFrom(.4, .12, .31, forecaster.Never)
	if got := Conditions(&d, &forecaster.PoolForecast{}, cfg); len(got) != 1 || !got[0].Fading {
		t.Errorf("%+v: want one that fades", got)
	}
	d = warnedFrom(.6, .12, .31, forecaster.Never)
	if got := Conditions(&d, &forecaster.PoolForecast{}, cfg); len(got) != 0 {
		t.Errorf("%+v: want none", got)
	}
}

// A page does not depend on the threshold of warnings.
func TestPageIgnoresThreshold(t *testing.T) {
	cfg := DefaultConfig()
	page := func(from float64) *Condition {
		d := warnedFrom(from, .8, .85, 12*time.Minute)
		for _, c := range Conditions(&d, &forecaster.PoolForecast{}, cfg) {
			if c.Severity == Page {
				return &c
			}
		}
		return nil
	}
	fixed := page(0)
	if fixed == nil {
		t.Fatal("no page for a saturation that comes before a new replica is ready")
	}
	for _, from := range []float64{.1, .8} {
		if diff := cmp.Diff(fixed, page(from)); diff != "" {
			t.Errorf("with another threshold:\n%s", diff)
		}
	}
}
