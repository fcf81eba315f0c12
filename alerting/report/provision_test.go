package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
)

// cheapest tries all numbers of replicas in all minutes. The cost is replica minutes, plus lag minutes for each start
// after the first minute.
func cheapest(needs []int, lag int) int {
	most := 0
	for _, n := range needs {
		most = max(most, n)
	}
	best := make([]int, most+1) // by number of replicas
	for i, n := range needs {
		next := make([]int, most+1)
		for to := range next {
			next[to] = math.MaxInt32
			for from := range best {
				cost := best[from] + to
				if i == 0 {
					cost = to
				} else if to > from {
					cost += lag * (to - from)
				}
				if to >= n {
					next[to] = min(next[to], cost)
				}
			}
		}
		best = next
	}
	least := best[0]
	for _, c := range best {
		least = min(least, c)
	}
	return least
}

func TestHindsight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		needs := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 30).Draw(t, "needs")
		lag := rapid.IntRange(0, 8).Draw(t, "lag")
		if got, want := hindsight(needs, lag), cheapest(needs, lag); got != want {
			t.Fatalf("%d replica minutes, want %d", got, want)
		}
	})
}

// A replica serves 10 requests/s. Two are ready. At minute 70 two more are requested, and are ready at 78 and 84. From
// 80 on, demand needs four. At 100 it falls to one. At 110 two are removed, and one of them is requested again.
func provisioned() *past {
	h := &past{demand: map[features.Key][]float64{}}
	basis := &alerting.Basis{GPUsPerReplica: 8, ReplicaHourUSD: 20, Least: 1, Warmup: alerting.WarmupBasis{StatedP50: 600, StatedP90: 900, P50: 600, P90: 900}}
	for m := range 200 {
		y := 15.0
		if m >= 80 && m < 100 {
			y = 35
		} else if m >= 100 {
			y = 8
		}
		h.demand[total] = append(h.demand[total], y)
		d := decision(m, 2, 0)
		d.Basis, d.Limit = basis, 9
		switch {
		case m >= 130:
		case m >= 120:
			if d.Desired = 3; m > 120 {
				d.Pending = 1
			}
		case m >= 110:
			d.Desired = 2
		case m >= 84:
			d.Desired, d.Ready = 4, 4
		case m >= 78:
			d.Desired, d.Ready, d.Pending = 4, 3, 1
		case m >= 70:
			d.Desired, d.Pending = 4, 2
			if m == 70 {
				d.Pending = 0
			}
		}
		h.decisions = append(h.decisions, d)
	}
	return h
}

func TestProvision(t *testing.T) {
	got := reconcile(t, provisioned(), 60, 180).Pools[0].Decisions
	amount := func(replicaMinutes float64) Amount {
		h := Number(replicaMinutes / 60)
		return Amount{h, 8 * h, 20 * h}
	}
	ready, pending := 2.*18+3*6+4*26+2*70, 2*7.+6+9
	needed := 20*2. + 20*4 + 80*1
	least := needed + 2*10 // the third and fourth are started once; the second is needed from the beginning
	want := Provision{
		KnownMinutes: 120, LagMinutes: 10, GPUsPerReplica: 8, ReplicaHourUSD: 20,
		Needed: amount(needed),
		Over:   amount(2 + 10*3 + 70), // the third replica at 78 and 79, four at 100…109, two after
		Under:  amount(4),
		Paid:   amount(ready + pending), Static: amount(4 * 120), Hindsight: amount(least),
	}
	if diff := cmp.Diff(want, got.Provision, close); diff != "" {
		t.Error(diff)
	}
	// Requested at 70, removed at 110, requested at 120, removed at 130: each of the last three undoes the one before
	// within the hour.
	if got.Actions != 4 || got.TakenBack != 3 {
		t.Errorf("%d actions, %d taken back", got.Actions, got.TakenBack)
	}
}

// If decisions have no basis, GPU-hours, costs and the lag are unknown.
func TestProvisionWithoutBasis(t *testing.T) {
	h := provisioned()
	for i := range h.decisions {
		h.decisions[i].Basis = nil
	}
	got := reconcile(t, h, 60, 180).Pools[0].Decisions.Provision
	if got.GPUsPerReplica != 0 || !math.IsNaN(float64(got.Paid.GPUHours)) || !math.IsNaN(float64(got.Paid.USD)) {
		t.Errorf("%+v", got)
	}
	if got.LagMinutes.Known() || got.Paid.ReplicaHours == 0 {
		t.Errorf("%+v", got)
	}
}
