package server

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/pipeline"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := must(os.ReadFile(path))
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (run with -update to accept; -want +got):\n%s", name, diff)
	}
}

var origin = time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)

// ramp is a forecast that starts at base and grows by 1 % of it each minute.
func ramp(pool, class, dimension string, base float64) forecaster.Forecast {
	f := forecaster.Forecast{
		Key: features.Key{Pool: pool, Class: class}, Dimension: dimension, Origin: origin, Last: base,
		Now:        features.Estimate{Mean: base, Counted: base * .8},
		Confidence: forecaster.Warm, Known: 300,
	}
	for h := range f.Minute {
		for i, level := range forecaster.Levels {
			f.Minute[h][i] = base * (1 + float64(h)/100) * (.5 + level)
		}
	}
	f.WindowMax = f.Minute[29]
	return f
}

// fullOutput is a tick with one pool that is about to run out, and a cold one.
func fullOutput() *pipeline.Output {
	chat := forecaster.PoolForecast{
		Pool: "chat", Origin: origin,
		Minute: features.PoolMinute{Pool: "chat", Start: origin.Add(-time.Minute), Covered: true, KVRatio: 1, LastEvent: origin.Add(-2 * time.Second),
			State:  features.PoolState{Ready: 5, Pending: 1, Observed: true},
			Faults: []features.ProducerFault{{Producer: "gw-2", Kind: features.FaultSilent, Since: origin.Add(-20 * time.Minute)}}},
		Total:   []forecaster.Forecast{ramp("chat", features.TotalClass, features.DimRequests, 12), ramp("chat", features.TotalClass, features.DimKV, 400_000)},
		Classes: []forecaster.Forecast{ramp("chat", `a"b`, features.DimRequests, 12)},
	}
	chat.Total[0].Basis.Covered.N = forecaster.OriginsPerDay
	kv := forecaster.ResourceProjection{
		Dimension: features.DimKV, PerReplica: 100_000, Demand: 400_000, Utilisation: .8,
		ETA:          forecaster.ETA{P10: 8 * time.Minute, P50: 14 * time.Minute, P90: forecaster.Never},
		Headroom:     forecaster.Span{P10: -.2, P50: -.05, P90: .1},
		AfterFailure: &forecaster.Span{P10: -.5, P50: -.31, P90: -.12},
	}
	for h := range kv.Probability {
		kv.Probability[h] = float64(h+1) / 100
	}
	prefill := forecaster.ResourceProjection{
		Dimension: features.DimPrefill, PerReplica: 8000, Demand: math.NaN(), Utilisation: math.NaN(),
		ETA:      forecaster.ETA{P10: forecaster.Never, P50: forecaster.Never, P90: forecaster.Never},
		Headroom: forecaster.Span{P10: .4, P50: .5, P90: .6},
	}
	return &pipeline.Output{
		Tick: origin, Sequence: 4711,
		Producers: fullProducers,
		Windows: []features.Window{
			{Key: features.Key{Pool: "chat", Class: "agent"}, Start: origin.Add(-time.Minute), Covered: true, Requests: 60, Known: features.ReportsRequests},
			{Key: features.Key{Pool: "chat", Class: "rag"}, Start: origin.Add(-time.Minute), Covered: true, Requests: 120, Known: features.ReportsRequests},
		},
		Pools: []pipeline.PoolOutput{
			{
				Pool: "batch", Forecast: forecaster.PoolForecast{Pool: "batch", Origin: origin, Stale: true,
					Minute: features.PoolMinute{Pool: "batch", Start: origin.Add(-time.Minute), KVRatio: 1}},
				Projection: &forecaster.Projection{Lead: 13 * time.Minute, Confidence: forecaster.Cold},
				Decision: &alerting.Decision{Pool: "batch", Tick: origin, Generation: 1, Mode: alerting.Advisory, Action: alerting.Hold, Probability: math.NaN(),
					Confidence: forecaster.Cold, Stale: true, Withheld: "its telemetry is stale", Warnings: []string{"telemetry is stale"}, Reason: "No telemetry: hold.",
					ETA: forecaster.ETA{P10: forecaster.Never, P50: forecaster.Never, P90: forecaster.Never}},
			},
			{
				Pool: "chat", Forecast: chat,
				Projection: &forecaster.Projection{Lead: 13 * time.Minute, Binding: features.DimKV, Confidence: forecaster.Warm, Reserve: 1,
					Supply:    forecaster.Supply{Ready: 5, Pending: []time.Time{origin.Add(-3 * time.Minute)}},
					Resources: []forecaster.ResourceProjection{kv, prefill}},
				Trusted: capacity.Trusted{
					Rates:   capacity.Rates{PrefillTokensPerS: 8000, DecodeTokensPerS: 900},
					Prefill: capacity.Basis{Source: capacity.Stated},
					Decode:  capacity.Basis{Source: capacity.Learned, Learned: capacity.Estimate{Value: 900, Low: 850, High: 950}},
				},
				Decision: &alerting.Decision{Pool: "chat", Tick: origin, Sequence: 4711, Generation: 3, Publish: true, Mode: alerting.Advisory, Action: alerting.ScaleOut,
					Ready: 5, Pending: 1, Desired: 8, Floor: 5, NeededBy: origin.Add(13 * time.Minute), Expires: origin.Add(15 * time.Minute),
					Binding: features.DimKV, Probability: .18, ETA: kv.ETA, Lead: 13 * time.Minute, Quantile: .95, Confidence: forecaster.Warm, WarnFrom: .25,
					Resources:   []alerting.ResourceEvidence{{Dimension: features.DimKV, Ahead: .28, PerReplica: 100_000, Demand: 400_000}, {Dimension: features.DimPrefill, Ahead: .02}},
					Drivers:     []forecaster.Driver{{Class: "rag", Cause: "prompt_length", Factor: 2, Share: .7}},
					Constraints: []alerting.Constraint{{Key: "replicas.max", Bound: 8, Wanted: 9}}, Reason: "KV memory is <90 % likely to last 14 minutes; 8 replicas hold it.", Model: "network",
					Objectives: []alerting.Objective{{Latency: alerting.LatencyTTFT, P90: 3, Stated: 2, Over: true}, {Latency: alerting.LatencyITL, P90: .03, Stated: .05}},
					Admission:  []alerting.AdmissionLimit{{Class: "batch", TokensPerS: 40, Share: .5}}},
			},
		},
		Alerts: []alerting.Alert{
			{Name: alerting.SaturationAhead, Labels: map[string]string{"pool": "chat", "resource": features.DimKV, "severity": "warning"},
				Annotations: map[string]string{"summary": "KV memory runs out in 14 minutes."}, StartsAt: origin.Add(-time.Minute), UpdatedAt: origin, EndsAt: origin.Add(5 * time.Minute)},
			{Name: alerting.RetryStorm, Labels: map[string]string{"pool": "chat"}, StartsAt: origin.Add(-time.Hour), UpdatedAt: origin, Resolved: true},
		},
	}
}

var fullProducers = []features.ProducerState{
	{Name: `gateway "a"`, Declared: true, Records: 5000, Future: 12, Watermark: value.Instant(origin.Add(85 * time.Second)), Heard: &origin, Skew: 90},
	{Name: "replica-1", Records: 5, Watermark: value.Instant(origin.Add(-55 * time.Second)), Heard: value.Instant(origin.Add(-time.Minute)), Skew: value.Unknown},
}

// fixedReader is a Reader of fixed values.
type fixedReader struct {
	status Status
	pools  []PoolView
}

func (r fixedReader) Status() Status    { return r.status }
func (r fixedReader) Pools() []PoolView { return r.pools }

// fullReader shows fullOutput on a healthy daemon.
func fullReader() fixedReader {
	b := &Board{}
	b.Observe(fullOutput())
	return fixedReader{pools: b.Pools(), status: Status{
		Version: "v1.2.3", Mode: alerting.Advisory, Clock: "wall", Began: time.Now(), Tick: origin, TickedAt: time.Now(), Sequence: 4711,
		Connected: true, Connection: "nats://127.0.0.1:4222", Lag: new(uint64(3)), Restored: true, Restore: "snapshot at 4000",
		Producers: fullProducers,
	}}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
