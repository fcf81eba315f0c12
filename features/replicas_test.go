package features

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// reported is a report that has only the state.
func reported(name string, s float64, state ingest.ReplicaState) *ingest.Replica {
	return &ingest.Replica{
		Pool: "p", Name: name, At: at(s), State: state, KVCapacityTokens: -1, KVUsedTokens: -1, KVUsedRatio: math.NaN(),
		Running: -1, Waiting: -1, PreemptionsTotal: -1, PrefixHitsTotal: -1, PrefixQueryTotal: -1,
	}
}

func report(r *ingest.Replica, capacity, used, waiting, preemptions int64, ratio float64) *ingest.Replica {
	r.KVCapacityTokens, r.KVUsedTokens, r.Waiting, r.PreemptionsTotal, r.KVUsedRatio = capacity, used, waiting, preemptions, ratio
	return r
}

// stateAt closes the minute that ends at s seconds, and returns the state of pool p.
func stateAt(t testing.TB, a *Aggregator, s float64) PoolState {
	t.Helper()
	_, pools := a.Close(at(s))
	if len(pools) != 1 || pools[0].Pool != "p" {
		t.Fatalf("pools %v, want p", pools)
	}
	return pools[0].State
}

var states = cmp.Options{cmpopts.EquateNaNs(), cmpopts.EquateEmpty()}

func TestPoolState(t *testing.T) {
	a := New(testConfig())
	for _, r := range []*ingest.Replica{
		report(reported("a", 1, ingest.ReplicaReady), 1000, 500, 4, 10, math.NaN()),
		report(reported("b", 2, ingest.ReplicaReady), 3000, -1, 2, 7, .25),
		report(reported("c", 3, ingest.ReplicaReady), 2000, -1, -1, -1, math.NaN()),
		reported("d", 30, ingest.ReplicaPending),
		reported("e", 5, ingest.ReplicaLoading),
		reported("f", 6, ingest.ReplicaDraining),
		reported("g", 7, ingest.ReplicaReady),
		reported("g", 8, ingest.ReplicaGone),
		reported("g", 7.5, ingest.ReplicaReady),                                      // older than the report that it is gone
		report(reported("a", 40, ingest.ReplicaReady), 1000, 600, 4, 15, math.NaN()), // 5 more preemptions
		report(reported("b", 41, ingest.ReplicaReady), 3000, -1, 2, 3, .25),          // 3 since its restart
		reported("d", 50, ingest.ReplicaLoading),                                     // still starting
	} {
		a.AddReplica(r)
	}
	want := PoolState{
		Ready: 3, Pending: 2, Draining: 1, PendingSince: []time.Time{at(5), at(30)}, ReportedAt: at(50),
		KVCapacityTokens: 2000, KVCapacityLeast: 1000, KVUsedMax: .6, WaitingPerReady: 3, Preemptions: 8, Observed: true,
	}
	if diff := cmp.Diff(want, stateAt(t, a, 60), states); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	a.AddReplica(reported("d", 70, ingest.ReplicaReady))
	if s := stateAt(t, a, 120); s.Ready != 4 || s.Preemptions != 0 || !s.PendingSince[0].Equal(at(5)) || len(s.PendingSince) != 1 {
		t.Errorf("a minute later: %+v", s)
	}
	a.AddReplica(reported("d", 130, ingest.ReplicaPending))
	if s := stateAt(t, a, 180); len(s.PendingSince) != 2 || !s.PendingSince[1].Equal(at(130)) {
		t.Errorf("pending again since %v, want a new start at %v", s.PendingSince, at(130))
	}
}

// TestUnequalCaches: the capacity of a pool of unequal replicas is that of all their caches.
func TestUnequalCaches(t *testing.T) {
	a := New(testConfig())
	for i, capacity := range []int64{4000, 4000, 4000, 1000} {
		a.AddReplica(report(reported(fmt.Sprint(i), 1, ingest.ReplicaReady), capacity, -1, -1, -1, .5))
	}
	if s := stateAt(t, a, 60); s.KVCapacityTokens*float64(s.Ready) != 13000 || s.KVCapacityLeast != 1000 {
		t.Errorf("%d replicas with %g tokens, the smallest with %g; want 13000 in all and 1000", s.Ready, s.KVCapacityTokens, s.KVCapacityLeast)
	}
}

// TestWarmed: when a replica becomes ready for the first time, AddReplica returns how long it was pending. It does not
// if the replica was pending at the first report of the pool or after a silence, nor if it was ready before.
func TestWarmed(t *testing.T) {
	a := New(testConfig())
	for i, step := range []struct {
		name  string
		s     float64
		state ingest.ReplicaState
		want  time.Duration
	}{
		{"first", 1, ingest.ReplicaPending, 0},
		{"new", 2, ingest.ReplicaPending, 0},
		{"new", 30, ingest.ReplicaLoading, 0},
		{"first", 40, ingest.ReplicaReady, 0}, // pending since an unknown time
		{"new", 50, ingest.ReplicaReady, 48 * time.Second},
		{"new", 60, ingest.ReplicaReady, 0},
		{"new", 70, ingest.ReplicaLoading, 0},
		{"new", 80, ingest.ReplicaReady, 0}, // was ready before
		{"new", 90, ingest.ReplicaGone, 0},
		{"new", 100, ingest.ReplicaPending, 0}, // another replica with the same name
		{"new", 110, ingest.ReplicaReady, 10 * time.Second},
		{"late", 300, ingest.ReplicaPending, 0}, // after a silence
		{"late", 310, ingest.ReplicaReady, 0},
	} {
		if got := a.AddReplica(reported(step.name, step.s, step.state)).Warmed; got != step.want {
			t.Errorf("step %d (%s at %g s): %s, want %s", i, step.name, step.s, got, step.want)
		}
	}
}

func TestReplicaTTL(t *testing.T) {
	a := New(testConfig())
	a.AddReplica(reported("a", 30, ingest.ReplicaReady))
	for m, want := range []bool{true, true, true, false, false} { // TTL is three minutes
		s := stateAt(t, a, float64(m+1)*60)
		if s.Observed != want || (s.Ready == 1) != want {
			t.Errorf("after %d min: observed %v with %d ready, want %v", m+1, s.Observed, s.Ready, want)
		}
		if !s.ReportedAt.Equal(at(30)) {
			t.Errorf("reported at %v", s.ReportedAt)
		}
	}
	if !math.IsNaN(stateAt(t, a, 360).KVUsedMax) || len(a.pools[0].Fleet.Replicas) != 0 {
		t.Error("the silent replica is not deleted")
	}
}

func TestMaxReplicas(t *testing.T) {
	a := New(testConfig())
	for i := range maxReplicas + 3 {
		a.AddReplica(reported(fmt.Sprint(i), 1, ingest.ReplicaReady))
	}
	a.AddReplica(reported("1", 20, ingest.ReplicaDraining))
	if s := stateAt(t, a, 60); s.Ready != maxReplicas-1 || s.Draining != 1 {
		t.Errorf("%d ready and %d draining, want %d and 1", s.Ready, s.Draining, maxReplicas-1)
	}
	if got := a.Count.ReplicasRefused; got != 3 {
		t.Errorf("ReplicasRefused = %d, want 3", got)
	}
}

// A report of a replica shows that telemetry arrives, so its minute is covered.
func TestReplicaReportCoversMinute(t *testing.T) {
	a, h := New(testConfig()), history{}
	mustAdd(t, a, request("a", 10))
	a.AddReplica(reported("r", 70, ingest.ReplicaReady))
	h.closeUntil(t, a, 1, 3)
	wantDims(t, h.window(t, "chat", 1), map[string]float64{DimRequests: 0})
	wantDims(t, h.window(t, "chat", 2), map[string]float64{DimRequests: unknown})
	if p := h.pools; !p[0].Covered || !p[1].Covered || p[2].Covered || !p[2].LastEvent.Equal(at(70)) {
		t.Errorf("pool minutes %+v", p)
	}
}

func TestPreemptionsInSnapshot(t *testing.T) {
	a := New(testConfig())
	for i := range 3 {
		a.AddReplica(report(reported("r", float64(i), ingest.ReplicaReady), -1, -1, -1, int64(10*i), math.NaN()))
	}
	b := restarted(t, a, testConfig())
	if s := stateAt(t, b, 60); s.Preemptions != 20 {
		t.Errorf("%v preemptions, want 20", s.Preemptions)
	}
}

// TestSteady: the replicas of the minute that settles are known if the same number was ready at its start and its end.
func TestSteady(t *testing.T) {
	cfg := testConfig()
	cfg.Revise, cfg.ReplicaTTL = 2*time.Minute, time.Minute
	a := New(cfg)
	ready := []int{3, 3, 4, 4, 0, 4} // at the end of each minute, 0 without a report
	want := []int{0, 0, 0, 3, 0, 4, 0, 0}
	for m, steady := range want {
		if m < len(ready) {
			for i := range ready[m] {
				a.AddReplica(reported(fmt.Sprint("r", i), float64(60*m+50), ingest.ReplicaReady))
			}
		}
		if m == 4 {
			cover(a, 300)
		}
		_, pools := a.Close(at(float64(60 * (m + 1))))
		if got := pools[0].Steady; got != steady {
			t.Errorf("at the end of minute %d: %d replicas of the minute that settles, want %d", m, got, steady)
		}
	}
}
