package backtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

const minutesPerDay = 1440

// What the demand of a pool is run again to is what the pipeline did on the traffic itself, classes and all.
func TestRerunIsTheRun(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, "t_s,class,requests")
	demand := make([]float64, minutesPerDay)
	for m := range demand {
		agents := math.Round(300 * (1 + math.Sin(float64(m)/70)))
		chats := math.Round(200 + 7*math.Mod(float64(m*m), 13))
		fmt.Fprintf(&b, "%d,agent,%g\n%d,chat,%g\n", 60*m, agents, 60*m, chats)
		demand[m] = (agents + chats) / 60
	}
	pool, err := capacity.New(capacity.Config{Name: "trace", MaxRequestsPerS: 1, Replicas: capacity.Replicas{Min: 1, Max: 40, Initial: 9}, Warmup: capacity.Lag{P50: 3 * time.Minute, P90: 4 * time.Minute}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := mustRun(t, RunConfig{Trace: write(t, b.String()), Pool: &pool, Decide: 5 * time.Minute, Seed: 4, Options: Options{Bin: time.Minute}})
	past := PoolHistory{
		Start: DefaultStart, Demand: map[string][]float64{capacity.Requests: demand}, Initial: 9, Every: 5 * time.Minute, Stale: 3 * time.Minute,
		Lag: capacity.Lag{P50: 3 * time.Minute, P90: 4 * time.Minute},
	}
	accounts, err := Rerun(t.Context(), &past, []Variant{{Pool: pool, Decision: alerting.DefaultConfig()}}, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := accounts[0], s.Policies[0]
	if got.Minutes != s.Minutes || got.Saturated != want.SaturatedMinutes || got.Actions != want.ScaleActions || math.Abs(got.GPUHours-float64(want.GPUHours)) > 1e-9 {
		t.Errorf("%d minutes, %d saturated, %d actions, %g GPU-hours; the run had %d, %d, %d, %g",
			got.Minutes, got.Saturated, got.Actions, got.GPUHours, s.Minutes, want.SaturatedMinutes, want.ScaleActions, want.GPUHours)
	}
	if got.Actions < 10 || got.Saturated == 0 {
		t.Errorf("nothing to compare: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Rerun(ctx, &past, []Variant{{Pool: pool}}, 4, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// The roles of a disaggregated pool are both run again: each has replicas of its own, and both are paid.
func TestRerunRoles(t *testing.T) {
	past := PoolHistory{
		Start: DefaultStart, From: minutesPerDay, Demand: map[string][]float64{}, Initial: 2, InitialPrefill: 3, Every: 5 * time.Minute, Stale: 5 * time.Minute,
		Lag: capacity.Lag{P50: 3 * time.Minute, P90: 4 * time.Minute},
	}
	for m := range 2 * minutesPerDay {
		past.Demand[capacity.Prefill] = append(past.Demand[capacity.Prefill], 400+200*math.Sin(float64(m)/60))
		past.Demand[capacity.Decode] = append(past.Demand[capacity.Decode], 150)
	}
	arm := func(most int) Variant {
		p, err := capacity.New(capacity.Config{
			Name: "p", PrefillTokensPerS: 100, PrefillTarget: 1, DecodeTokensPerS: 100, Replicas: capacity.Replicas{Min: 1, Max: 9}, GPU: capacity.GPU{PerReplica: 2},
			Disaggregated: capacity.Disaggregated{PrefillReplicas: capacity.Replicas{Min: 1, Max: most}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return Variant{Pool: p, Decision: alerting.DefaultConfig()}
	}
	accounts, err := Rerun(t.Context(), &past, []Variant{arm(9), arm(3)}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	enough, short := accounts[0], accounts[1]
	// Two replicas decode; six at most prefill, and four on average.
	if hours := enough.GPUHours / 2 / 24; hours < 6 || hours > 9 || enough.Saturated > 60 || enough.Actions < 10 {
		t.Errorf("%g replicas on average, %d minutes saturated, %d actions", hours, enough.Saturated, enough.Actions)
	}
	if hours := short.GPUHours / 2 / 24; hours < 4.5 || hours > 5.01 || short.Saturated < 700 || short.Saturated > minutesPerDay {
		t.Errorf("with three prefill replicas at most: %g replicas on average, %d minutes saturated", hours, short.Saturated)
	}
}

// BenchmarkRerun is a week of four resources, after one that models learn from, with more variants than a report runs.
func BenchmarkRerun(b *testing.B) {
	past := PoolHistory{Start: DefaultStart, From: 7 * minutesPerDay, Demand: map[string][]float64{}, Initial: 20, Stale: 5 * time.Minute, Lag: capacity.Lag{P50: 6 * time.Minute, P90: 12 * time.Minute}}
	for m := range 14 * minutesPerDay {
		rate := 100 * (1 + .5*math.Sin(float64(m)*2*math.Pi/minutesPerDay)) * (1 + .1*math.Sin(float64(m*m)))
		for i, each := range []float64{12_000, 900, 200, 1} {
			past.Demand[loadDimensions[i]] = append(past.Demand[loadDimensions[i]], each*rate)
		}
	}
	pool, err := capacity.New(capacity.Config{
		Name: "p", KVCapacityTokens: 100_000, PrefillTokensPerS: 9000, DecodeTokensPerS: 1500, MaxRequestsPerS: 10, Replicas: capacity.Replicas{Min: 1, Max: 60},
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	var variants []Variant
	for range 9 {
		variants = append(variants, Variant{Pool: pool, Decision: alerting.DefaultConfig()})
	}
	for b.Loop() {
		if _, err := Rerun(b.Context(), &past, variants, 1, nil); err != nil {
			b.Fatal(err)
		}
	}
}
