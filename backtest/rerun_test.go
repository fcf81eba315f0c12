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
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

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
	s := mustRun(t, RunConfig{Traces: []string{write(t, b.String())}, Pool: &pool, Decide: 5 * time.Minute, Seed: 4, Options: Options{Bin: time.Minute}})
	past := Past{
		Start: DefaultStart, Demand: map[string][]float64{capacity.Requests: demand}, Initial: 9, Every: 5 * time.Minute, Stale: 3 * time.Minute,
		Lag: capacity.Lag{P50: 3 * time.Minute, P90: 4 * time.Minute},
	}
	days, err := Rerun(t.Context(), &past, []Arm{{Pool: pool, Decision: alerting.DefaultConfig()}}, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := days[0][0], s.Policies[0]
	if got.Minutes != s.Minutes || got.Saturated != want.SaturatedMinutes || got.Actions != want.ScaleActions || math.Abs(got.GPUHours-float64(want.GPUHours)) > 1e-9 {
		t.Errorf("%d minutes, %d saturated, %d actions, %g GPU-hours; the run had %d, %d, %d, %g",
			got.Minutes, got.Saturated, got.Actions, got.GPUHours, s.Minutes, want.SaturatedMinutes, want.ScaleActions, want.GPUHours)
	}
	if got.Actions < 10 || got.Saturated == 0 || !(got.Short > 0) {
		t.Errorf("nothing to compare: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Rerun(ctx, &past, []Arm{{Pool: pool}}, 4, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// The roles of a disaggregated pool are both run again: each has replicas of its own, and both are paid.
func TestRerunRoles(t *testing.T) {
	past := Past{
		Start: DefaultStart, From: minutesPerDay, Demand: map[string][]float64{}, Initial: 2, Prompts: 3, Every: 5 * time.Minute, Stale: 5 * time.Minute,
		Lag: capacity.Lag{P50: 3 * time.Minute, P90: 4 * time.Minute},
	}
	for m := range 2 * minutesPerDay {
		past.Demand[capacity.Prefill] = append(past.Demand[capacity.Prefill], 400+200*math.Sin(float64(m)/60))
		past.Demand[capacity.Decode] = append(past.Demand[capacity.Decode], 150)
	}
	arm := func(most int) Arm {
		p, err := capacity.New(capacity.Config{
			Name: "p", PrefillTokensPerS: 100, DecodeTokensPerS: 100, Replicas: capacity.Replicas{Min: 1, Max: 9}, GPU: capacity.GPU{PerReplica: 2},
			Disaggregated: capacity.Disaggregated{PrefillReplicas: capacity.Replicas{Min: 1, Max: most}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return Arm{Pool: p, Decision: alerting.DefaultConfig()}
	}
	days, err := Rerun(t.Context(), &past, []Arm{arm(9), arm(3)}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	enough, short := days[0][0], days[1][0]
	// Two replicas decode; six at most prefill, and four on average.
	if hours := enough.GPUHours / 2 / 24; hours < 6 || hours > 9 || enough.Saturated > 60 || enough.Actions < 10 {
		t.Errorf("%g replicas on average, %d minutes saturated, %d actions", hours, enough.Saturated, enough.Actions)
	}
	if hours := short.GPUHours / 2 / 24; hours < 4.5 || hours > 5.01 || short.Saturated < 700 || short.Saturated > minutesPerDay || !(short.Short > 700) {
		t.Errorf("with three prefill replicas at most: %g replicas on average, %d minutes saturated, short for %g", hours, short.Saturated, short.Short)
	}
}

func TestBetter(t *testing.T) {
	o := Objective{Worth: 19, GPUs: 1}
	priced := o
	priced.Priced = true
	// Days by GPU-hours, short replica-minutes and saturated minutes.
	days := func(rows ...[3]float64) (all []Account) {
		for _, r := range rows {
			all = append(all, Account{Minutes: 1440, GPUHours: r[0], Short: r[1], Saturated: int(r[2])})
		}
		return all
	}
	same := func(n int, r [3]float64) (all []Account) {
		for range n {
			all = append(all, days(r)...)
		}
		return all
	}
	base := same(7, [3]float64{100, 3, 3})
	for _, c := range []struct {
		name  string
		o     Objective
		after []Account
		want  bool
	}{
		{"the same", o, base, false},
		{"cheaper each day", o, same(7, [3]float64{95, 3, 3}), true},
		{"less than a hundredth", o, same(7, [3]float64{99.5, 3, 3}), false},
		{"fewer short minutes for less", o, same(7, [3]float64{100.1, 0, 0}), false},
		{"for one day of seven", o, append(days([3]float64{60, 3, 3}), base[1:]...), false},
		{"in one half only", o, append(same(3, [3]float64{80, 3, 3}), same(4, [3]float64{100.2, 3, 3})...), false},
		{"cheaper, more saturated", o, same(7, [3]float64{90, 6, 6}), false},
		{"cheaper, more saturated, and that priced", priced, same(7, [3]float64{90, 6, 6}), true},
		{"too dear for what it saves", priced, same(7, [3]float64{103, 0, 0}), false},
		{"a single day", o, days([3]float64{50, 3, 3}), false},
		{"as good as chance", o, days([3]float64{90, 3, 3}, [3]float64{104, 3, 3}, [3]float64{94, 3, 3}, [3]float64{105, 3, 3}, [3]float64{90, 3, 3}, [3]float64{99, 3, 3}, [3]float64{101, 3, 3}), false},
	} {
		if got := c.o.Better(base[:len(c.after)], c.after, 10); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if gain := o.Gain(same(2, [3]float64{100, 60, 9}), same(2, [3]float64{90, 0, 0})); math.Abs(gain-58) > 1e-9 {
		t.Errorf("saves %g GPU-hours, want 10 and 19 each day", gain)
	}
	if diff := cmp.Diff(Account{Minutes: 2880, GPUHours: 190, Short: 60, Saturated: 9}, Sum(days([3]float64{100, 60, 9}, [3]float64{90, 0, 0})), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkRerun is a week of four resources, after one that models learn from, with as many arms as a report tries.
func BenchmarkRerun(b *testing.B) {
	past := Past{Start: DefaultStart, From: 7 * minutesPerDay, Demand: map[string][]float64{}, Initial: 20, Stale: 5 * time.Minute, Lag: capacity.Lag{P50: 6 * time.Minute, P90: 12 * time.Minute}}
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
	var arms []Arm
	for range 13 {
		arms = append(arms, Arm{Pool: pool, Decision: alerting.DefaultConfig()})
	}
	for b.Loop() {
		if _, err := Rerun(b.Context(), &past, arms, 1, nil); err != nil {
			b.Fatal(err)
		}
	}
}
