package backtest

import "testing"

func TestKnativeFollowsTheKPA(t *testing.T) {
	seen := func(ready int, need, backlog float64) Observation {
		return Observation{Ready: ready, Need: need, Backlog: backlog}
	}
	for _, test := range []struct {
		name  string
		delay float64
		seen  []Observation
		want  int // after the last
	}{
		{"need over the target share", 0, []Observation{seen(4, 3.5, 0)}, 5},
		{"what waits is concurrency", 0, []Observation{seen(4, 3.5, .7)}, 6},
		{"half at a time going down", 0, []Observation{seen(9, .7, 0)}, 4},
		{"twice the ready ones is a panic, which gives up nothing", 0, []Observation{seen(2, 2.8, 0), seen(4, .7, 0)}, 4},
		{"for a minute after the last time", 0, []Observation{seen(2, 2.8, 0), seen(4, .7, 0), seen(4, .7, 0)}, 2},
		{"without a delay a fall is followed at once", 0, []Observation{seen(6, 4.2, 0), seen(6, 2.1, 0)}, 3},
		{"with a delay the largest answer stands", 2, []Observation{seen(6, 4.2, 0), seen(6, 2.1, 0), seen(6, 2.1, 0)}, 6},
		{"until it is over", 2, []Observation{seen(6, 4.2, 0), seen(6, 2.1, 0), seen(6, 2.1, 0), seen(6, 2.1, 0)}, 3},
		{"no traffic asks for none", 0, []Observation{seen(1, 0, 0)}, 0},
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
