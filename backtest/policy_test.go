package backtest

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/google/go-cmp/cmp"
)

// TestReactive: the policy follows the rules of the HPA.
func TestReactive(t *testing.T) {
	for _, test := range []struct {
		name string
		seen []Observation
		want int // after the last
	}{
		{"within tolerance", []Observation{{Ready: 4, KVUse: .75}}, 4},
		{"kv use scales ready replicas, not starting ones", []Observation{{Ready: 4, Pending: 4, KVUse: 1}}, 6},
		{"kv use 0.9 of target 0.7", []Observation{{Ready: 7, KVUse: .9}}, 9},
		{"more than four waiting per replica", []Observation{{Ready: 2, KVUse: .7, Waiting: 41}}, 11},
		{"starting replicas are kept while none is ready", []Observation{{Pending: 3, KVUse: math.NaN()}}, 3},
		{"scale-in waits five minutes", []Observation{{Ready: 8, KVUse: .7}, {Ready: 8, KVUse: .2}, {Ready: 8, KVUse: .2}, {Ready: 8, KVUse: .2}, {Ready: 8, KVUse: .2}}, 8},
		{"scale-in after five minutes", []Observation{{Ready: 8, KVUse: .7}, {Ready: 8, KVUse: .2}, {Ready: 8, KVUse: .2}, {Ready: 8, KVUse: .3}, {Ready: 8, KVUse: .2}, {Ready: 8, KVUse: .2}}, 4},
		{"at least one", []Observation{{Ready: 1, KVUse: 0}}, 1},
		{"scale-out has a limit", []Observation{{Ready: 1, KVUse: .7, Waiting: 4000}}, 17},
	} {
		p := NewReactive(.7, 5)
		got := 0
		for _, o := range test.seen {
			got = p(o)
		}
		if got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestForecastingRivals(t *testing.T) {
	// By hand, with smoothing 0.5 and trend 0.1: after the second value the level is 2 and the trend 0.1·1 + 0.9·1 = 1.
	// After the third, the level is 0.5·4 + 0.5·(2 + 1) = 3.5.
	if got := smoothed([]float64{1, 2, 4}, .5, .1); got != 3.5 {
		t.Errorf("double_exponential_smoothing of 1, 2, 4 is %g, want 3.5", got)
	}
	if got := newStatic(Scene{Need: []float64{2, 10}}, Setting{.75})(Observation{}); got != 8 {
		t.Errorf("static: %d, want 8", got)
	}
}

func TestPoliciesNamed(t *testing.T) {
	all, err := PoliciesNamed([]string{"all"})
	if err != nil || len(all) != len(Policies) {
		t.Errorf("all: %d policies of %d, %v", len(all), len(Policies), err)
	}
	if _, err := PoliciesNamed([]string{"oracle", "orakel"}); err == nil {
		t.Error("an unknown policy was accepted")
	}
}

func TestSettings(t *testing.T) {
	spec := PolicySpec{Knobs: []Knob{{"a", []float64{1, 2}, 3}, {"b", []float64{5, 6}, 5}}}
	for sweep, want := range map[bool][]string{
		false: {"a=3,b=5"},
		true:  {"a=1,b=5", "a=1,b=6", "a=2,b=5", "a=2,b=6", "a=3,b=5"},
	} {
		var got []string
		for _, set := range spec.settings(sweep) {
			got = append(got, spec.knob(set))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sweep %v: %s", sweep, diff)
		}
	}
}

// fluidPool returns a pool with replicas of 100 decode tokens/s that warm up in exactly 150 s.
func fluidPool(t *testing.T, initial int) *FluidPool {
	t.Helper()
	pool, err := capacity.New(capacity.Config{
		Name: "p", DecodeTokensPerS: 100, Replicas: capacity.Replicas{Max: 20, Min: 1, Initial: initial},
		Warmup: capacity.Lag{P50: 150 * time.Second, P90: 150 * time.Second},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewFluidPool(pool, DefaultStart, 1)
}

func decodeLoad(tokens, requests float64) Load {
	l := unknownLoad
	l[2], l[3] = tokens, requests
	return l
}

func TestWarmupDrawsAreLognormal(t *testing.T) {
	var draws []float64
	p := FluidPool{p50: 480, p90: 660, seed: 5}
	for k := range uint64(20_000) {
		draws = append(draws, p.lag(k).Seconds())
	}
	slices.Sort(draws)
	for p, want := range map[float64]float64{.5: 480, .9: 660} {
		if got := draws[int(p*float64(len(draws)))]; math.Abs(got/want-1) > .02 {
			t.Errorf("quantile %g of the warm-up is %.0f s, want %.0f s", p, got, want)
		}
	}
}

func TestFluidPool(t *testing.T) {
	p := fluidPool(t, 2)
	p.Step(decodeLoad(150, 10)) // needs 1.5 of 2 replicas
	p.Step(decodeLoad(300, 10)) // needs 3 of 2: the load of one replica waits
	if o := p.Observe(); o.Waiting != 1*10*60/3. || o.Need != 3 {
		t.Errorf("%+v: want a replica-minute of requests waiting", o)
	}
	p.SetDesired(4)
	p.Step(decodeLoad(200, 10)) // 2, and 1 that waits, of 2
	p.Step(decodeLoad(0, 0))    // only the load that waits
	p.Step(decodeLoad(300, 10)) // 3 of 2, and of two more for half a minute: enough
	o := p.Observe()
	if o.Ready != 4 || o.Pending != 0 || o.Waiting != 0 {
		t.Errorf("%+v: want four ready replicas, no request waiting", o)
	}
	p.SetDesired(1)
	p.Step(decodeLoad(50, 10))
	got := (&contender{name: "x", knob: "k=1", pool: p}).row()
	want := Result{
		Policy: "x", Knob: "k=1", SaturatedShare: 2. / 6, SLOAttainment: Number((10 + 10*2./3 + 10*2./3 + 10 + 10) / 50.),
		GPUHours: (2 + 2 + 4 + 4 + 4 + 1) / 60., ScaleActions: 2, SaturatedMinutes: 2, ActionsPerDay: 480,
	}
	near := func(a, b Number) bool {
		return math.Abs(float64(a-b)) < 1e-9 || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(near)); diff != "" {
		t.Error(diff)
	}
}

func TestFluidPoolRemovesTheNewestFirst(t *testing.T) {
	p := fluidPool(t, 2)
	p.SetDesired(3)
	p.SetDesired(5)
	p.SetDesired(1)
	if o := p.Observe(); o.Ready != 1 || o.Pending != 0 {
		t.Errorf("%+v, want one ready", o)
	}
	names := map[string]int{}
	for _, r := range p.Reports(nil) {
		names[r.Name]++
	}
	if diff := cmp.Diff(map[string]int{"r1": 1, "r2": 1, "r3": 2, "r4": 2, "r5": 2}, names); diff != "" {
		t.Errorf("want one report of each first replica, two of those that started and stopped: %s", diff)
	}
	if p.SetDesired(0); p.desired != 1 {
		t.Errorf("%d desired, want the pool's minimum", p.desired)
	}
}

// TestPeakPool: the peak needs all replicas.
func TestPeakPool(t *testing.T) {
	peak := Load{123_456, 7777, math.NaN(), 3}
	pool, err := PeakPool("p", peak, 8, capacity.Lag{})
	if err != nil {
		t.Fatal(err)
	}
	p := NewFluidPool(pool, DefaultStart, 1)
	if need := p.Need(peak); need > 8 || need < 7.999 {
		t.Errorf("the peak needs %g replicas, want 8", need)
	}
	if _, ok := pool.PerReplica(capacity.Requests, 0); ok {
		t.Error("requests are a resource although tokens are known")
	}
	pool, err = PeakPool("p", Load{math.NaN(), math.NaN(), math.NaN(), 3}, 8, capacity.Lag{})
	if each, ok := pool.PerReplica(capacity.Requests, 0); err != nil || !ok || math.Abs(each*8/3-1) > 1e-6 {
		t.Errorf("only requests are known: %g each, %v", each, err)
	}
}
