package alerting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// nights are situations with an alert, and the name of the alert. The names are titles in the golden file.
var nights = []struct {
	name     string
	alert    AlertName
	decision func(d *Decision)
	forecast func(pf *forecaster.PoolForecast)
	load     float64 // share of the capacity of ready replicas; 0 means .96
	kept     int     // replicas in reserve for failures
}{
	{name: "agents' prompts doubled", alert: SaturationAhead},
	{name: "the same, on trial", alert: SaturationAhead, decision: func(d *Decision) { d.Mode = Advisory }},
	{name: "the same, and the prefix cache lost hits", alert: SaturationAhead, decision: uncached},
	{name: "a pool at zero gets its first requests", alert: SaturationAhead, decision: func(d *Decision) {
		d.Ready, d.Pending, d.Desired, d.Needed, d.Probability, d.ETA, d.FromZero = 0, 0, 1, 1, 1, forecaster.ETA{}, true
		d.AskedAt = noon
	}, load: .1},
	{name: "the only replica is gone", alert: TooLateToWarm, decision: func(d *Decision) {
		d.Ready, d.Pending, d.Desired, d.Needed, d.Probability, d.ETA = 0, 0, 1, 1, 1, forecaster.ETA{}
	}, load: .1},
	{name: "the nightly batch has begun", alert: TooLateToWarm, decision: func(d *Decision) {
		d.Pool, d.Binding, d.Ready, d.Pending, d.Desired, d.Needed = "demo", "prefill", 3, 2, 5, 5
		d.Probability, d.ETA = .68, forecaster.ETA{P10: 0, P50: 3 * time.Minute, P90: forecaster.Never}
		d.AskedAt = noon.Add(-2 * time.Minute)
		d.Drivers = []forecaster.Driver{{Class: "summarise", Tenant: "nightly", TenantShare: .69, Cause: "rate", Factor: 3}}
		d.Admission = []AdmissionLimit{{"chat", 9000, .95}, {"summarise", 12_400, .35}, {"batch", 0, 0}}
	}},
	{name: "full already, and the autoscaler does nothing", alert: TooLateToWarm, decision: func(d *Decision) {
		d.Probability, d.ETA = 1, forecaster.ETA{P10: 0, P50: 0, P90: 0}
		d.AskedAt = noon.Add(-25 * time.Minute)
		d.Drivers[0].Tenant, d.Drivers[0].Feature, d.Drivers[0].Cause = "", "", ""
	}},
	{name: "its requests name no class", alert: TooLateToWarm, decision: func(d *Decision) {
		d.ETA.P10, d.ETA.P50, d.Drivers[0].Class, d.Admission = 0, 4*time.Minute, "", []AdmissionLimit{{"", 7700, .9}}
	}},
	{name: "replicas that do not become ready", alert: TooLateToWarm, decision: func(d *Decision) {
		d.Pending, d.ETA.P10, d.ETA.P50, d.AskedAt = 5, 0, 4*time.Minute, noon.Add(-40*time.Minute)
	}},
	{name: "a replica was lost and the number is assumed", alert: TooLateToWarm, decision: func(d *Decision) {
		d.SupplyAssumed, d.Ready, d.Desired, d.Drivers, d.ETA.P10, d.ETA.P50, d.AskedAt = true, 1, 2, nil, 0, time.Minute, noon
	}},
	{name: "the budget is the limit", alert: AtCapacityLimit, decision: func(d *Decision) {
		d.Ready, d.Desired, d.Needed, d.Limit, d.Constraints = 16, 16, 23, 16, []Constraint{{Key: "budget_hour_usd", Bound: 16, Wanted: 23}}
		d.Admission = []AdmissionLimit{{"summarise", 40_200, .61}}
	}},
	{name: "the limit is not reached, and the autoscaler does nothing", alert: AtCapacityLimit, decision: func(d *Decision) {
		d.Ready, d.Desired, d.Needed, d.Limit, d.Constraints = 2, 3, 5, 3, []Constraint{{Key: "replicas.max", Bound: 3, Wanted: 5}}
		d.AskedAt = noon.Add(-40 * time.Minute)
	}},
	{name: "more now than is expected, and both above the limit", alert: TooLateToWarm, load: 1.1, decision: func(d *Decision) {
		d.ETA.P10, d.ETA.P50 = 0, 0
		d.Admission = []AdmissionLimit{{"agent", 777, .98}, {"chat", 179, .98}}
	}, forecast: func(pf *forecaster.PoolForecast) {
		for _, c := range []struct {
			class, dimension string
			now              float64
		}{{"agent", "prefill", 790}, {"agent", "decode", 64}, {"agent", "kv", 9000}, {"chat", "prefill", 110}, {"chat", "decode", math.NaN()}} {
			pf.Classes = append(pf.Classes, forecaster.Forecast{Key: features.Key{Class: c.class}, Dimension: c.dimension, Now: features.Estimate{Mean: c.now}})
		}
	}},
	{name: "a provider's quota is exceeded", alert: AtCapacityLimit, load: .5, decision: func(d *Decision) {
		d.Probability, d.ETA = .04, never
		quota(17.4, 1)(d)
	}},
	{name: "it will be reached", alert: AtCapacityLimit, load: .5, decision: func(d *Decision) {
		d.Probability, d.ETA = .04, never
		quota(8.5, .8)(d)
	}},
	{name: "a newcomer", alert: SaturationAhead, decision: func(d *Decision) {
		d.Drivers[0].Tenant, d.Drivers[0].TenantShare, d.Drivers[0].TenantRise, d.Drivers[0].Feature = "newcorp", .17, .998, ""
	}},
	{name: "only the reserve is at stake", alert: BelowReserve, load: .55, kept: 1, decision: func(d *Decision) {
		d.Probability, d.ETA, d.Ready, d.Pending, d.Desired = .04, never, 2, 1, 3
	}},
	{name: "not even the reserve will do, but there is time", alert: SaturationAhead, load: .82, kept: 1, decision: func(d *Decision) {
		d.Probability, d.ETA, d.Ready, d.Desired = .62, forecaster.ETA{P10: 7 * time.Minute, P50: 15 * time.Minute, P90: forecaster.Never}, 2, 4
	}},
	{name: "it will not do, and there is no time", alert: TooLateToWarm, load: .82, kept: 1, decision: func(d *Decision) {
		d.ETA.P10, d.ETA.P50, d.ETA.P90, d.Ready, d.Desired = 1*time.Minute, 5*time.Minute, 22*time.Minute, 2, 4
	}},
	{name: "the only replica is kept for failures", alert: BelowReserve, load: .08, kept: 1, decision: func(d *Decision) {
		d.Probability, d.ETA, d.Ready, d.Desired, d.Mode, d.SupplyAssumed = .01, never, 1, 2, Advisory, true
	}},
	{name: "two kept, in the first minutes", alert: BelowReserve, load: .4, kept: 2, decision: func(d *Decision) {
		d.Probability, d.ETA, d.Ready, d.Desired, d.Withheld = .01, never, 3, 4, "less than 5 min of its traffic is known"
	}},
	{name: "a limit keeps the reserve out", alert: BelowReserve, load: .55, kept: 1, decision: func(d *Decision) {
		d.Probability, d.ETA, d.Ready, d.Desired, d.Needed, d.Limit, d.Constraints = .04, never, 2, 2, 3, 2, []Constraint{{Key: "replicas.max", Bound: 2, Wanted: 3}}
	}},
	{name: "three resources run out for one cause", alert: SaturationAhead, decision: func(d *Decision) {
		decode, prefill := d.Resources[0], d.Resources[0]
		decode.Dimension, decode.Probability = "decode", .64
		prefill.Dimension, prefill.Probability = "prefill", .37
		d.Resources = append(d.Resources, decode, prefill)
	}},
	{name: "prompts outgrow the prefill replicas, of which more are on their way", alert: SaturationAhead, load: .5, decision: func(d *Decision) {
		prefilling(d, .58, 21*time.Minute, 4, 5)
		d.Prompts[0].Demand = 3700
		d.ByRole.PrefillPending, d.ByRole.PrefillAskedAt = 1, noon.Add(-3*time.Minute)
	}},
	{name: "prompts have outgrown them", alert: TooLateToWarm, load: .5, decision: func(d *Decision) {
		prefilling(d, .97, 0, 4, 6)
	}},
	{name: "prompts would outgrow them, should one fail", alert: BelowReserve, load: .5, decision: func(d *Decision) {
		prefilling(d, .08, 0, 4, 6)
		d.Prompts[0].Demand, d.Prompts[0].ETA, d.ByRole.PrefillReserves.Failure = 3600, never, 1
	}},
	{name: "no more prefill replicas are allowed", alert: AtCapacityLimit, load: .5, decision: func(d *Decision) {
		prefilling(d, .97, 0, 4, 6)
		d.ByRole.Prefill, d.ByRole.PrefillLimit, d.ByRole.PrefillConstraints = 4, 4, []Constraint{{Key: "budget_hour_usd", Bound: 4, Wanted: 6}}
	}},
	{name: "decode replicas run short, and prefill does not", alert: TooLateToWarm, decision: func(d *Decision) {
		p, eta := d.Probability, d.ETA
		prefilling(d, .02, 0, 4, 4)
		d.Probability, d.ETA, d.Desired, d.Prompts[0].ETA, d.Prompts[0].Demand = p, eta, 19, never, 2000
		d.ETA.P10, d.ETA.P50 = 0, 5*time.Minute
	}},
	{name: "the first token comes too late", alert: LatencyObjective, decision: func(d *Decision) {
		d.Objectives = []Objective{{Latency: LatencyTTFT, P90: 3.4, Stated: 1, Over: true}, {Latency: LatencyITL, P90: .03, Stated: .05}}
		d.Breach = &Breach{Since: noon.Add(-4 * time.Minute), TTFT: true, Own: Relief{From: 14, Replicas: 19, Excess: 3.4}}
	}},
	{name: "and the autoscaler does nothing", alert: LatencyObjective, decision: func(d *Decision) {
		d.Objectives, d.AskedAt = []Objective{{Latency: LatencyTTFT, P90: 3.4, Stated: 1, Over: true}}, noon.Add(-40*time.Minute)
		d.Breach = &Breach{Since: noon.Add(-44 * time.Minute), TTFT: true, Own: Relief{From: 14, Replicas: 19, Excess: 3.4}}
	}},
	{name: "tokens are slow, and the pool is hardly used", alert: LatencyObjective, load: .12, decision: func(d *Decision) {
		d.Probability, d.ETA = .01, never
		d.Objectives = []Objective{{Latency: LatencyTTFT, P90: 3.4, Stated: 1, Over: true}, {Latency: LatencyITL, P90: .09, Stated: .05, Over: true}}
		d.Breach = &Breach{Since: noon.Add(-4 * time.Minute), TTFT: true, ITL: true, Own: Relief{From: 14, Replicas: 19, Excess: 3.4}}
	}},
	{name: "and more replicas did not help", alert: LatencyObjective, decision: func(d *Decision) {
		d.Objectives = []Objective{{Latency: LatencyTTFT, P90: 3.4, Stated: 1, Over: true}, {Latency: LatencyITL, P90: .09, Stated: .05, Over: true}}
		d.Breach = &Breach{Since: noon.Add(-24 * time.Minute), TTFT: true, ITL: true, Own: Relief{From: 14, Replicas: 19, Excess: 3.4, Failed: true}}
	}},
	{name: "the gateway is silent", alert: TelemetryStale, decision: func(d *Decision) {
		d.Stale, d.Reason = true, "The newest telemetry is of 11:48 UTC (12 min ago). Holding 14 replicas."
	}},
	{name: "engines work, and the gateway reports nothing", alert: TelemetryStale, decision: func(d *Decision) {
		d.Stale, d.Withheld = true, requestsMissing
		d.Reason = "The engines are busy (KV cache up to 50 % in use), but no request was reported for 10 min. Holding 14 replicas."
	}},
	{name: "a producer's clock is off, another is silent", alert: TelemetryFault, forecast: func(pf *forecaster.PoolForecast) {
		pf.Minute.Faults = []features.ProducerFault{{Producer: "gw-3", Kind: features.FaultAhead, Seconds: 92, Future: 40},
			{Producer: "gw-7", Kind: features.FaultSilent, Since: noon.Add(-20 * time.Minute)}}
	}},
	{name: "the models lost to a baseline", alert: ForecastDegraded, forecast: func(pf *forecaster.PoolForecast) { pf.Total[0].Fallback = true }},
	{name: "the quantiles do not hold", alert: ForecastDegraded, forecast: func(pf *forecaster.PoolForecast) {
		c := &pf.Total[0].Basis.Covered
		c.N, c.Below[forecaster.L95] = 800, .78
	}},
	{name: "the prefix cache is gone", alert: SaturationAhead, decision: func(d *Decision) {
		d.Drivers[0].Cause, d.Drivers[0].Factor = forecaster.CauseCache, .06
	}},
	{name: "clients retry", alert: RetryStorm, decision: func(d *Decision) {
		d.Resources[0].Retries = &Retried{Attempts: 1.52, Factor: 1.41, Demand: 2000, NeedReplicas: 3}
	}, forecast: func(pf *forecaster.PoolForecast) { pf.Retries = forecaster.Retries{Share: .34, Attempts: 120} }},
}

// prefilling makes d the decision of a disaggregated pool with enough decode replicas. Its prefill replicas run out
// with the given probability, at the median the given time ahead.
func prefilling(d *Decision, probability float64, ahead time.Duration, ready, desired int) {
	d.Desired, d.Needed, d.Probability, d.ETA = d.Ready, d.Ready, .02, never
	d.ByRole = &Roles{Prefill: desired, Decode: d.Desired, PrefillReady: ready, PrefillNeeded: desired, PrefillLimit: 8, PrefillAskedAt: noon, PrefillDrivers: d.Drivers}
	d.Prompts = []ResourceEvidence{{Dimension: "prefill", PerReplica: 1000, Demand: 4400, NeedQuantile: 5100, NeedReplicas: desired, Probability: probability, Ahead: probability,
		ETA: forecaster.ETA{P10: ahead / 2, P50: ahead, P90: ahead * 2}}}
}

// uncached: 32 % of the prompts of the class that causes the rise are in the cache, 71 % an hour ago.
func uncached(d *Decision) { d.Drivers[0].CacheHit, d.Drivers[0].CacheLoss = new(.32), new(.39) }

// TestAlertsReadLikeMessages compares each alert with the golden file. Read that file before you change it: an on-call
// engineer has nothing else at night.
func TestAlertsReadLikeMessages(t *testing.T) {
	cfg := DefaultConfig()
	cfg.RunbookURL = ""
	var text strings.Builder
	write := func(title string, c *Condition) {
		fmt.Fprintf(&text, "%s\n%s (%s, class %s)\n%s\n%s\n=> %s\n\n", title, c.Name, c.Severity, c.Class, c.Annotations["summary"], c.Annotations["description"], c.Annotations["action"])
	}
	for _, night := range nights {
		d := decided()
		d.ETA = forecaster.ETA{P10: 9 * time.Minute, P50: 14 * time.Minute, P90: 31 * time.Minute}
		pf := &forecaster.PoolForecast{Total: []forecaster.Forecast{{Dimension: "kv"}}}
		if night.decision != nil {
			night.decision(&d)
		}
		if night.forecast != nil {
			night.forecast(pf)
		}
		d.Resources[0].Demand = cmp.Or(night.load, .96) * d.Resources[0].PerReplica * float64(max(d.Ready, 1))
		r := &d.Resources[0]
		d.Reserves.Failure = night.kept
		r.Dimension, r.Probability, r.ETA = d.Binding, d.Probability, d.ETA
		conditions := Conditions(&d, pf, cfg)
		at := slices.IndexFunc(conditions, func(c Condition) bool { return c.Name == night.alert && !c.Fading })
		if at < 0 {
			t.Errorf("%s: no %s in %d conditions", night.name, night.alert, len(conditions))
			continue
		}
		c := &conditions[at]
		if d.Mode != Mode(c.Annotations["mode"]) {
			t.Errorf("%s: annotation mode is %q", night.name, c.Annotations["mode"])
		}
		checkWords(t, night.name, c)
		for i := range conditions {
			if other := &conditions[i]; other != c && other.Annotations["summary"] == c.Annotations["summary"] {
				t.Errorf("%s: %s has the summary of %s", night.name, other.Name, c.Name)
			}
		}
		write(night.name, c)
	}
	for _, c := range otherAlerts() {
		checkWords(t, string(c.Name), &c)
		write("without a forecast", &c)
	}
	golden(t, "alerts.golden.txt", text.String())
}

// checkWords checks an alert against the rules of docs/style.md.
func checkWords(t *testing.T, name string, c *Condition) {
	t.Helper()
	summary, description, action := c.Annotations["summary"], c.Annotations["description"], c.Annotations["action"]
	if n := len([]rune(summary)); n == 0 || n > maxSummary || strings.HasSuffix(summary, ".") {
		t.Errorf("%s: the summary has %d characters: %s", name, n, summary)
	}
	if n := len(strings.Fields(description + " " + action)); n > maxWords || description == "" || action == "" {
		t.Errorf("%s: description and action have %d words: %s %s", name, n, description, action)
	}
	for _, text := range []string{description, action} {
		if !strings.HasSuffix(text, ".") || strings.Contains(text, "..") || strings.Contains(text, "  ") || strings.ToUpper(text[:1]) != text[:1] {
			t.Errorf("%s: not sentences: %s", name, text)
		}
	}
	for _, term := range []string{"quantile", "p10", "p90", "nowcast", "→", "×", "percentile", "binds", "settled"} {
		if strings.Contains(summary+description+action, term) {
			t.Errorf("%s: has %q: %s %s %s", name, term, summary, description, action)
		}
	}
	if c.Severity == Page && strings.HasPrefix(action, "Nothing") {
		t.Errorf("%s: a page with nothing to do", name)
	}
}

func TestAnnotations(t *testing.T) {
	d := decided()
	cfg := DefaultConfig()
	cfg.RunbookURL, cfg.DashboardURL = "https://example.org/runbooks/{alert}", "https://example.org/pools/{pool}"
	got := Conditions(&d, &forecaster.PoolForecast{}, cfg)[0].Annotations
	for _, text := range []string{"summary", "description", "action"} { // in the golden file
		delete(got, text)
	}
	want := map[string]string{
		"mode": "active", "decision": "llama70b-h100-12", "saturation_probability": "0.86", "saturation_at": "2026-03-02T12:19:00Z",
		"driver":      "Class agent (mostly tenant acme) causes it: prompts 2.1 times as long within an hour.",
		"runbook_url": "https://example.org/runbooks/ForewarmSaturationAhead", "dashboard_url": "https://example.org/pools/llama70b-h100",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// otherAlerts has an alert of each kind that does not depend on a forecast, except the watchdog.
func otherAlerts() []Condition {
	d := &Decision{Pool: "llama", Tick: noon, Mode: Active, Basis: &Basis{Contradicts: []capacity.Contradiction{
		{Dimension: features.DimPrefill, Source: capacity.Stated, Stated: 12_000, Learned: 8_000, Low: 7_400, High: 8_600, Since: noon, From: noon.Add(24 * time.Hour)},
	}}}
	vitals := Vitals{
		Window: 15 * time.Minute, Records: 1100, Refused: map[string]uint64{"bad_time": 60}, Storage: "series: the disk of /data is full", StorageSince: noon,
		Diverged: 2, Divergence: "chat at 12:00", Sinks: []SinkStats{{Sink: "webhook/ops", Since: noon, Err: "connection refused", Queued: 3}},
	}
	return slices.Concat(Conditions(d, &forecaster.PoolForecast{}, DefaultConfig()), SelfConditions(&vitals, DefaultConfig()))
}

// TestLostCacheHits: cache hits spare the computation of prompts, so their loss does not use up decode throughput.
func TestLostCacheHits(t *testing.T) {
	for binding, want := range map[string]bool{"prefill": true, "kv": true, "decode": false} {
		d := decided()
		uncached(&d)
		d.Binding, d.Drivers[0].Cause = binding, ""
		if text := d.Cause(); strings.Contains(text, "causes it: cache hits down from 71 % to 32 %") != want {
			t.Errorf("%s: %s", binding, text)
		}
	}
}
