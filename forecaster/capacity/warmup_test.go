package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
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
			t.Errorf("constant warm-up: quantile %g is %s", p, got)
		}
	}
}

func TestWarmupReadyBy(t *testing.T) {
	w, constant := NewWarmup(6*time.Minute, 12*time.Minute), NewWarmup(8*time.Minute, 8*time.Minute)
	tests := []struct {
		name       string
		w          *Warmup
		now, until time.Duration // since the request
		want       float64
	}{
		{"median, requested now", &w, 0, 6 * time.Minute, .5},
		{"p90, requested now", &w, 0, 12 * time.Minute, .9},
		{"no time passes", &w, 3 * time.Minute, 3 * time.Minute, 0},
		{"the past", &w, 6 * time.Minute, 2 * time.Minute, 0},
		{"not ready at the median", &w, 6 * time.Minute, 12 * time.Minute, .8},
		{"constant, before", &constant, 0, 7 * time.Minute, 0},
		{"constant, at", &constant, 0, 8 * time.Minute, 1},
		{"constant, late", &constant, 9 * time.Minute, 10 * time.Minute, 1},
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
		t.Errorf("median %s after invalid durations, want the prior's 6m", got)
	}
	w.Observe(20 * time.Minute)
	if got := w.Quantile(.5); got <= 6*time.Minute || got > 8*time.Minute {
		t.Errorf("median %s after one warm-up of 20m, want 6m to 8m", got)
	}
	for range 200 {
		w.Observe(20 * time.Minute)
	}
	if got := w.Quantile(.5); got < 15*time.Minute || got > 20*time.Minute {
		t.Errorf("median %s after many warm-ups of 20m", got)
	}
	if n := len(w.Observed); n != warmupWindow {
		t.Errorf("%d observations kept, want %d", n, warmupWindow)
	}
	copied := w
	copied.Observe(time.Minute)
	if w.Quantile(.5) == copied.Quantile(.5) {
		t.Error("a copy shares its observations")
	}
}

// TestWarmupChange: ten observations after warm-ups became twice as long, the 90th percentile is the new one. After
// they became shorter again it falls within 40 observations. Without a change it stays.
func TestWarmupChange(t *testing.T) {
	const runs, spread = 200, 0.4
	p90 := math.Exp(spread * Z90)
	r := rand.New(rand.NewPCG(5, 2))
	after := map[int][]float64{} // the learned 90th percentile over the true one, by observations so far
	for range runs {
		w := NewWarmup(6*time.Minute, 12*time.Minute)
		for n := range 130 {
			median := 6 * time.Minute
			if n >= 60 && n < 90 {
				median *= 2
			}
			w.Observe(time.Duration(float64(median) * math.Exp(spread*r.NormFloat64())))
			after[n+1] = append(after[n+1], float64(w.Quantile(.9))/float64(median)/p90)
		}
	}
	for n, want := range map[int][2]float64{60: {.8, 1.3}, 70: {.75, 1.45}, 90: {.8, 1.4}, 130: {.75, 1.35}} {
		got := after[n]
		slices.Sort(got)
		if lo, mid, hi := got[runs/20], got[runs/2], got[runs-runs/20]; lo < want[0] || hi > want[1] || mid < .93 || mid > 1.13 {
			t.Errorf("after %d warm-ups p90 is %.2f of the true one (5 %%: %.2f, 95 %%: %.2f), want within %v", n, mid, lo, hi, want)
		}
	}
}

// TestWarmupGivenWaiting: replicas that start for longer than any before raise the warm-up before one of them is ready.
// Shorter waits do not.
func TestWarmupGivenWaiting(t *testing.T) {
	w := NewWarmup(6*time.Minute, 12*time.Minute)
	for range 30 {
		w.Observe(6 * time.Minute)
	}
	before := w.Quantile(.9)
	many := func(d time.Duration, n int) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }
	tests := []struct {
		name     string
		waiting  []time.Duration
		min, max time.Duration // of the 90th percentile
	}{
		{"none", nil, before, before},
		{"requested a second ago", many(time.Second, 3), before - time.Second, before + time.Second},
		{"requested now", many(0, 3), before, before},
		{"five, twice as long", many(12*time.Minute, 5), 10 * time.Minute, 20 * time.Minute},
		{"a wait of 20 hours counts as maxWaiting", many(20*time.Hour, 1), w.given(many(maxWaiting, 1)), w.given(many(maxWaiting, 1))},
	}
	for _, tt := range tests {
		if got := w.given(tt.waiting); got < tt.min || got > tt.max {
			t.Errorf("%s: p90 %s, want %s to %s", tt.name, got, tt.min, tt.max)
		}
	}
	if w.Quantile(.9) != before {
		t.Error("Given changed the observations")
	}
	constant := NewWarmup(8*time.Minute, 8*time.Minute)
	if got := constant.given(many(12*time.Minute, 4)); got <= 8*time.Minute || got > 30*time.Minute {
		t.Errorf("p90 %s of a stated warm-up of 8m, with replicas that start for 12m", got)
	}
}

func (w *Warmup) given(waiting []time.Duration) time.Duration {
	g := w.Given(waiting)
	return g.Quantile(.9)
}

func TestWarmupProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p50 := time.Duration(rapid.Int64Range(int64(time.Second), int64(30*time.Minute)).Draw(t, "p50"))
		p90 := p50 + time.Duration(rapid.Int64Range(0, int64(30*time.Minute)).Draw(t, "spread"))
		w := NewWarmup(p50, p90)
		for _, d := range rapid.SliceOfN(rapid.Int64Range(1, int64(time.Hour)), 0, 80).Draw(t, "observed") {
			w.Observe(time.Duration(d))
		}
		restored := NewWarmup(p50, p90).With(Warmup{Observed: w.Observed, Seen: w.Seen})
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
