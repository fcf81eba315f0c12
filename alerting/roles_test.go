package alerting

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// disaggregated adds replicas that compute 1000 prompt tokens a second each, and a demand for them.
func disaggregated(prompts float64) func(*Input) {
	return func(in *Input) {
		in.Pool.Disaggregated, in.Pool.PrefillReplicas = true, capacity.Replicas{Min: 1, Max: 6, Initial: 2}
		in.Pool.Rates.PrefillTokensPerS = 1000
		f := in.Forecast.Total[0]
		f.Dimension, f.Now.Mean = features.DimPrefill, prompts
		for h := range f.Minute {
			for i := range f.Minute[h] {
				f.Minute[h][i] = prompts
			}
		}
		in.Forecast.Total = append(in.Forecast.Total, f)
	}
}

// TestRolesAreSizedApart: prompts take prefill replicas and no others, within bounds of their own, and fewer only after the
// cooldown.
func TestRolesAreSizedApart(t *testing.T) {
	cfg := DefaultConfig()
	var st State
	step := func(minute int, prompts float64, stale bool) Decision {
		in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(prompts)}.input(t)
		in.Forecast.Stale = stale
		var d Decision
		d, st = Decide(noon.Add(time.Duration(minute)*time.Minute), in, st, cfg)
		if d.ByRole == nil || d.Desired != 4 || d.ByRole.Decode != 4 {
			t.Fatalf("minute %d: %d desired, by role %+v", minute, d.Desired, d.ByRole)
		}
		return d
	}
	for _, tt := range []struct {
		minute  int
		prompts float64
		stale   bool
		want    int
		says    string
	}{
		{minute: 0, prompts: 4500, want: 5},
		{minute: 1, prompts: 2500, want: 5}, // not yet
		{minute: 2, prompts: 100, stale: true, want: 5},
		{minute: 3, prompts: 9000, want: 6, says: "disaggregated.prefill_replicas.max 6: 9 wanted"},
		{minute: 4, prompts: 2500, want: 6},
		{minute: 5, prompts: 2500, want: 6}, // the cooldown is over, and demand is watched since it is seen again
		{minute: 8, prompts: 2500, want: 5, says: "prefill: scale_in_step 1: 3 wanted"},
		{minute: 9, prompts: 2500, want: 4},
		{minute: 10, prompts: 2500, want: 3},
		{minute: 11, prompts: 2500, want: 3},
		{minute: 14, prompts: 10, want: 2},
		{minute: 15, prompts: 10, want: 1},
	} {
		d := step(tt.minute, tt.prompts, tt.stale)
		if said := strings.Join(d.Constraints, "; "); d.ByRole.Prefill != tt.want || !strings.Contains(said, tt.says) {
			t.Errorf("minute %d: %d prefill replicas, want %d; %q", tt.minute, d.ByRole.Prefill, tt.want, said)
		}
	}
	if outs, ins := len(st.ScaleOuts), len(st.ScaleIns); outs != 2 || ins != 5 {
		t.Errorf("%d actions out and %d in are counted, want 2 and 5", outs, ins)
	}
	cfg.MaxScaleIns = 2
	in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(10)}.input(t)
	for _, tt := range []struct {
		name string
		edit func(*Input, *State)
		want int
		says string
	}{
		{"fewer", func(*Input, *State) {}, 4, "prefill: scale_in_step 1: 1 wanted"},
		{"often enough today", func(_ *Input, st *State) { st.ScaleIns = []int64{noon.Unix() - 60, noon.Unix() - 30} }, 5, "prefill: max_scale_ins 2: 1 wanted"},
		{"requests wait", func(in *Input, _ *State) { in.Minute.State.WaitingPerReady = 2 }, 5, ""},
		{"a burst", func(in *Input, _ *State) { in.Forecast.Total[1].Now.Mean = 2400 }, 5, ""},
		{"budget for both roles", func(in *Input, _ *State) { in.Pool.GPUHourUSD, in.Pool.BudgetHourUSD = 2, 17 }, 4, ""},
		{"budget for fewer", func(in *Input, _ *State) { in.Pool.GPUHourUSD, in.Pool.BudgetHourUSD = 2, 14 }, 4, "budget_hour_usd 2: 4 wanted"},
	} {
		x, was := in, State{Prefill: 5, LastTick: noon.Add(-time.Minute), LastDesired: 4, Sighted: noon.Add(-time.Hour)}
		forecast := *in.Forecast
		forecast.Total = slices.Clone(forecast.Total)
		x.Forecast = &forecast
		tt.edit(&x, &was)
		d, _ := Decide(noon, x, was, cfg)
		if said := strings.Join(d.Constraints, "; "); d.ByRole.Prefill != tt.want || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %d prefill replicas, want %d; %q", tt.name, d.ByRole.Prefill, tt.want, said)
		}
		if budget, ok := x.Pool.Budget(); ok && d.ByRole.Prefill+d.ByRole.Decode > budget {
			t.Errorf("%s: %+v for a budget of %d", tt.name, *d.ByRole, budget)
		}
	}
	in = scene{ready: 4, median: flat(350), last: 350}.input(t)
	if d, _ := Decide(noon, in, State{}, cfg); d.ByRole != nil {
		t.Errorf("roles %+v in a pool without them", d.ByRole)
	}
}

// TestPrefillHasItsProbability: of what its own replicas carry, those that were last asked for.
func TestPrefillHasItsProbability(t *testing.T) {
	in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(2500)}.input(t)
	if none := PromptLimits(&capacity.Pool{}, &State{}); none != nil {
		t.Errorf("%v in a pool without roles", none)
	}
	pf := *in.Forecast
	pf.Paths = forecaster.Paths{Dimensions: []string{features.DimPrefill}, At: [][][forecaster.Horizon]float32{make([][forecaster.Horizon]float32, forecaster.NumPaths)}}
	for j := range pf.Paths.At[0] {
		for h := range pf.Paths.At[0][j] {
			pf.Paths.At[0][j][h] = 1500 // of the 2000 that two replicas carry, for the first half
			if j%2 == 1 {
				pf.Paths.At[0][j][h] = 2500
			}
		}
	}
	probability := func(st State) float64 {
		in.Prompts = forecaster.ProjectLimits(&pf, PromptLimits(&in.Pool, &st), time.Hour, nil)
		d, _ := Decide(noon, in, st, DefaultConfig())
		if len(d.Prompts) != 1 || d.Prompts[0].Dimension != features.DimPrefill || d.Prompts[0].PerReplica != 1000 || d.Prompts[0].Demand != 2500 ||
			d.Prompts[0].NeedReplicas != 3 || d.Prompts[0].Probability != d.ByRole.PrefillProbability {
			t.Errorf("of prefill is kept %+v, with a probability of %g by role", d.Prompts, d.ByRole.PrefillProbability)
		}
		return d.ByRole.PrefillProbability
	}
	if two, three := probability(State{}), probability(State{Prefill: 3}); !(two > .4 && two < .6) || three > .1 {
		t.Errorf("two replicas run out with a probability of %.2f, three of %.2f; want about 0.5 and 0", two, three)
	}
}

// TestPromptEvidence: journals of older versions have no more of prefill replicas than its rates.
func TestPromptEvidence(t *testing.T) {
	rates := func(stated, learned float64) *Basis {
		return &Basis{Rates: []RateBasis{{Dimension: capacity.Decode, Stated: 7}, {Dimension: capacity.Prefill, Stated: stated, Learned: learned}}}
	}
	kept, own, roles := []ResourceEvidence{{Dimension: capacity.Prefill, PerReplica: 900}}, []ResourceEvidence{{Dimension: capacity.KV}}, &Roles{Prefill: 2}
	for name, c := range map[string]struct {
		d    Decision
		want float64 // 0 is none
	}{
		"kept":              {Decision{ByRole: roles, Resources: own, Prompts: kept, Basis: rates(1000, 800)}, 900},
		"older, learned":    {Decision{ByRole: roles, Resources: own, Basis: rates(1000, 800)}, 800},
		"older, stated":     {Decision{ByRole: roles, Resources: own, Basis: rates(1000, 0)}, 1000},
		"older, not stated": {Decision{ByRole: roles, Resources: own, Basis: rates(0, 800)}, 800},
		"oldest":            {Decision{ByRole: roles, Resources: own}, 0},
		"stale":             {Decision{ByRole: roles, Basis: rates(1000, 800)}, 0},
		"without roles":     {Decision{Resources: own, Basis: rates(1000, 800)}, 0},
	} {
		got := c.d.PromptEvidence()
		if c.want == 0 && len(got) > 0 || c.want > 0 && (len(got) != 1 || got[0].Dimension != capacity.Prefill || got[0].PerReplica != c.want) {
			t.Errorf("%s: %+v, want %g", name, got, c.want)
		}
	}
}

// TestServingHidesPrompts: the projection of a disaggregated pool does not set prompts against replicas that decode.
func TestServingHidesPrompts(t *testing.T) {
	in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(1)}.input(t)
	for dimension, want := range map[string]bool{capacity.KV: true, capacity.Prefill: false} {
		if _, ok := Serving(&in.Pool, nil).PerReplica(dimension, 0); ok != want {
			t.Errorf("%s: %t", dimension, ok)
		}
	}
	in.Pool.Disaggregated = false
	if _, ok := Serving(&in.Pool, nil).PerReplica(capacity.Prefill, 0); !ok {
		t.Error("prompts are nobody's")
	}
}

func TestServingIsAsUncertainAsWhatWasLearned(t *testing.T) {
	learned := capacity.Basis{Source: capacity.Learned, Learned: capacity.Estimate{Value: 100, Low: 80, High: 130}}
	guessed := learned
	guessed.Extrapolated = true
	trusted := &capacity.Trusted{Prefill: learned, Decode: guessed}
	for dimension, want := range map[string][2]float64{capacity.Prefill: {.8, 1.3}, capacity.Decode: {1, 1}, capacity.KV: {1, 1}} {
		low, high := Serving(nil, trusted).(forecaster.Uncertain).Spread(dimension)
		if [2]float64{low, high} != want {
			t.Errorf("%s: %g to %g, want %v", dimension, low, high, want)
		}
	}
}

// TestDecisionNamesScheduledEventsAndGrowth: with what a reader needs to see why.
func TestDecisionNamesScheduledEventsAndGrowth(t *testing.T) {
	in := scene{ready: 4, median: rising(10, 350, 900), last: 350, edit: func(in *Input) {
		in.Forecast.Total[0].Basis.Events = []forecaster.EventEffect{{Name: "launch", Learned: 2.5, Low: 1.7, High: 3.8, Ahead: 1}}
		in.Projection.Growth = []forecaster.GrowthPart{{Class: "agent", Cause: forecaster.CausePrompt, Amount: 120}}
		in.Projection.Drivers = nil
	}}.input(t)
	d, _ := Decide(noon, in, State{}, DefaultConfig())
	if !strings.HasSuffix(d.Reason, "; scheduled: launch (×2.5).") {
		t.Errorf("%q", d.Reason)
	}
	data := NewEvent(&d).Data
	if len(data.Events) != 1 || data.Events[0] != (EventData{"launch", 2.5, 1.7, 3.8}) || len(data.Growth) != 1 || data.Growth[0].Amount != 120 {
		t.Errorf("events %+v, growth %+v", data.Events, data.Growth)
	}
	in.Projection.Binding = features.DimDecode // growth is of a resource that does not bind
	if d, _ := Decide(noon, in, State{}, DefaultConfig()); d.Growth != nil {
		t.Errorf("growth %+v of another resource", d.Growth)
	}
}
