package alerting

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// disaggregated adds prefill replicas of 1000 prompt tokens/s each, and a demand for them.
func disaggregated(prompts float64) func(*Input) {
	return func(in *Input) {
		in.Pool.Disaggregated = true
		in.Pool.Config.Disaggregated = capacity.Disaggregated{PrefillReplicas: capacity.Replicas{Min: 1, Max: 6, Initial: 2}, PrefillReserves: &capacity.Reserves{}}
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

// Prompts need prefill replicas only, within their own bounds. Fewer are requested only after the cooldown.
func TestSizeOfRoles(t *testing.T) {
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
		minute      int
		prefillRows float64
		stale       bool
		want        int
		says        string
	}{
		{minute: 0, prefillRows: 4500, want: 5},
		{minute: 1, prefillRows: 2500, want: 5}, // before the cooldown ends
		{minute: 2, prefillRows: 100, stale: true, want: 5},
		{minute: 3, prefillRows: 9000, want: 6, says: "disaggregated.prefill_replicas.max 6: 9 wanted"},
		{minute: 4, prefillRows: 2500, want: 6},
		{minute: 11, prefillRows: 2500, want: 6}, // the cooldown is over, but both requests are pending
		{minute: 12, prefillRows: 2500, want: 5, says: "prefill: scale_in_step 1: 3 wanted"},
		{minute: 13, prefillRows: 2500, want: 4},
		{minute: 14, prefillRows: 2500, want: 4}, // 3 are enough, but the request of minute 3 is kept for a lead of 13 and a hold of 5 minutes
		{minute: 21, prefillRows: 2500, want: 3},
		{minute: 25, prefillRows: 4500, want: 5},
		{minute: 26, prefillRows: 2500, want: 5},
		{minute: 27, prefillRows: 2500, want: 5}, // the request of minute 25 is kept
		{minute: 29, prefillRows: 10, want: 4},   // until demand is gone
		{minute: 30, prefillRows: 10, want: 3},
	} {
		d := step(tt.minute, tt.prefillRows, tt.stale)
		if said := strings.Join(NewPrescale(&d).Constraints, "; "); d.ByRole.Prefill != tt.want || !strings.Contains(said, tt.says) {
			t.Errorf("minute %d: %d prefill replicas, want %d; %q", tt.minute, d.ByRole.Prefill, tt.want, said)
		}
	}
	if !st.LastScaleIn.IsZero() {
		t.Errorf("fewer prefill replicas count as fewer of the pool at %s", st.LastScaleIn)
	}
	in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(10)}.input(t)
	for _, tt := range []struct {
		name string
		edit func(*Input, *State)
		want int
		says string
	}{
		{"fewer", func(*Input, *State) {}, 4, "prefill: scale_in_step 1: 1 wanted"},
		{"requests wait", func(in *Input, _ *State) { in.Minute.State.WaitingPerReady = 2 }, 5, ""},
		{"a burst", func(in *Input, _ *State) { in.Forecast.Total[1].Now.Mean = 2400 }, 5, ""},
		{"the first hour", func(in *Input, _ *State) {
			in.Projection.Confidence, in.Forecast.Total[1].Now.Mean = forecaster.Cold, 5500
		}, 6, "Advising 6 prefill replicas (5 now)."},
		{"budget for both roles", func(in *Input, _ *State) { in.Pool.GPUHourUSD, in.Pool.BudgetHourUSD = 2, 17 }, 4, ""},
		{"budget for fewer", func(in *Input, _ *State) { in.Pool.GPUHourUSD, in.Pool.BudgetHourUSD = 2, 14 }, 4, "budget_hour_usd, enough for 2: 4 wanted"},
	} {
		x, was := in, State{PrefillKnown: true, Prefill: 5, LastTick: noon.Add(-time.Minute), LastDesired: 4, UsableSince: noon.Add(-time.Hour)}
		forecast := *in.Forecast
		forecast.Total = slices.Clone(forecast.Total)
		x.Forecast = &forecast
		tt.edit(&x, &was)
		d, _ := Decide(noon, x, was, cfg)
		if said := d.Reason + strings.Join(NewPrescale(&d).Constraints, "; "); d.ByRole.Prefill != tt.want || !strings.Contains(said, tt.says) {
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

// A budget that decode replicas use up allows no prefill replica. The event and an alert still say that prompts have none.
func TestNoPrefillAllowed(t *testing.T) {
	cfg := DefaultConfig()
	in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(2500)}.input(t)
	in.Pool.Config.Disaggregated.PrefillReplicas = capacity.Replicas{Max: 6, Initial: 1}
	in.Pool.GPUHourUSD, in.Pool.BudgetHourUSD = 2, 8
	st := State{PrefillKnown: true}
	pf := promptPaths(&in)
	of := Serving{Pool: &in.Pool, Role: capacity.PrefillRole}
	in.Projection.Prompts = new(forecaster.Project(&pf, of, &in.Pool.Warmup, PrefillSupply(noon, &in.Pool, &st), 0, 18*time.Minute, nil))
	d, _ := Decide(noon, in, st, cfg)
	if d.ByRole.Prefill != 0 || d.ByRole.PrefillLimit != 0 || d.ByRole.PrefillNeeded != 3 {
		t.Fatalf("%+v: want 0 of 3 prefill replicas", *d.ByRole)
	}
	if s := NewPrescale(&d).Prefill; s == nil || s.Probability == nil || *s.Probability != 1 {
		t.Errorf("the event says of prefill replicas %+v", s)
	}
	limited := func(c Condition) bool { return c.Name == AtCapacityLimit && c.Role == "prefill" }
	if all := Conditions(&d, in.Forecast, cfg); !slices.ContainsFunc(all, limited) {
		t.Errorf("no alert says that the budget allows no prefill replica: %+v", all)
	}
}

// promptPaths is the forecast of in, with 1500 prompt tokens/s on one half of its paths and 2500 on the other.
func promptPaths(in *Input) forecaster.PoolForecast {
	pf := *in.Forecast
	pf.Origin = noon
	paths := make([][forecaster.Horizon]float32, forecaster.NumPaths)
	for j := range paths {
		for h := range paths[j] {
			paths[j][h] = 1500 + 1000*float32(j%2)
		}
	}
	pf.Total = slices.Clone(pf.Total)
	pf.Of(features.DimPrefill).Paths = paths
	return pf
}

// prompted is a decision for a demand of 2500 prompt tokens/s, with the probabilities of promptPaths.
func prompted(t *testing.T, st State, cfg Config, reserves capacity.Reserves) (Decision, State) {
	t.Helper()
	in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(2500)}.input(t)
	in.Pool.Config.Disaggregated.PrefillReserves = &reserves
	pf := promptPaths(&in)
	in.Projection.Prompts = new(forecaster.Project(&pf, Serving{Pool: &in.Pool, Role: capacity.PrefillRole}, &in.Pool.Warmup, PrefillSupply(noon, &in.Pool, &st), reserves.Failure, 18*time.Minute, nil))
	in.Projection.Prompts.Drivers = []forecaster.Driver{{Class: "agent", Cause: "prompt_length", Factor: 2.1, Share: .6}}
	return Decide(noon, in, st, cfg)
}

// The probability that prefill runs out counts all requested prefill replicas from their lead time on. Reserved ones
// count too.
func TestPrefillProbability(t *testing.T) {
	ready := func(n int) State { return State{PrefillKnown: true, Prefill: n} }
	pending := ready(3)
	pending.PrefillPending = []time.Time{noon.Add(-time.Minute)}
	arrived := pending
	arrived.PrefillPending = []time.Time{noon.Add(-13 * time.Minute)}
	for name, tt := range map[string]struct {
		st       State
		reserves capacity.Reserves
		want     float64
		pending  int
	}{
		"initial":                  {State{}, capacity.Reserves{}, .5, 0},
		"enough":                   {ready(3), capacity.Reserves{}, 0, 0},
		"one is pending":           {pending, capacity.Reserves{}, .5, 1},
		"it is ready":              {arrived, capacity.Reserves{}, 0, 0},
		"one in reserve, failures": {ready(3), capacity.Reserves{Failure: 1}, 0, 0},
		"one in reserve, rollout":  {ready(3), capacity.Reserves{Rollout: 1}, 0, 0},
	} {
		d, _ := prompted(t, tt.st, DefaultConfig(), tt.reserves)
		r := d.Prompts[0]
		if len(d.Prompts) != 1 || r.Dimension != features.DimPrefill || r.PerReplica != 1000 || r.Demand != 2500 || r.NeedReplicas != 3 {
			t.Errorf("%s: prefill is %+v", name, d.Prompts)
		}
		if math.Abs(r.Probability-tt.want) > .02 || d.ByRole.PrefillPending != tt.pending {
			t.Errorf("%s: probability %.2f, %d pending, want %g and %d", name, r.Probability, d.ByRole.PrefillPending, tt.want, tt.pending)
		}
	}
	d, _ := Decide(noon, scene{ready: 4, median: flat(350), last: 350}.input(t), State{}, DefaultConfig())
	if n := d.Prefilling(); n != nil {
		t.Errorf("prefill replicas %+v in a pool without roles", n)
	}
}

// Each role has its own reserves. They are added before the bounds apply, are kept at scale-in, and do not grow.
func TestPrefillReserves(t *testing.T) {
	cfg := DefaultConfig()
	var st State
	step := func(minute int, edit func(*Input)) Decision {
		in := scene{ready: 6, median: flat(350), last: 350, edit: disaggregated(2500)}.input(t)
		in.Pool.Reserves = capacity.Reserves{Failure: 1, Failover: 1}
		in.Pool.Config.Disaggregated.PrefillReserves = nil // the same
		if edit != nil {
			edit(&in)
		}
		var d Decision
		d, st = Decide(noon.Add(time.Duration(minute)*time.Minute), in, st, cfg)
		return d
	}
	first := step(0, nil)
	if first.Desired != 6 || first.ByRole.Prefill != 5 || first.ByRole.PrefillNeeded != 5 || first.ByRole.PrefillReserves.Total() != 2 {
		t.Errorf("%d decode and %+v, want 4 and 3 with 2 in reserve of each", first.Desired, *first.ByRole)
	}
	if want := "Prefill throughput is over its planned limit now. Demand is 125 % of the planned capacity of 2 prefill replicas. Advising 5 prefill replicas (2 now). A new one takes up to 13 min."; !strings.HasSuffix(first.Reason, want) {
		t.Errorf("%q\ndoes not end with %q", first.Reason, want)
	}
	for m := range 30 { // the number stays
		if d := step(1+m, nil); d.ByRole.Prefill != 5 || strings.Contains(d.Reason, "prompts") {
			t.Fatalf("minute %d: %d prefill replicas, %q", 1+m, d.ByRole.Prefill, d.Reason)
		}
	}
	smaller := func(in *Input) { in.Pool.Config.Disaggregated.PrefillReserves = &capacity.Reserves{Failure: 1} }
	if d := step(31, smaller); d.ByRole.Prefill != 5 { // five were needed a minute ago
		t.Errorf("%d prefill replicas immediately after the change, want 5", d.ByRole.Prefill)
	}
	if d := step(32, smaller); d.Desired != 6 || d.ByRole.Prefill != 4 || !strings.Contains(d.Reason, "4 prefill replicas will do for 98 % of the next 15 min. Advising 4 prefill replicas (5 now).") {
		t.Errorf("with a smaller reserve: %d decode, %d prefill: %q", d.Desired, d.ByRole.Prefill, d.Reason)
	}
	if d := step(34, func(in *Input) { smaller(in); in.Pool.Config.Disaggregated.PrefillReplicas.Max = 3 }); d.ByRole.Prefill != 3 || d.ByRole.PrefillNeeded != 4 ||
		d.ByRole.PrefillConstraints[0].String() != "disaggregated.prefill_replicas.max 3: 4 wanted" {
		t.Errorf("%+v at most 3: %v", *d.ByRole, d.ByRole.PrefillConstraints)
	}
	st = State{}
	if d := step(40, func(in *Input) { in.Projection.Confidence = forecaster.Cold }); d.ByRole.Prefill != 5 {
		t.Errorf("%d prefill replicas on a cold start, want 3 for this minute and 2 in reserve", d.ByRole.Prefill)
	}
	st = State{}
	budget := func(in *Input) { in.Pool.GPUHourUSD, in.Pool.BudgetHourUSD = 1, 9 }
	if d := step(41, budget); d.ByRole.Prefill+d.Desired > 9 || d.ByRole.PrefillConstraints[0].String() != "budget_hour_usd, enough for 3: 5 wanted" {
		t.Errorf("%+v for a budget of 9: %v", *d.ByRole, d.ByRole.PrefillConstraints)
	}
}

// TestWithheldPrefill: a withheld request for prefill replicas is no supply.
func TestWithheldPrefill(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode = Active
	in := scene{ready: 6, median: flat(350), last: 350, edit: disaggregated(2500)}.input(t)
	in.Projection.Confidence = forecaster.Cold
	in.Minute.State.Observed = false
	d, st := Decide(noon, in, State{}, cfg)
	if d.Withheld == "" || d.ByRole.Prefill != 3 || !d.ByRole.PrefillAskedAt.IsZero() {
		t.Fatalf("withheld %q, %+v: want 3 prefill replicas, withheld, and no time of a request", d.Withheld, *d.ByRole)
	}
	if d, _ = Decide(noon.Add(time.Minute), in, st, cfg); d.ByRole.PrefillReady+d.ByRole.PrefillPending != 2 {
		t.Errorf("a minute later %d prefill replicas are ready and %d pending, want 2", d.ByRole.PrefillReady, d.ByRole.PrefillPending)
	}
}

// TestPublishPrefill: a change of only the prefill replicas is published. With a minimum of zero, prefill replicas can
// be scaled in to zero.
func TestPublishPrefill(t *testing.T) {
	var st State
	var d Decision
	step := func(minute int, prompts float64) {
		in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(prompts)}.input(t)
		in.Pool.Config.Disaggregated.PrefillReplicas.Min = 0
		d, st = Decide(noon.Add(time.Duration(minute)*time.Minute), in, st, DefaultConfig())
	}
	step(0, 1500)
	if step(1, 1500); d.Publish {
		t.Errorf("an unchanged decision is published")
	}
	if step(2, 2500); !d.Publish || d.Action != Hold || d.ByRole.Prefill != 3 {
		t.Errorf("published %t: %s, %+v", d.Publish, d.Action, *d.ByRole)
	}
	if event := NewPrescale(&d); event.Action != ScaleOut {
		t.Errorf("the event's action is %s, and it asks for more prefill replicas", event.Action)
	}
	for m := range 20 {
		step(3+m, 0)
	}
	if d.ByRole.Prefill != 0 {
		t.Errorf("%d prefill replicas without prompts, want 0", d.ByRole.Prefill)
	}
}

// Prefill replicas have their own alerts. Their number is not reported, so none of these is a page.
func TestPrefillAlerts(t *testing.T) {
	cfg := DefaultConfig()
	for name, tt := range map[string]struct {
		ready    int
		reserves capacity.Reserves
		most     int
		alert    AlertName // "" is none
		says     string
	}{
		"too few":                  {ready: 2, alert: SaturationAhead, says: "Demand is 125 % of the planned capacity of 2 prefill replicas."},
		"enough":                   {ready: 4},
		"a failure would saturate": {ready: 3, reserves: capacity.Reserves{Failure: 1}, alert: BelowReserve, says: "Demand needs 3 of 3 prefill replicas, and after a failure of 1 there would be 2."},
		"a limit":                  {ready: 2, reserves: capacity.Reserves{Failure: 1}, most: 2, alert: AtCapacityLimit, says: "Raise disaggregated.prefill_replicas.max: 4 prefill replicas (reserve included) are needed, 2 are allowed."},
	} {
		d, _ := prompted(t, State{PrefillKnown: true, Prefill: tt.ready}, cfg, tt.reserves)
		if tt.most > 0 {
			d.ByRole.Prefill, d.ByRole.PrefillLimit, d.ByRole.PrefillConstraints = tt.most, tt.most, []Constraint{{Key: "disaggregated.prefill_replicas.max", Bound: 2, Wanted: 4}}
		}
		d.WarnFrom = .3
		conditions := Conditions(&d, &forecaster.PoolForecast{}, cfg)
		i := slices.IndexFunc(conditions, func(c Condition) bool { return c.Name == tt.alert })
		if tt.alert == "" {
			if len(conditions) > 0 {
				t.Errorf("%s: %+v", name, conditions)
			}
			continue
		}
		if i < 0 {
			t.Errorf("%s: no %s in %d conditions", name, tt.alert, len(conditions))
			continue
		}
		c := conditions[i]
		if c.Resource != features.DimPrefill || c.Severity != Warning || c.Fading || c.Class != "agent" && tt.alert != BelowReserve || c.Role != "prefill" || !strings.Contains(c.Annotations["description"]+" "+c.Annotations["action"], tt.says) {
			t.Errorf("%s: %s of %s, class %s, fading %t: %q\ndoes not have %q", name, c.Severity, c.Resource, c.Class, c.Fading, c.Annotations["description"]+" "+c.Annotations["action"], tt.says)
		}
		if action := c.Annotations["action"]; !strings.Contains(action, "prefill replicas") {
			t.Errorf("%s: the action does not name prefill replicas: %q", name, action)
		}
	}
}

// TestCapacityOfRole: in a disaggregated pool, decode replicas have no prefill capacity.
func TestCapacityOfRole(t *testing.T) {
	in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(1)}.input(t)
	for dimension, want := range map[string]bool{capacity.KV: true, capacity.Prefill: false} {
		if _, ok := (Serving{Pool: &in.Pool, Role: capacity.DecodeRole}).PerReplica(dimension, 0); ok != want {
			t.Errorf("%s: %t", dimension, ok)
		}
	}
	in.Pool.Disaggregated = false
	if _, ok := (Serving{Pool: &in.Pool, Role: capacity.DecodeRole}).PerReplica(capacity.Prefill, 0); !ok {
		t.Error("replicas of a pool without roles have no prefill capacity")
	}
}

// The spread of a capacity is the interval of the learned rate, unless that is extrapolated.
func TestSpreadOfCapacity(t *testing.T) {
	learned := capacity.Basis{Source: capacity.Learned, Learned: capacity.Estimate{Value: 100, Low: 80, High: 130}}
	guessed := learned
	guessed.Learned.Extrapolated = true
	trusted := &capacity.Trusted{Prefill: learned, Decode: guessed}
	for dimension, want := range map[string][2]float64{capacity.Prefill: {.8, 1.3}, capacity.Decode: {1, 1}, capacity.KV: {1, 1}} {
		low, high := Serving{Trusted: trusted, Role: capacity.DecodeRole}.Spread(dimension)
		if [2]float64{low, high} != want {
			t.Errorf("%s: %g to %g, want %v", dimension, low, high, want)
		}
	}
}

// TestDecisionWithScheduledEvent: the reason and the data name the event of the calendar.
func TestDecisionWithScheduledEvent(t *testing.T) {
	in := scene{ready: 4, median: rising(10, 350, 900), last: 350, edit: func(in *Input) {
		in.Forecast.Total[0].Basis.Events = []forecaster.EventEffect{{Name: "launch", Factor: 2.5, Low: 1.7, High: 3.8, Ahead: 1}}
		in.Projection.Drivers = nil
	}}.input(t)
	d, _ := Decide(noon, in, State{}, DefaultConfig())
	if !strings.HasSuffix(d.Reason, "The calendar has launch: 2.5 times the demand.") {
		t.Errorf("%q", d.Reason)
	}
	data := NewPrescale(&d)
	if len(data.Events) != 1 || data.Events[0] != in.Forecast.Total[0].Basis.Events[0] {
		t.Errorf("events %+v", data.Events)
	}
}
