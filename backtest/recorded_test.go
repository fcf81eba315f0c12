package backtest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// TestRecorded: a recorded pool is run with the demand and the replicas that it had. Unknown minutes do not count as
// minutes without traffic. A replica serves as much as it was seen to serve.
func TestRecorded(t *testing.T) {
	const minutes, gapFrom, gapTo = 6 * 60, 200, 230
	nan := math.NaN()
	values := func(mean float64) (all []float64) {
		for m := range minutes {
			x := mean * (1 + .5*math.Sin(float64(m)/40))
			if m >= gapFrom && m < gapTo {
				x = nan
			}
			all = append(all, x)
		}
		return all
	}
	r := &Recorded{Source: "somewhere", Start: DefaultStart, KVTokens: 1000, Notes: []string{"a note"}}
	r.Demand = map[string][]float64{features.DimRequests: values(10), features.DimDecode: values(2000), features.DimKV: values(800)}
	hours := 0.
	for m := range minutes {
		n := 2.
		if m >= 100 {
			n = 4
		}
		if m == 150 {
			r.Replicas = append(r.Replicas, nan) // unknown: taken from the minute before
		} else {
			r.Replicas = append(r.Replicas, n)
		}
		hours += n / 60
	}
	s := mustRun(t, RunConfig{Recorded: r, Policies: []string{"all"}, Warmup: capacity.Lag{P50: 3 * time.Minute, P90: 4 * time.Minute}})
	if s.Minutes != minutes || s.Holes != gapTo-gapFrom {
		t.Errorf("%d minutes, %d of them without data; want %d and %d", s.Minutes, s.Holes, minutes, gapTo-gapFrom)
	}
	if n := len(s.NotKnown); n < 5 || s.NotKnown[n-1] != "a note" {
		t.Errorf("notes %q", s.NotKnown)
	}
	dimensions := map[string]bool{}
	for _, x := range s.Scores {
		dimensions[x.Class+" "+x.Dimension] = true
	}
	for _, want := range []string{"* kv", "* decode", "* requests", "all kv"} {
		if !dimensions[want] {
			t.Errorf("no scores of %s: %v", want, dimensions)
		}
	}
	found := false
	for _, p := range s.Policies {
		if p.Policy != RecordedPolicy {
			continue
		}
		found = true
		if math.Abs(float64(p.GPUHours)-hours) > .01 || p.SaturatedShare > .05 {
			t.Errorf("%+v: want %g GPU-hours, and few saturated minutes", p, hours)
		}
	}
	if !found {
		t.Errorf("no results of %s", RecordedPolicy)
	}
	r.Replicas = nil
	for _, p := range mustRun(t, RunConfig{Recorded: r, Policies: []string{"forewarm", RecordedPolicy}, Warmup: capacity.Lag{P50: 3 * time.Minute, P90: 4 * time.Minute}}).Policies {
		if p.Policy == RecordedPolicy {
			t.Errorf("results of %s without recorded replicas", RecordedPolicy)
		}
	}
}

// TestSeenPool: the capacity of a replica is the 99th percentile of its load, and of its KV cache at least the planned
// share.
func TestSeenPool(t *testing.T) {
	r := &Recorded{Start: DefaultStart, Replicas: []float64{0, 2}, KVTokens: 1000}
	demand := &Demand{Start: DefaultStart}
	for m := range 1000 {
		load := unknownLoad
		load[0], load[2] = 100, 200+float64(m%100)
		demand.Minutes = append(demand.Minutes, load)
	}
	p, err := r.seenPool("p", demand, capacity.Lag{P50: time.Minute, P90: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	decode, _ := p.PerReplica(capacity.Decode, 0)
	kv, _ := p.PerReplica(capacity.KV, 0)
	if _, prefill := p.PerReplica(capacity.Prefill, 0); math.Abs(decode-149) > .1 || math.Abs(kv-850) > 1 || prefill || p.Replicas.Max != 8 {
		t.Errorf("decode %g, kv %g, prefill known %v, at most %d replicas; want 149, 850, no, 8", decode, kv, prefill, p.Replicas.Max)
	}
}

// TestUnknownMinutes: minutes without known demand at the start and the end are left out.
func TestUnknownMinutes(t *testing.T) {
	nan := math.NaN()
	r := &Recorded{Start: DefaultStart, Demand: map[string][]float64{features.DimKV: {nan, 5, nan, nan, nan}, features.DimDecode: {nan, nan, nan, 7, nan}}}
	x, err := r.open(Options{})
	if err != nil || !x.Start.Equal(DefaultStart.Add(time.Minute)) {
		t.Fatalf("from %s, %v", x.Start, err)
	}
	var got []string
	for it := (Item{}); x.Next(&it) == nil; {
		got = append(got, render(it, x.Start))
	}
	if diff := cmp.Diff([]string{"0 all sum ? ? ? ?", "120 all sum ? ? ? 420"}, got); diff != "" {
		t.Error(diff)
	}
}
