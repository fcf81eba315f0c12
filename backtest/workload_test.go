package backtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
)

func requestsOf(cfg WorkloadConfig, seed uint64, d time.Duration) (all []*ingest.Request) {
	start := cfg.Start
	if start.IsZero() {
		start = DefaultStart
	}
	cfg.End = start.Add(d)
	w := NewWorkload(cfg, seed)
	for it := (Item{}); w.Next(&it) == nil; {
		all = append(all, it.Request)
	}
	return all
}

func TestWorkload(t *testing.T) {
	a := requestsOf(WorkloadConfig{}, 3, 24*time.Hour)
	if len(a) < 200_000 || len(a) > 400_000 {
		t.Errorf("%d requests in a day, want 200,000 to 400,000", len(a))
	}
	limits := map[string]ClassConfig{}
	for _, c := range DefaultClasses() {
		limits[c.Name] = c
	}
	for i, x := range a {
		c := limits[x.Class]
		if i > 0 && x.ArrivedAt.Before(a[i-1].ArrivedAt) {
			t.Fatalf("request %d out of order: %+v", i, x)
		}
		if x.PromptTokens < 1 || x.PromptTokens > c.Context || x.CachedTokens < 0 || x.CachedTokens >= x.PromptTokens || x.OutputTokens < 1 || x.OutputTokens > c.MaxOutput || x.Tenant == "" {
			t.Fatalf("impossible request %+v", x)
		}
	}
	if diff := cmp.Diff(a[:5000], requestsOf(WorkloadConfig{}, 3, 24*time.Hour)[:5000]); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(a[:100], requestsOf(WorkloadConfig{}, 4, time.Hour)[:100]) {
		t.Error("another seed gives the same requests")
	}
}

// TestWorkloadLaws: over a day, a class has its stated rate, and its gaps have the variance of their distribution.
func TestWorkloadLaws(t *testing.T) {
	flat := [24]float64{}
	for h := range flat {
		flat[h] = 1
	}
	for _, test := range []struct {
		shape float64
		cv2   float64 // squared coefficient of variation
	}{
		{1, 1},
		{0.6, math.Gamma(1+2/0.6)/math.Pow(math.Gamma(1+1/0.6), 2) - 1},
	} {
		class := ClassConfig{Name: "c", PerSecond: 2, Shape: test.shape, Day: flat, PromptMedian: 100, PromptSigma: 1, OutputMean: 300, Context: 1 << 30, MaxOutput: 1 << 30, Turns: 1, Tenants: []string{"t"}}
		a := requestsOf(WorkloadConfig{Classes: []ClassConfig{class}, Rate: 1.5}, 1, 24*time.Hour)
		var sum, square, output float64
		for i := 1; i < len(a); i++ {
			gap := a[i].ArrivedAt.Sub(a[i-1].ArrivedAt).Seconds()
			sum, square = sum+gap, square+gap*gap
			output += float64(a[i].OutputTokens)
		}
		n := float64(len(a) - 1)
		mean := sum / n
		if math.Abs(mean*3-1) > .02 {
			t.Errorf("shape %g: mean gap %.4f s, want 1/3 s", test.shape, mean)
		}
		if cv2 := square/n/(mean*mean) - 1; math.Abs(cv2/test.cv2-1) > .06 {
			t.Errorf("shape %g: squared variation %.3f, want %.3f", test.shape, cv2, test.cv2)
		}
		if math.Abs(output/n/300-1) > .02 {
			t.Errorf("mean output %.1f, want 300", output/n)
		}
	}
}

// TestLaunch: after a launch has ramped up, agents send three times the requests, with contexts of 1.6 times the
// length. The other classes stay the same.
func TestLaunch(t *testing.T) {
	start := DefaultStart.Add(13 * time.Hour)
	launch := start.Add(30 * time.Minute)
	count := func(l time.Time) (n, others float64) {
		for _, a := range requestsOf(WorkloadConfig{Start: start, Launch: l}, 1, 3*time.Hour) {
			switch {
			case a.ArrivedAt.Before(launch.Add(LaunchRamp)):
			case a.Class == "agent":
				n++
			default:
				others++
			}
		}
		return n, others
	}
	n0, others0 := count(time.Time{})
	n1, others1 := count(launch)
	if r := n1 / n0; r < 2.7 || r > 3.3 {
		t.Errorf("agents send %.2f times the requests, want 3", r)
	}
	if others0 != others1 {
		t.Errorf("the launch changed the other classes: %g and %g requests", others0, others1)
	}
	s := newClassStream(DefaultClasses()[2], WorkloadConfig{Start: start, Rate: 1, Launch: launch}, rand.New(rand.NewPCG(1, 1)))
	for minutes, want := range map[float64]float64{0: 1, 30: 1, 47.5: 1.3, 65: 1.6, 300: 1.6} {
		if got := s.ramp(minutes*60, LaunchContext); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %g minutes the context is %.3f times as long, want %g", minutes, got, want)
		}
	}
}

// TestScheduledBursts: the batch class has a burst at five past every second hour.
func TestScheduledBursts(t *testing.T) {
	var inside, outside float64
	for _, a := range requestsOf(WorkloadConfig{}, 1, 24*time.Hour) {
		if a.Class != "summarise" {
			continue
		}
		if at := a.ArrivedAt.Sub(DefaultStart) % (2 * time.Hour); at >= 5*time.Minute && at < 15*time.Minute {
			inside++
		} else if at >= 40*time.Minute {
			outside++
		}
	}
	if r := (inside / 10) / (outside / 80); r < 3 || r > 5.5 {
		t.Errorf("the first ten minutes of a burst have %.1f times the requests of quiet minutes, want about 4", r)
	}
}
