package server

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

func exposition(e *Exporter) string {
	var b bytes.Buffer
	e.WritePrometheus(&b)
	return b.String()
}

func gauges(out *pipeline.Output) []byte {
	return render(families, func(add add) { collect(out, add) })
}

func TestGaugesGolden(t *testing.T) {
	golden(t, "gauges.txt", gauges(fullOutput()))
}

// TestTelemetryAgeIsNotNegative: if a producer's clock is ahead, an event is newer than the tick. The age of telemetry
// is then 0.
func TestTelemetryAgeIsNotNegative(t *testing.T) {
	out := fullOutput()
	out.Pools[1].Forecast.Minute.LastEvent = out.Tick.Add(9 * time.Second)
	if want := "forewarm_telemetry_age_seconds{pool=\"chat\"} 0\n"; !strings.Contains(string(gauges(out)), want) {
		t.Errorf("no %s", want)
	}
}

// fullExporter has every kind of metric.
func fullExporter() *Exporter {
	e := NewExporter(`v1 "quoted"`)
	e.Counter(`forewarm_sink_errors_total{sink="a"}`, "Deliveries that failed.", func() uint64 { return 2 })
	e.Counter(`forewarm_sink_errors_total{sink="b"}`, "Deliveries that failed.", func() uint64 { return 3 })
	e.Records.Add(10)
	e.Refused(ingest.ReasonNotJSON).Add(4)
	e.CountCall("keda", "GetMetrics", "Unavailable")
	e.Observe(fullOutput(), time.Now())
	return e
}

// TestExpositionIsValid parses all of /metrics as Prometheus does, and lints it as promtool does.
func TestExpositionIsValid(t *testing.T) {
	text := exposition(fullExporter())

	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("not in the exposition format: %v", err)
	}
	for _, name := range []string{
		"forewarm_desired_replicas", "forewarm_headroom_ratio", "forewarm_saturation_eta_seconds", "forewarm_saturation_probability",
		"forewarm_forecast", "forewarm_build_info",
	} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	for line, want := range map[string]bool{
		"forewarm_ingest_records_total 10\n":                              true,
		`forewarm_ingest_refused_total{reason="not_json"} 4` + "\n":       true,
		`forewarm_ingest_refused_total{reason="late"} 0` + "\n":           true,
		`forewarm_sink_errors_total{sink="b"} 3` + "\n":                   true,
		`forewarm_decisions_total{action="scale_out"} 1` + "\n":           true,
		"forewarm_prescale_events_total 1\n":                              true,
		`forewarm_alerts_firing{alertname="ForewarmRetryStorm",pool="cha`: false,
	} {
		if strings.Contains(text, line) != want {
			t.Errorf("%q in the exposition: %v, want %v", line, !want, want)
		}
	}
	problems := must(promlint.New(strings.NewReader(text)).Lint())
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "forewarm_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestGaugesDisappear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewExporter("v1")
		e.Observe(fullOutput(), time.Now())
		const chat = `forewarm_desired_replicas{pool="chat",role="all"} 8`
		if !strings.Contains(exposition(e), chat) {
			t.Fatal("no gauge after a tick")
		}
		e.Observe(&pipeline.Output{Tick: origin.Add(time.Minute)}, time.Now())
		if !strings.Contains(exposition(e), chat) {
			t.Error("a tick without decisions removed the gauges")
		}
		time.Sleep(11 * time.Minute)
		text := exposition(e)
		if strings.Contains(text, "forewarm_desired_replicas") {
			t.Error("the gauges of an expired decision are still there")
		}
		if !strings.Contains(text, "forewarm_tick_timestamp_seconds 179") {
			t.Error("the time of the last tick was removed")
		}
		out := fullOutput()
		out.Pools, out.Alerts = out.Pools[:1], nil // without pool chat
		e.Observe(out, time.Now())
		if strings.Contains(exposition(e), `pool="chat"`) {
			t.Error("gauges of a removed pool are still there")
		}
	})
}
