package daemon

import (
	"runtime/debug"
	"testing"
)

// TestGCPercent: the larger the heap, the less it may grow, in percent.
func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1 << 20: 100, 80 << 20: 100, 160 << 20: 50, 400 << 20: 20, 410 << 20: 10, 1 << 40: 10} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live>>20, got, want)
		}
	}
}

// TestGCEnvironment: GOGC and GOMEMLIMIT are not changed.
func TestGCEnvironment(t *testing.T) {
	was := debug.SetGCPercent(70)
	defer debug.SetGCPercent(was)
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1GiB")
			adjustGC(true)
			if percent := debug.SetGCPercent(70); percent != 70 {
				t.Errorf("the growth is now %d %%", percent)
			}
		})
	}
	adjustGC(false)
	if percent := debug.SetGCPercent(70); percent != minGCPercent {
		t.Errorf("the growth at the start is %d %%", percent)
	}
}
