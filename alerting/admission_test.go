package alerting

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

func TestShareByPriority(t *testing.T) {
	classes := func() []classDemand {
		return []classDemand{{"batch", 400, 4000}, {"chat", 300, 3000}, {"agent", 200, 2000}, {"idle", 0, 0}}
	}
	tests := map[string]struct {
		capacity   float64
		priorities []string
		want       []AdmissionLimit
	}{
		"enough":                       {900, nil, nil},
		"no priorities: equal shares":  {450, nil, []AdmissionLimit{{"batch", 2000, .5}, {"chat", 1500, .5}, {"agent", 1000, .5}}},
		"the last is limited first":    {700, []string{"chat", "agent", "batch"}, []AdmissionLimit{{"batch", 2000, .5}}},
		"the others are limited first": {700, []string{"chat"}, []AdmissionLimit{{"batch", 4000 * 2. / 3, 2. / 3}, {"agent", 2000 * 2. / 3, 2. / 3}}},
		"nothing for the last":         {300, []string{"chat", "agent", "batch"}, []AdmissionLimit{{"agent", 0, 0}, {"batch", 0, 0}}},
		"not enough for the first":     {150, []string{"chat", "agent", "batch"}, []AdmissionLimit{{"chat", 1500, .5}, {"agent", 0, 0}, {"batch", 0, 0}}},
	}
	for name, tt := range tests {
		if diff := cmp.Diff(tt.want, shareCapacity(classes(), tt.capacity, tt.priorities)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestShareUsesCapacity: the admitted demand is the capacity, or all demand if that is less.
func TestShareUsesCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demands := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 0, 60).Draw(t, "demands")
		have := rapid.Float64Range(0, 1e7).Draw(t, "capacity")
		var classes []classDemand
		sum := 0.0
		for i, d := range demands {
			classes = append(classes, classDemand{fmt.Sprint("c", i), d, 2 * d})
			sum += d
		}
		in := sum
		for _, l := range shareCapacity(classes, have, []string{"c3", "c1", "c7"}) {
			if !(l.Share >= 0 && l.Share < 1) {
				t.Fatalf("share %g", l.Share)
			}
			for _, c := range classes {
				if c.class == l.Class {
					in -= c.demand * (1 - l.Share)
				}
			}
		}
		if want := math.Min(sum, have); math.Abs(in-want) > 1e-6*math.Max(1, sum) {
			t.Fatalf("%g of %g is admitted, capacity %g", in, sum, have)
		}
	})
}

// tooLate is a saturation by two classes that comes before a new replica can be ready.
func tooLate(in *Input) {
	r := &in.Projection.Resources[0]
	for h := range r.Probability {
		r.Probability[h] = .9
	}
	r.ETA = forecaster.ETA{P10: 0, P50: 3 * time.Minute, P90: 9 * time.Minute}
	for _, c := range []struct {
		class, dimension string
		demand           float64
	}{{"batch", features.DimKV, 300}, {"batch", features.DimPrefill, 50}, {"batch", features.DimDecode, 10}, {"chat", features.DimKV, 200}, {"chat", features.DimDecode, 30}} {
		f := in.Forecast.Total[0]
		f.Class, f.Dimension = c.class, c.dimension
		for h := range f.Minute {
			for i := range f.Minute[h] {
				f.Minute[h][i] = c.demand
			}
		}
		in.Forecast.Classes = append(in.Forecast.Classes, f)
	}
}

func TestAdmissionAdvice(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Priorities = []string{"chat", "batch"}
	for _, tt := range []struct {
		name string
		edit func(*Input)
		want []AdmissionLimit
	}{
		{"too late to scale", func(*Input) {}, []AdmissionLimit{{"batch", 40, 2. / 3}}},
		{"in time", func(in *Input) { in.Projection.Resources[0].ETA.P50 = 20 * time.Minute }, nil},
		{"in time, but above replicas.max", func(in *Input) {
			in.Projection.Resources[0].ETA.P50 = 20 * time.Minute
			in.Pool.Replicas.Max = 4
		}, []AdmissionLimit{{"batch", 40, 2. / 3}}},
		{"unlikely", func(in *Input) { in.Projection.Resources[0].Probability = [forecaster.Horizon]float64{} }, nil},
		{"stale", func(in *Input) { in.Forecast.Stale = true }, nil},
	} {
		in := scene{ready: 4, median: flat(500), last: 350, edit: tooLate}.input(t)
		tt.edit(&in)
		d, _ := Decide(noon, in, State{}, cfg)
		if diff := cmp.Diff(tt.want, d.Admission, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if got := NewPrescale(&d).Admission; len(got) != len(tt.want) {
			t.Errorf("%s: the event has %v", tt.name, got)
		}
	}
}

// If prefill replicas run out before more can be ready, classes are limited to what the ready ones compute. If both
// roles run out, the lower limit is used.
func TestAdmissionOfRoles(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Priorities = []string{"chat", "batch"}
	soon := forecaster.ETA{P10: 0, P50: 3 * time.Minute, P90: 9 * time.Minute}
	for _, tt := range []struct {
		name   string
		per    float64 // prompt tokens/s of each of the two prefill replicas; class batch needs 50
		decode bool    // decode runs out too
		want   []AdmissionLimit
		class  string // that the alert tells to limit
	}{
		{"prefill", 10, false, []AdmissionLimit{{"batch", 24, .4}}, "batch"},
		{"both, prefill is lower", 10, true, []AdmissionLimit{{"batch", 24, .4}}, ""},
		{"both, decode is lower", 20, true, []AdmissionLimit{{"batch", 40, 2. / 3}}, ""},
		{"neither", 30, false, nil, ""},
	} {
		in := scene{ready: 4, median: flat(500), last: 350, edit: tooLate}.input(t)
		disaggregated(50)(&in)
		in.Pool.Rates.PrefillTokensPerS = tt.per
		if !tt.decode {
			in.Projection.Resources[0].Probability = [forecaster.Horizon]float64{}
		}
		prompts := forecaster.ResourceProjection{Dimension: features.DimPrefill, ETA: soon}
		for h := range prompts.Probability {
			if tt.want != nil {
				prompts.Probability[h] = .9
			}
		}
		in.Projection.Prompts = &forecaster.Projection{Resources: []forecaster.ResourceProjection{prompts}}
		d, _ := Decide(noon, in, State{}, cfg)
		if diff := cmp.Diff(tt.want, d.Admission, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if tt.class != "" {
			i := slices.IndexFunc(Conditions(&d, in.Forecast, cfg), func(c Condition) bool { return c.Name == TooLateToWarm && c.Resource == features.DimPrefill })
			if i < 0 || !strings.Contains(Conditions(&d, in.Forecast, cfg)[i].Annotations["action"], "Admit at most 24 tokens/s of class "+tt.class) {
				t.Errorf("%s: the alert does not say what to admit: %+v", tt.name, Conditions(&d, in.Forecast, cfg))
			}
		}
	}
}

// At the quantile each class may have 300: chat gets them, and batch the rest of 400.
func TestAdmissionMargin(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Priorities = []string{"chat", "batch"}
	in := scene{ready: 4, median: flat(500), spread: .12, last: 350, edit: tooLate}.input(t)
	chat := &in.Forecast.Classes[3]
	for h := range chat.Minute {
		for i, level := range forecaster.Levels {
			chat.Minute[h][i] = 200 + max(level-.5, 0)/.45*100
		}
	}
	d, _ := Decide(noon, in, State{}, cfg)
	want := []AdmissionLimit{{"batch", 60 * 100. / 300, 100. / 300}}
	if diff := cmp.Diff(want, d.Admission, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
		t.Errorf("chat has 300 of 400, batch the rest: %s", diff)
	}
}
