package alerting

import (
	"testing"
	"time"
)

// TestAskedAt: when a replica is lost, another one is requested at that moment. The time of the request stays until the
// pool has enough replicas.
func TestAskedAt(t *testing.T) {
	st, cfg := State{}, DefaultConfig()
	var d Decision
	tick := func(minute, ready int) {
		in := scene{ready: ready, median: flat(350), last: 350}.input(t)
		d, st = Decide(noon.Add(time.Duration(minute)*time.Minute), in, st, cfg)
	}
	tick(0, 4)
	if !d.AskedAt.IsZero() {
		t.Errorf("no replica was requested, AskedAt is %s", d.AskedAt)
	}
	tick(10, 3)
	tick(11, 3)
	if want := noon.Add(10 * time.Minute); d.Desired != 4 || !d.AskedAt.Equal(want) {
		t.Errorf("%d replicas requested at %s, want 4 at %s", d.Desired, d.AskedAt, want)
	}
	tick(20, 4)
	tick(30, 3)
	if want := noon.Add(30 * time.Minute); !d.AskedAt.Equal(want) {
		t.Errorf("requested at %s, want %s", d.AskedAt, want)
	}
}
