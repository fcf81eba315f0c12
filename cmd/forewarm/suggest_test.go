package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// plantedStart is where a planted history begins: a day to learn from, and the days of the report.
var plantedStart = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const plantedDays = 3

// planted is a history of one pool: demand in requests/s, replicas of 10 each, and one more replica on its way every two
// hours, for lag minutes.
type planted struct {
	demand func(m int) float64
	lag    int
}

func (p planted) Observed(_ context.Context, from, to time.Time, fn func(features.Key, string, []float64) error) error {
	var values []float64
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		v := math.NaN()
		if m := int(at.Sub(plantedStart) / time.Minute); m >= 0 {
			v = p.demand(m)
		}
		values = append(values, v)
	}
	if err := fn(features.Key{Pool: "p", Class: "agent"}, features.DimRequests, values); err != nil {
		return err
	}
	return fn(features.Key{Pool: "p", Class: features.TotalClass}, features.DimRequests, values)
}

func (p planted) Decisions(_ context.Context, from, to time.Time, fn func(*alerting.Decision) error) error {
	for m := range plantedDays * 24 * 60 {
		at := plantedStart.Add(time.Duration(m) * time.Minute)
		if at.Before(from) || !at.Before(to) {
			continue
		}
		d := alerting.Decision{Pool: "p", Tick: at, Ready: 8, Desired: 8, Resources: []alerting.ResourceEvidence{{Dimension: features.DimRequests, PerReplica: 10}}}
		switch k := m % 120; {
		case k == 10:
			d.Desired = 9
		case k > 10 && k < 10+p.lag:
			d.Desired, d.Pending = 9, 1
		case k >= 10+p.lag && k < 60:
			d.Desired, d.Ready = 9, 9
		}
		if err := fn(&d); err != nil {
			return err
		}
	}
	return nil
}

func (planted) Tails(context.Context, time.Time, time.Time, func(features.Key, string, []float64) error) error {
	return nil
}

func (planted) Late(context.Context, time.Time, time.Time, func(features.Key, features.Late) error) error {
	return nil
}

func (planted) Forecasts(context.Context, time.Time, time.Time, func(*forecaster.Forecast) error) error {
	return nil
}

func (planted) Tokens(context.Context, string, time.Time, time.Time, func(features.Key, string, []float64) error) error {
	return nil
}

// noise is a factor that depends on the minute alone.
func noise(m int, sd float64) float64 {
	return 1 + sd*rand.New(rand.NewPCG(1, uint64(m))).NormFloat64()
}

// waves rise from 30 to 150 within two hours and fall again, four times a day.
func waves(m int) float64 {
	return 30 + min(max(float64(min(m%360, 360-m%360))-60, 0), 120)
}

func TestSuggest(t *testing.T) {
	for name, c := range map[string]struct {
		history planted
		pool    capacity.Config
		want    string // among the keys, "" for none at all
		saved   func(e report.Effect) bool
	}{
		"prior far too short": {
			planted{func(m int) float64 { return waves(m) * noise(m, .02) }, 20},
			capacity.Config{Warmup: capacity.Lag{P50: time.Minute, P90: 2 * time.Minute}},
			"pools[p].warmup to {p50: 20m, p90: 20m}",
			func(e report.Effect) bool { return e.SaturatedMinutesAfter < e.SaturatedMinutesBefore },
		},
		"margin dearer than what it saves from": {
			planted{func(m int) float64 { return 60 * noise(m, .2) }, 6},
			capacity.Config{Warmup: capacity.Lag{P50: 6 * time.Minute, P90: 6 * time.Minute}, Quantile: .995, GPUHourUSD: 3, SLOViolationMinuteUSD: .2},
			"pools[p].quantile to 0.95",
			func(e report.Effect) bool { return e.GPUHoursAfter < e.GPUHoursBefore },
		},
		"margin dearer than what it saves from, of a pool with prefill replicas": {
			planted{func(m int) float64 { return 60 * noise(m, .2) }, 6},
			capacity.Config{
				Warmup: capacity.Lag{P50: 6 * time.Minute, P90: 6 * time.Minute}, Quantile: .995, GPUHourUSD: 3, SLOViolationMinuteUSD: .2,
				Disaggregated: capacity.Disaggregated{PrefillReplicas: capacity.Replicas{Min: 1, Max: 4}},
			},
			"pools[p].quantile to 0.95",
			func(e report.Effect) bool { return e.GPUHoursAfter < e.GPUHoursBefore },
		},
		"quiet": {
			planted{func(m int) float64 { return 55 * noise(m, .002) }, 6},
			capacity.Config{Warmup: capacity.Lag{P50: 6 * time.Minute, P90: 6 * time.Minute}},
			"", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := suggested(t, c.history, c.pool)
			var got []string
			for _, s := range r.Suggestions {
				got = append(got, s.Key+" to "+s.To)
				if got[len(got)-1] == c.want && !c.saved(s.Expected) {
					t.Errorf("%s does not save: %+v", c.want, s.Expected)
				}
			}
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
				t.Errorf("suggested %q, want %q; %s", got, c.want, r.SuggestionsTried)
			}
		})
	}
}

// suggested is the report on the planted pool, with suggestions.
func suggested(t *testing.T, h planted, c capacity.Config) report.Pool {
	t.Helper()
	c.Name, c.Replicas, c.MaxRequestsPerS = "p", capacity.Replicas{Min: 1, Max: 40}, 10
	pool, err := capacity.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := forewarm.DefaultConfig()
	cfg.Every, cfg.Pools = 5*time.Minute, []capacity.Pool{pool}
	cfg.Decision.Cooldown, cfg.Decision.Hold = 5*time.Minute, 5*time.Minute // whatever the defaults are
	r := &report.Report{From: plantedStart.AddDate(0, 0, 1), To: plantedStart.AddDate(0, 0, plantedDays), Pools: []report.Pool{{Pool: "p"}, {Pool: "unknown"}}}
	if err := suggest(t.Context(), h, cfg, r, nil); err != nil {
		t.Fatal(err)
	}
	if p := r.Pools[1]; len(p.Suggestions) > 0 || !strings.Contains(p.SuggestionsTried, "no such pool") {
		t.Errorf("a pool that is not configured: %+v", p)
	}
	return r.Pools[0]
}

func TestSuggestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := forewarm.DefaultConfig()
	r := &report.Report{From: plantedStart.AddDate(0, 0, 1), To: plantedStart.AddDate(0, 0, plantedDays), Pools: []report.Pool{{Pool: "p"}}}
	if err := suggest(ctx, planted{waves, 6}, cfg, r, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}
