package backtest

import "testing"

// TestKnative: the policy follows the rules of Knative's KPA.
func TestKnative(t *testing.T) {
	seen := func(ready int, need, backlog float64) Observation {
		return Observation{Ready: ready, Need: need, Backlog: backlog}
	}
	for _, test := range []struct {
		name  string
		delay float64
		seen  []Observation
		want  int // after the last
	}{
		{"need above the target share", 0, []Observation{seen(4, 3.5, 0)}, 5},
		{"waiting requests count as concurrency", 0, []Observation{seen(4, 3.5, .7)}, 6},
		{"scale-in removes at most half", 0, []Observation{seen(9, .7, 0)}, 4},
		{"a need of twice the ready replicas is a panic, without scale-in", 0, []Observation{seen(2, 2.8, 0), seen(4, .7, 0)}, 4},
		{"a panic lasts a minute", 0, []Observation{seen(2, 2.8, 0), seen(4, .7, 0), seen(4, .7, 0)}, 2},
		{"without a delay, scale-in is immediate", 0, []Observation{seen(6, 4.2, 0), seen(6, 2.1, 0)}, 3},
		{"the scale-down delay keeps the largest answer", 2, []Observation{seen(6, 4.2, 0), seen(6, 2.1, 0), seen(6, 2.1, 0)}, 6},
		{"the scale-down delay ends", 2, []Observation{seen(6, 4.2, 0), seen(6, 2.1, 0), seen(6, 2.1, 0), seen(6, 2.1, 0)}, 3},
		{"no traffic needs no replica", 0, []Observation{seen(1, 0, 0)}, 0},
	} {
		p := newKnative(Scene{}, Setting{.7, test.delay})
		got := 0
		for _, o := range test.seen {
			got = p(o)
		}
		if got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
