package backtest

import (
	"testing"
	"time"
)

// An action takes an ask back when it gives up a replica that was asked for less than a warm-up before.
func TestOrdersCountWhatIsTakenBack(t *testing.T) {
	type step struct{ minute, n int }
	for name, tt := range map[string]struct {
		steps             []step
		actions, reversed int
	}{
		"up and down within the warm-up":      {[]step{{0, 6}, {2, 5}, {8, 6}, {10, 5}}, 4, 2},
		"down after it":                       {[]step{{0, 6}, {12, 5}}, 2, 0},
		"an older one goes after a new one":   {[]step{{0, 6}, {10, 7}, {13, 6}, {14, 5}}, 4, 1},
		"one action takes several back":       {[]step{{0, 6}, {1, 8}, {2, 4}}, 3, 1},
		"the initial ones were not asked for": {[]step{{0, 4}, {1, 3}, {2, 4}, {30, 4}}, 3, 0},
	} {
		o := replicaOrders{target: 5, warmup: 12 * time.Minute}
		for _, s := range tt.steps {
			o.set(s.n, DefaultStart.Add(time.Duration(s.minute)*time.Minute))
		}
		if o.actions != tt.actions || o.reversed != tt.reversed {
			t.Errorf("%s: %d of %d actions took an ask back, want %d of %d", name, o.reversed, o.actions, tt.reversed, tt.actions)
		}
	}
}
