package backtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// bumpyDemand is two days of a season, noise and bursts, in units of a replica.
func bumpyDemand(seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	need := make([]float64, 2*day)
	burst := 0.
	for t := range need {
		if burst *= .9; rng.Float64() < .004 {
			burst = 6 * rng.Float64()
		}
		season := 4 + 3*math.Sin(2*math.Pi*float64(t)/day)
		need[t] = max(0, season*(1+.15*rng.NormFloat64())+burst)
	}
	return need
}

// fluidRun is how a policy does with a fluid pool of twelve replicas at most, each of one unit.
func fluidRun(t *testing.T, need []float64, seed uint64, make func(Scene) Policy) Account {
	t.Helper()
	pool, err := capacity.New(capacity.Config{
		Name: "p", DecodeTokensPerS: 1, Replicas: capacity.Replicas{Min: 1, Max: 24, Initial: 6}, Warmup: capacity.Lag{P50: 6 * time.Minute, P90: 12 * time.Minute},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := NewFluidPool(pool, DefaultStart, seed)
	policy := make(Scene{PeakReplicas: 12, Future: &Future{
		Start: DefaultStart, Need: need, Min: 1, Max: 24, Initial: 6, Lag: p.minutesToWarm(),
	}})
	for _, n := range need {
		p.Step(decodeLoad(n, 1))
		p.SetDesired(policy(p.Observe()))
	}
	return p.Account()
}

// No policy, whatever its setting, costs less than the oracle at the same saturation, nor saturates less at the same
// cost.
func TestNoPolicyBeatsTheOracle(t *testing.T) {
	const settings = 6 // one of so many is tried, others with each seed
	for seed := range uint64(2) {
		need := bumpyDemand(seed)
		var ps []point
		for _, set := range specOf(t, OraclePolicy).grid() {
			a := fluidRun(t, need, seed, func(s Scene) Policy { return newOracle(s, set) })
			ps = append(ps, a.point())
		}
		best := newCurve(ps)
		if best[0][0] > 0 {
			t.Errorf("seed %d: the oracle saturates %g of the minutes at any price", seed, best[0][0])
		}
		for _, spec := range Policies {
			if spec.New == nil || spec.Name == OraclePolicy || spec.Name == RecordedPolicy {
				continue
			}
			for i, set := range spec.grid() {
				if (i+int(seed))%settings != 0 {
					continue
				}
				a := fluidRun(t, need, seed, func(s Scene) Policy { return spec.New(s, set) })
				if least := best.hoursAt(a.SaturatedShare()); a.GPUHours < least {
					t.Errorf("seed %d: %s %s takes %.1f GPU-hours at %.2f %% saturated minutes, the oracle %.1f", seed, spec.Name, spec.knob(set), a.GPUHours, 100*a.SaturatedShare(), least)
				}
			}
		}
	}
}

func specOf(t *testing.T, name string) *PolicySpec {
	t.Helper()
	for i := range Policies {
		if Policies[i].Name == name {
			return &Policies[i]
		}
	}
	t.Fatalf("no policy %s", name)
	return nil
}

// With a constant lag and no price limit the cheapest plan can be computed by hand: three replicas for the need of
// three, the third removed between needs that are further apart than its warm-up, and kept otherwise.
func TestCheapestPlan(t *testing.T) {
	f := &Future{Max: 9, Initial: 2, Need: []float64{2, 2, 3, 2, 2, 3, 2, 2, 2, 2, 2, 2, 3, 2}}
	want := []int{2, 2, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 3, 2}
	for i, got := range cheapestPlan(f, 5, 1e6) {
		if got != want[i] {
			t.Fatalf("%v, want %v", cheapestPlan(f, 5, 1e6), want)
		}
	}
	// A minute of saturation costs 4: less than six to warm up a third replica and use it, and two work off what is left.
	f.Min, f.Need = 2, []float64{2, 2, 2.05, 1.5, 2, 2, 2.05, 1.5}
	for i, got := range cheapestPlan(f, 5, 4) {
		if got != 2 {
			t.Errorf("minute %d: %d replicas, though being short is cheaper", i, got)
		}
	}
}

// The price of starts in plans is the mean lag; with each replica's own, a plan is carried out within a few percent.
func TestOracleCarriesItsPlanOut(t *testing.T) {
	need := bumpyDemand(9)
	var f *Future
	a := fluidRun(t, need, 9, func(s Scene) Policy { f = s.Future; return newOracle(s, Setting{1e6, 3}) })
	plan := cheapestPlan(f, 7.4, 1e6)
	hours, have := 0., f.Initial
	for _, n := range plan {
		hours += float64(n+max(0, n-have)*7) / 60
		have = n
	}
	if over := a.GPUHours / hours; over < .97 || over > 1.04 {
		t.Errorf("%.1f GPU-hours, the plan has %.1f", a.GPUHours, hours)
	}
	if a.Saturated > 0 {
		t.Errorf("%d saturated minutes at any price", a.Saturated)
	}
}

// What comes after a minute does not change what a policy asks for until then, save those that are clairvoyant.
func TestPoliciesDoNotSeeTheFuture(t *testing.T) {
	const cut = 1500
	past := bumpyDemand(4)
	future := append(append([]float64(nil), past[:cut]...), bumpyDemand(5)[cut:]...)
	for i := range future[cut:] {
		future[cut+i] *= 3
	}
	for _, spec := range Policies {
		if spec.New == nil || spec.Name == RecordedPolicy {
			continue
		}
		asked := func(need []float64) (all []int) {
			fluidRun(t, need, 1, func(s Scene) Policy {
				policy := spec.New(s, spec.defaults())
				return func(o Observation) int {
					all = append(all, policy(o))
					return all[len(all)-1]
				}
			})
			return all
		}
		a, b := asked(past), asked(future)
		same := true
		for m := range cut {
			same = same && a[m] == b[m]
		}
		if same == spec.Clairvoyant {
			t.Errorf("%s: decisions up to the cut are the same: %v", spec.Name, same)
		}
	}
}

// A plan made piece by piece is the one made at once, but for what lies beyond its sight.
func TestPlanInPieces(t *testing.T) {
	need := bumpyDemand(2)
	whole := planner{min: 1, rows: 20, lag: 7, violation: 30}
	whole.begin(6)
	want := whole.plan(need, len(need))
	pieces := planner{min: 1, rows: 20, lag: 7, violation: 30}
	pieces.begin(6)
	var got []int
	for len(got) < len(need) {
		ahead := need[len(got):]
		keep := len(ahead)
		if keep > 700 {
			ahead, keep = ahead[:700], 460
		}
		got = append(got, pieces.plan(ahead, keep)...)
	}
	for m := range want {
		if got[m] != want[m] {
			t.Fatalf("minute %d: %d replicas in pieces, %d at once", m, got[m], want[m])
		}
	}
}
