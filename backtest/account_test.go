package backtest

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// TestReversedActions: an action is reversed when a later one removes a replica that was ordered less than the 90th
// percentile of the warm-up before.
func TestReversedActions(t *testing.T) {
	type step struct{ minute, n int }
	for name, tt := range map[string]struct {
		steps             []step
		actions, reversed int
	}{
		"up and down within the warm-up":        {[]step{{0, 6}, {2, 5}, {8, 6}, {10, 5}}, 4, 2},
		"down after the warm-up":                {[]step{{0, 6}, {12, 5}}, 2, 0},
		"the newest is removed first":           {[]step{{0, 6}, {10, 7}, {13, 6}, {14, 5}}, 4, 1},
		"one action removes several":            {[]step{{0, 6}, {1, 8}, {2, 4}}, 3, 1},
		"initial replicas were never asked for": {[]step{{0, 4}, {1, 3}, {2, 4}, {30, 4}}, 3, 0},
	} {
		pool := capacity.Pool{Warmup: capacity.NewWarmup(6*time.Minute, 12*time.Minute), Config: capacity.Config{Replicas: capacity.Replicas{Initial: 5, Max: 20}}}
		p := NewFluidPool(pool, DefaultStart, 1)
		for _, s := range tt.steps {
			p.now = DefaultStart.Add(time.Duration(s.minute) * time.Minute)
			p.SetDesired(s.n)
		}
		if a := p.account; a.Actions != tt.actions || a.Reversed != tt.reversed {
			t.Errorf("%s: %d of %d actions are reversed, want %d of %d", name, a.Reversed, a.Actions, tt.reversed, tt.actions)
		}
	}
}

// TestMinutesOfUnknownDemand: a minute without known demand is neither saturated nor served. Its replicas cost money, and
// it counts as time in the actions per day.
func TestMinutesOfUnknownDemand(t *testing.T) {
	load := Load{math.NaN(), math.NaN(), math.NaN(), 8}
	pool, err := PeakPool("p", load, 2, capacity.Lag{P50: time.Minute, P90: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	pool.GPU.PerReplica = 1
	p := NewFluidPool(pool, DefaultStart, 1)
	p.Step(load)
	p.Step(unknownLoad)
	p.SetDesired(3)
	if a := p.account; a.Known != 1 || a.Asked != 8 || a.Met != 8 || math.Abs(a.GPUHours-4./60) > 1e-9 {
		t.Errorf("%+v, want one minute with 8 requests per second that are met, and four replica-minutes", a)
	}
	if row := (&contender{pool: p}).row(); row.ActionsPerDay != day/2 {
		t.Errorf("%g actions a day, want one in two minutes", row.ActionsPerDay)
	}
}
