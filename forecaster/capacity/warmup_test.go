package capacity

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func TestWarmupPrior(t *testing.T) {
	w := NewWarmup(6*time.Minute, 12*time.Minute)
	for p, want := range map[float64]time.Duration{0.5: 6 * time.Minute, 0.9: 12 * time.Minute, 0.1: 3 * time.Minute} {
		if got := w.Quantile(p); got != want {
			t.Errorf("quantile %g: %s, want %s", p, got, want)
		}
	}
	constant := NewWarmup(8*time.Minute, 8*time.Minute)
	for _, p := range []float64{.01, .5, .99} {
		if got := constant.Quantile(p); got != 8*time.Minute {
			t.Errorf("constant lag at %g: %s", p, got)
		}
	}
}

func TestWarmupReadyBy(t *testing.T) {
	w, constant := NewWarmup(6*time.Minute, 12*time.Minute), NewWarmup(8*time.Minute, 8*time.Minute)
	tests := []struct {
		name       string
		w          *Warmup
		now, until time.Duration // since it was asked for
		want       float64
	}{
		{"median, asked now", &w, 0, 6 * time.Minute, .5},
		{"p90, asked now", &w, 0, 12 * time.Minute, .9},
		{"nothing is ready in no time", &w, 3 * time.Minute, 3 * time.Minute, 0},
		{"the past", &w, 6 * time.Minute, 2 * time.Minute, 0},
		{"given that half are not ready", &w, 6 * time.Minute, 12 * time.Minute, .8},
		{"constant, before", &constant, 0, 7 * time.Minute, 0},
		{"constant, at", &constant, 0, 8 * time.Minute, 1},
		{"constant, overdue", &constant, 9 * time.Minute, 10 * time.Minute, 1},
	}
	for _, tt := range tests {
		if got := tt.w.ReadyBy(epoch, epoch.Add(tt.now), epoch.Add(tt.until)); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: %g, want %g", tt.name, got, tt.want)
		}
	}
}

func TestWarmupLearns(t *testing.T) {
	w := NewWarmup(6*time.Minute, 12*time.Minute)
	w.Observe(-time.Second)
	w.Observe(0)
	w.Observe(25 * time.Hour)
	if got := w.Quantile(.5); got != 6*time.Minute {
		t.Errorf("median %s after nonsense, want the prior's 6m", got)
	}
	w.Observe(20 * time.Minute)
	if got := w.Quantile(.5); got <= 6*time.Minute || got > 8*time.Minute {
		t.Errorf("median %s after one lag of 20m; one observation is a tenth of the prior", got)
	}
	for range 200 {
		w.Observe(20 * time.Minute)
	}
	if got := w.Quantile(.5); got < 15*time.Minute || got > 20*time.Minute {
		t.Errorf("median %s after many lags of 20m", got)
	}
	if n := len(w.State().Observed); n != warmupWindow {
		t.Errorf("%d observations kept, want %d", n, warmupWindow)
	}
	copied := w
	copied.Observe(time.Minute)
	if w.Quantile(.5) == copied.Quantile(.5) {
		t.Error("a copy shares its observations")
	}
}

func TestWarmupProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p50 := time.Duration(rapid.Int64Range(int64(time.Second), int64(30*time.Minute)).Draw(t, "p50"))
		p90 := p50 + time.Duration(rapid.Int64Range(0, int64(30*time.Minute)).Draw(t, "spread"))
		w := NewWarmup(p50, p90)
		for _, d := range rapid.SliceOfN(rapid.Int64Range(1, int64(time.Hour)), 0, 80).Draw(t, "observed") {
			w.Observe(time.Duration(d))
		}
		var restored Warmup = NewWarmup(p50, p90)
		restored.Restore(w.State())
		last := -1.0
		for m := range 60 {
			now := epoch.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "age")) * time.Minute)
			p := w.ReadyBy(epoch, now, epoch.Add(time.Duration(m)*time.Minute))
			if !(p >= 0 && p <= 1) {
				t.Fatalf("probability %g at %d min", p, m)
			}
			if fixed := w.ReadyBy(epoch, epoch, epoch.Add(time.Duration(m)*time.Minute)); fixed < last {
				t.Fatalf("probability falls from %g to %g at %d min", last, fixed, m)
			} else {
				last = fixed
			}
		}
		if w.Quantile(.5) > w.Quantile(.9) || w.Quantile(.9) != restored.Quantile(.9) {
			t.Fatalf("p50 %s, p90 %s, restored %s", w.Quantile(.5), w.Quantile(.9), restored.Quantile(.9))
		}
	})
}
