package suggest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/pipeline"
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

// A larger quantile saves saturated minutes for GPU-hours, and a history gives the same figures each time.
func TestOtherSettings(t *testing.T) {
	for name, roles := range map[string]capacity.Disaggregated{
		"one role": {}, "with prefill replicas": {PrefillReplicas: capacity.Replicas{Min: 1, Max: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := planted{func(m int) float64 { return 60 * noise(m, .2) }, 6}
			p := withOtherSettings(t, h, roles, 1)
			if len(p.OtherSettings) < 3 || !strings.Contains(p.OtherSettingsNote, "2 days was run again") {
				t.Fatalf("%+v; %s", p.OtherSettings, p.OtherSettingsNote)
			}
			for _, x := range p.OtherSettings {
				if x.Setting == "quantile" && (x.Now != "0.995" || x.GPUHours >= x.GPUHoursNow || x.SaturatedMinutes < x.SaturatedMinutesNow) {
					t.Errorf("%+v", x)
				}
			}
			if diff := cmp.Diff(p, withOtherSettings(t, h, roles, 1)); diff != "" {
				t.Error(diff)
			}
			if p := withOtherSettings(t, h, roles, 2); len(p.OtherSettings) > 0 || !strings.Contains(p.OtherSettingsNote, "two days are needed") {
				t.Errorf("too short a history: %+v", p)
			}
		})
	}
}

// withOtherSettings is the report on the planted pool, from some day on.
func withOtherSettings(t *testing.T, h planted, roles capacity.Disaggregated, firstDay int) report.Pool {
	t.Helper()
	pool, err := capacity.New(capacity.Config{
		Name: "p", Replicas: capacity.Replicas{Min: 1, Max: 40}, MaxRequestsPerS: 10, Warmup: capacity.Lag{P50: 6 * time.Minute, P90: 6 * time.Minute}, Quantile: .995, Disaggregated: roles,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := pipeline.DefaultConfig()
	cfg.Every, cfg.Pools = 5*time.Minute, []capacity.Pool{pool}
	r := &report.Report{From: plantedStart.AddDate(0, 0, firstDay), To: plantedStart.AddDate(0, 0, plantedDays), Pools: []report.Pool{{Pool: "p"}, {Pool: "unknown"}}}
	if err := OtherSettings(t.Context(), h, cfg, r, nil); err != nil {
		t.Fatal(err)
	}
	if p := r.Pools[1]; len(p.OtherSettings) > 0 || !strings.Contains(p.OtherSettingsNote, "no such pool") {
		t.Errorf("a pool that is not configured: %+v", p)
	}
	return r.Pools[0]
}

func TestOtherSettingsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &report.Report{From: plantedStart.AddDate(0, 0, 1), To: plantedStart.AddDate(0, 0, plantedDays), Pools: []report.Pool{{Pool: "p"}}}
	if err := OtherSettings(ctx, planted{func(int) float64 { return 60 }, 6}, pipeline.DefaultConfig(), r, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}
