package daemon

import "testing"

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
	t.Setenv("GOGC", "70")
	if percent := startGC(); percent != 0 {
		t.Error("GOGC was replaced")
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "1GiB")
	if percent := startGC(); percent != 0 {
		t.Error("GOMEMLIMIT was replaced")
	}
}
