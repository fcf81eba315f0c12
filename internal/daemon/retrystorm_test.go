package daemon

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestScenarioRetryStorm: for 36 minutes, 40 % of the attempts fail and are retried. That raises the load, the
// saturation probability and the desired replicas. The alert comes within five minutes, and is resolved after the
// storm.
func TestScenarioRetryStorm(t *testing.T) {
	t.Parallel()
	const begins, ends, minutes = 90, 126, 150
	p := startDaemon(t, "clock: event", "decision: {mode: active}", "features: {lateness: 30s}",
		"pools: [{name: storm, kv_capacity_tokens: 400000, prefill_tokens_per_s: 270, prefill_target: 1, decode_tokens_per_s: 220, warmup: {p50: 6m, p90: 12m}, replicas: {min: 3, max: 12}}]")
	alerts, events := testenv.Subscribe(t, p.conn, "forewarm.alert.>"), testenv.Subscribe(t, p.conn, "forewarm.prescale.storm")
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for m := range minutes {
		at := start.Add(time.Duration(m) * time.Minute)
		var b bytes.Buffer
		for i := range 60 {
			arrived := at.Add(time.Duration(i) * time.Second)
			for attempt := 1; ; attempt++ {
				status, output := "ok", 40
				if again := m >= begins && m < ends && (i*7+m*3+attempt*5)%10 < 4 && attempt < 4; again {
					status, output = "error", 10
				}
				fmt.Fprintf(&b, `{"id":"%d-%d","attempt":%d,"status":%q,"arrived_at":%d,"started_at":%[5]d,"first_token_at":%d,"finished_at":%d,"prompt_tokens":%d,"cached_tokens":0,"output_tokens":%d}`+"\n",
					m, i, attempt, status, arrived.UnixMilli(), arrived.UnixMilli()+2190, arrived.UnixMilli()+4000, 540+(i*37+m*11)%100, output)
				if arrived = arrived.Add(5 * time.Second); status == "ok" {
					break
				}
			}
		}
		p.publish(t, "forewarm.telemetry.request.storm.chat", b.Bytes(), "Content-Type", "application/x-ndjson")
		for r := range 3 {
			p.publish(t, fmt.Sprintf("forewarm.telemetry.replica.storm.r%d", r), fmt.Appendf(nil,
				`{"at":%d,"state":"ready","kv_capacity_tokens":400000,"kv_used_ratio":0.5,"running":4,"waiting":0}`, at.Add(59*time.Second).UnixMilli()))
		}
		if m%10 == 9 {
			p.settle(t)
		}
	}
	p.settle(t)

	var raised, ended time.Duration
	for m := range testenv.Messages(alerts) {
		e := parse[alerting.CloudEvent[alerting.AlertData]](t, m.Data)
		a := e.Data
		if a.Name != alerting.RetryStorm {
			continue
		}
		if raised == 0 {
			raised = a.StartsAt.Sub(start)
			t.Log(testenv.Words(a.Annotations))
		}
		if a.State == "resolved" {
			ended = a.UpdatedAt.Sub(start)
		}
	}
	if raised < begins*time.Minute || raised > (begins+5)*time.Minute || ended < ends*time.Minute || ended > (ends+12)*time.Minute {
		t.Errorf("the storm lasts from minute %d to %d, the alert from %s to %s", begins, ends, raised, ended)
	}
	var before, during alerting.Prescale
	loads := map[string]float64{} // prefill load of decisions during the storm, by time
	for m := range testenv.Messages(events) {
		e := parse[alerting.Event](t, m.Data).Data
		if at := e.IssuedAt.Sub(start); at <= begins*time.Minute {
			before = e
		} else if at <= ends*time.Minute {
			if during = e; e.DesiredReplicas < before.DesiredReplicas {
				t.Errorf("%s: asks for %d replicas, for %d before the storm", at, e.DesiredReplicas, before.DesiredReplicas)
			}
			if r := e.Retries; r != nil && e.BindingResource == features.DimPrefill {
				loads[e.IssuedAt.UTC().Format(time.RFC3339)] = r.Demand * r.Factor
			}
			t.Logf("%s: %d→%d p=%.2f %+v %s %v", at, e.Current.Ready, e.DesiredReplicas, *e.Probability, e.Retries, e.Reason, e.Constraints)
		}
	}
	if *during.Probability < *before.Probability+.2 || during.Retries == nil || during.Retries.Attempts < 1.4 || before.Retries != nil {
		t.Errorf("probability %.2f before and %.2f in the storm, retries %+v and %+v", *before.Probability, *during.Probability, before.Retries, during.Retries)
	}

	// The report has the same load as the decisions.
	var r struct {
		Pools []struct {
			Timeline struct {
				Minutes   int
				Resources []struct {
					Resource string
					Peak     []float64
				}
			}
		}
	}
	p.getJSON(t, "/api/v1/report?format=json&from="+start.Format(time.RFC3339)+"&to="+start.Add((minutes-10)*time.Minute).Format(time.RFC3339), &r)
	line := r.Pools[0].Timeline
	if len(line.Resources) == 0 || line.Minutes != 1 || len(loads) < 3 {
		t.Fatalf("the report has %+v per %d minutes, and %d decisions of the storm were published", line.Resources, line.Minutes, len(loads))
	}
	prefill := line.Resources[0]
	if prefill.Resource != features.DimPrefill {
		t.Fatalf("the first resource of the report is %s, want prefill", prefill.Resource)
	}
	for at, load := range loads {
		tick, _ := time.Parse(time.RFC3339, at)
		m := int(tick.Sub(start)/time.Minute) - 1
		if got := prefill.Peak[m]; math.Abs(got/load-1) > .1 {
			t.Errorf("%s: the report has a prefill load of %.0f tokens/s, the decision has %.0f", at, got, load)
		}
	}
}
