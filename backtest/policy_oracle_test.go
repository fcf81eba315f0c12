package backtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// bumpyDemand returns two days of demand with a daily season, noise and bursts, in replicas.
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

// fluidRun runs a policy on a fluid pool of at most 24 replicas, each of which serves a demand of one.
func fluidRun(t *testing.T, need []float64, seed uint64, make func(Scene) Policy) Account {
	t.Helper()
	pool, err := capacity.New(capacity.Config{
		Name: "p", DecodeTokensPerS: 1, Replicas: capacity.Replicas{Min: 1, Max: 24, Initial: 6}, Warmup: capacity.Lag{P50: 6 * time.Minute, P90: 12 * time.Minute},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := NewFluidPool(pool, DefaultStart, seed)
	policy := make(Scene{Start: DefaultStart, Need: need, Min: 1, Max: 24, Initial: 6, Lag: p.minutesToWarm()})
	for _, n := range need {
		p.Step(decodeLoad(n, 1))
		p.SetDesired(policy(p.Observe()))
	}
	return p.account
}

// TestNoPolicyBeatsTheOracle: no policy costs less than the oracle at the same share of saturated minutes. One of so
// many settings is tried for each seed.
func TestNoPolicyBeatsTheOracle(t *testing.T) {
	const settings = 6
	for seed := range uint64(2) {
		need := bumpyDemand(seed)
		var ps []point
		for _, set := range specOf(t, OraclePolicy).settings(true) {
			a := fluidRun(t, need, seed, func(s Scene) Policy { return newOracle(s, set) })
			ps = append(ps, a.point())
		}
		best := newCurve(ps)
		if best[0][0] > 0 {
			t.Errorf("seed %d: the oracle's least share of saturated minutes is %g, want 0", seed, best[0][0])
		}
		for _, spec := range Policies {
			if spec.New == nil || spec.Name == OraclePolicy || spec.Name == RecordedPolicy {
				continue
			}
			for i, set := range spec.settings(true) {
				if (i+int(seed))%settings != 0 {
					continue
				}
				a := fluidRun(t, need, seed, func(s Scene) Policy { return spec.New(s, set) })
				if least := best.hoursAt(a.SaturatedShare()); a.GPUHours < least {
					t.Errorf("seed %d: %s %s costs %.1f GPU-hours at %.2f %% saturated minutes, the oracle %.1f", seed, spec.Name, spec.knob(set), a.GPUHours, 100*a.SaturatedShare(), least)
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

// TestCheapestPlan: with a constant lag and a prohibitive price of saturation, the plan follows by hand. It has three
// replicas where three are needed. It keeps the third until the next need if that is less than a warm-up away.
func TestCheapestPlan(t *testing.T) {
	f := &Scene{Max: 9, Initial: 2, Need: []float64{2, 2, 3, 2, 2, 3, 2, 2, 2, 2, 2, 2, 3, 2}}
	want := []int{2, 2, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 3, 2}
	for i, got := range cheapestPlan(f, 5, 1e6) {
		if got != want[i] {
			t.Fatalf("%v, want %v", cheapestPlan(f, 5, 1e6), want)
		}
	}
	// A saturated minute costs 4. That is less than the six replica-minutes of a third replica's warm-up and use, and two
	// replicas serve the rest later.
	f.Min, f.Need = 2, []float64{2, 2, 2.05, 1.5, 2, 2, 2.05, 1.5}
	for i, got := range cheapestPlan(f, 5, 4) {
		if got != 2 {
			t.Errorf("minute %d: %d replicas, want 2: saturation is cheaper", i, got)
		}
	}
}

// TestOracleFollowsItsPlan: plans use the mean lag for each start. With the drawn lags, the oracle costs what the plan
// does, within a few percent, and never saturates.
func TestOracleFollowsItsPlan(t *testing.T) {
	need := bumpyDemand(9)
	var f Scene
	a := fluidRun(t, need, 9, func(s Scene) Policy { f = s; return newOracle(s, Setting{1e6, 3}) })
	plan := cheapestPlan(&f, 7.4, 1e6)
	hours, have := 0., f.Initial
	for _, n := range plan {
		hours += float64(n+max(0, n-have)*7) / 60
		have = n
	}
	if over := a.GPUHours / hours; over < .97 || over > 1.04 {
		t.Errorf("%.1f GPU-hours, the plan has %.1f", a.GPUHours, hours)
	}
	if a.Saturated > 0 {
		t.Errorf("%d saturated minutes, want none", a.Saturated)
	}
}

// TestPoliciesDoNotSeeTheFuture: the decisions of a policy do not depend on later demand, except those of the oracle.
// All demand has the same peak, which static_peak knows.
func TestPoliciesDoNotSeeTheFuture(t *testing.T) {
	const cut = 1500
	past := bumpyDemand(4)
	past[0] = 100
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
				policy := spec.New(s, spec.settings(false)[0])
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
		if want := spec.Name != OraclePolicy; same != want {
			t.Errorf("%s: other demand after the cut leaves the decisions before it the same: %v, want %v", spec.Name, same, want)
		}
	}
}

// TestPlanInPieces: a plan made from pieces of demand that overlap is the plan made at once.
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
