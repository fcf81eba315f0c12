package report

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	rates "github.com/forewarm/forewarm/forecaster/capacity"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, write func(io.Writer, *Report) error, r *Report) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got, r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s: go test -update writes it anew\n%s", name, diff)
	}
}

// week is a report with a pool that is well known, one of which only decisions are known, and a name that would break a
// table.
func week() *Report {
	nan := Number(math.NaN())
	row := func(class, dimension, unit, horizon string, mean, wape Number) Accuracy {
		return Accuracy{Class: class, Dimension: dimension, Unit: unit, Horizon: horizon, Outcomes: 10_050, Missing: 30, Mean: mean,
			WAPE: wape, Bias: wape / 8, Skill: 0.4 - wape, Pinball: mean * wape / 5,
			MASELag1: 1.5, MASEDay: .25, CRPS: mean * wape / 4, PIT: []int{1000, 1005, 1010, 1005, 1000, 1005, 1010, 1005, 1000, 1010},
			Losses:    []LevelLoss{{.5, mean * wape / 2}, {.8, mean * wape / 3}, {.9, mean * wape / 5}, {.95, mean * wape / 8}, {.99, mean * wape / 20}},
			Intervals: []Interval{{.5, .497, false}, {.8, .81, false}, {.9, .905, false}, {.95, .957, true}}, Best: "recent_15m",
			Q50: Covered{.495, .48, .51, 9000}, Q80: Covered{.79, .78, .8, 9000}, Q90: Covered{.902, .896, .908, 9000}, Q95: Covered{.955, .951, .959, 9000}, Q99: Covered{.991, .988, .993, 9000},
			Baselines: []Against{{"last", 10_050, .4 - wape, -4.5, 1e-5, .4 - wape}, {"seasonal_day", 8_610, .3 - wape, -2.1, .036, .3 - wape}, {"seasonal_week", 0, nan, nan, nan, nan}, {"recent_15m", 10_050, -wape, nan, nan, -wape}}}
	}
	amount := func(replicaHours Number) Amount { return Amount{replicaHours, 8 * replicaHours, 20 * replicaHours} }
	seen := start.AddDate(0, 0, 6)
	r := &Report{From: start, To: start.AddDate(0, 0, 7), Pools: []Pool{
		{
			Pool: "llama-70b", Data: Data{Minutes: 10080, Observed: 10050, Decided: 10079, Gaps: []Gap{{start.Add(50 * time.Hour), 30}}, GapCount: 1, LongestGap: 30},
			Totals: []Total{
				{Class: "*", Requests: 7.46e6, PromptTokens: 9.1e9, CachedTokens: 3.3e9, OutputTokens: 1.9e9,
					Late: LateTotal{Records: 20_100, Requests: 20_000, PromptTokens: 2.8e7, CachedTokens: 1e7, OutputTokens: 5e6, KVTokenSeconds: 7e9, Share: .003}},
				{Class: "chat", Requests: 7.46e6, PromptTokens: 9.1e9, CachedTokens: nan, OutputTokens: 1.9e9, Late: LateTotal{Share: 0}},
			},
			Traffic: []features.Traffic{features.TrafficOf(features.Key{Pool: "llama-70b", Class: "*"}, "requests", append(slices.Repeat([]float64{1}, 40), 9, 9, 9))},
			Accuracy: []Accuracy{
				row("*", "requests", "1/s", "5", 12.34, .05), row("*", "requests", "1/s", "15", 12.34, .081),
				row("*", "requests", "1/s", forecaster.HorizonWindowMax, 15.1, .1), row("*", "kv", "tokens", "15", 1.2346e6, .45),
				row("chat", "requests", "1/s", "15", 0.0123, .123),
				{Class: "a|b\n*", Dimension: "requests", Unit: "1/s", Horizon: "15", Missing: 12, Mean: nan, WAPE: nan, Bias: nan,
					Skill: nan, Pinball: nan, MASELag1: nan, MASEDay: nan, CRPS: nan,
					Q80: Covered{nan, nan, nan, 0}, Q90: Covered{nan, nan, nan, 0}, Q95: Covered{nan, nan, nan, 0}, Q99: Covered{nan, nan, nan, 0}},
			},
			Saturation: Saturation{Probability: .5, KnownMinutes: 10040, SaturatedMinutes: 14, AnnouncedMinutes: 95, InTime: 1, Missed: 1, Averted: 4, False: 1,
				LeadMinutes: 13.5, Episodes: []Episode{
					{Start: start.Add(33 * time.Hour), Minutes: 12, Resource: "kv", Utilisation: 1.072, Outcome: InTime, LeadMinutes: 14},
					{Start: start.Add(60 * time.Hour), Minutes: 3, Resource: "prefill", Utilisation: 1.2, Outcome: Missed, LeadMinutes: nan},
				}},
			Decisions: Decisions{Mode: "advisory", Ticks: 10079, Stale: 20, Clamped: 3, ScaleOut: 600, ScaleIn: 100, Hold: 9379, Events: 44,
				ReadyReplicaHours: 672, DesiredReplicaHours: 713.25, PeakReady: 6, PeakDesired: 9,
				Actions: 88, Thrash: Thrash{WithinHour: 9, WithinLead: 2},
				Asks: Asks{Replicas: 61, Ready: 52, Withdrawn: 8, Waiting: 1, EventToReady: Spread{52, 8.2, 12.5, 21}, EventToCrossing: Spread{40, 14, 25, 44}, Ignored: 3, VisibleToEvent: Spread{61, 1, 4, 9}, QueueMeanwhile: Spread{52, 3, 18, 40},
					InTime: 37, Late: 3, Unneeded: 20, Unknown: 1},
				Provision: Provision{KnownMinutes: 10040, LagMinutes: 8, GPUsPerReplica: 8, ReplicaHourUSD: 20, ShortMinuteUSD: 5,
					Ready: amount(672), Pending: amount(8.4), Needed: amount(540), Over: amount(133), Under: amount(.25),
					Paid: amount(680.4), Clairvoyant: amount(551), Regret: amount(129.4), ShortUSD: 70}},
			Cost: Cost{
				Parts: []CostPart{{"served", "requests that were served", amount(526)}, {"idle", "idle beyond demand and reserves", amount(112)}, {"wasted", "attempts that failed", amount(14)},
					{"reserve_failure", "idle reserve, kept for failures", amount(20)}, {"pending", "warming up", amount(8.4)}},
				UnitPrices: rates.UnitPrices[Number]{Request: .0042, Served: .0043, PromptTokens: .00125, OutputTokens: .0081},
				Classes: []CostShare{{"chat", .6, amount(408.24), rates.UnitPrices[Number]{Request: .005, Served: .0051, PromptTokens: .0012, OutputTokens: .0083}},
					{"batch|*", .4, amount(272.16), rates.UnitPrices[Number]{Request: .0033, Served: nan, PromptTokens: .0013, OutputTokens: .0079}}},
				Tenants: []CostShare{},
			},
			Errors: []ErrorEpisode{
				{Start: start.Add(33 * time.Hour), Minutes: 40, Attributed: 38, Incident: 1, Resource: "kv", Horizon: "15", Forecast: .76, Actual: 1.07, Error: .31,
					Parts: []ErrorPart{{CauseDemand, .06}, {CauseMix, .01}, {CausePrompt, .24}, {CauseOutput, -.01}, {CauseCache, 0}, {CauseHeld, .01}, {CauseRetries, 0},
						{CauseCapacity, 0}, {CauseWarmup, 0}, {CauseTelemetry, 0}},
					Drivers: []ErrorDriver{{"chat", CausePrompt, .23}, {"chat", CauseDemand, .06}}},
				{Start: start.Add(33 * time.Hour), Minutes: 20, Attributed: 20, Incident: 1, Resource: "prefill", Horizon: "15", Forecast: .5, Actual: .65, Error: .15,
					Parts: []ErrorPart{{CauseCache, .15}}, Drivers: []ErrorDriver{}},
				{Start: start.Add(60 * time.Hour), Minutes: 12, Attributed: 12, Incident: 2, Resource: "prefill", Horizon: "15", Forecast: .8, Actual: .41, Error: -.39,
					Parts:   []ErrorPart{{CauseDemand, -.05}, {CauseCapacity, 0}, {CauseTelemetry, -.34}},
					Drivers: []ErrorDriver{{"*", CauseTelemetry, -.34}}, Note: "a producer was silent: requests that fell short are taken for lost telemetry"},
			},
			LargeErrors: []LargeErrors{{"kv", "15", 10000, .1, 3, 60, 13.5, 1, 11.8}, {"prefill", "15", 10000, .1, 2, 32, 7.68, 2, 7.68}},
			Drift:       []Drift{{"requests", "15", Half{5000, .08, .01, .5, .9, .99}, Half{5050, .082, .03, .52, .88, .985}}},
			Assumptions: []Assumption{
				{Name: "prefill_rate", Unit: "tokens/s", Stated: 12_000, Used: 9800, Learned: 9800, Off: .224, Confirmed: &seen, AgeDays: 1, Note: "learned between 9.1 k and 10.4 k tokens/s"},
				{Name: "kv_per_replica", Unit: "tokens", Stated: 1e6, Used: 1e6, Learned: nan, Off: nan, AgeDays: nan, Note: "nothing in the period told"},
			},
			OtherSettings:     []OtherSetting{{"quantile", "0.9", "0.95", 5443, 6010, 14, 9}, {"decision.cooldown", "15m", "5m", 5443, 5120, 14, 14}},
			OtherSettingsNote: "Seven days were run again in a simulation.",
		},
		{Pool: "silent", OtherSettingsNote: "No other setting was tried: no demand of it is kept.", Data: Data{Minutes: 10080, Decided: 10079}, Saturation: Saturation{Probability: .5, LeadMinutes: nan},
			Decisions: Decisions{Mode: "active", Ticks: 10079, Stale: 10079, Hold: 10079}},
	}}
	r.summarise()
	return r
}

func TestGolden(t *testing.T) {
	golden(t, "week.md", WriteMarkdown, week())
	golden(t, "week.json", WriteJSON, week())
	nothing, err := Reconcile(context.Background(), &past{}, start, start.AddDate(0, 0, 7), DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "nothing.md", WriteMarkdown, nothing)
	golden(t, "nothing.json", WriteJSON, nothing)
}

func TestRendering(t *testing.T) {
	var b bytes.Buffer
	if err := WriteMarkdown(&b, week()); err != nil {
		t.Fatal(err)
	}
	columns := 0
	for i, line := range strings.Split(b.String(), "\n") {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns > 0 && n != columns {
			t.Errorf("line %d has %d columns, its table %d: %s", i+1, n-1, columns-1, line)
		}
		columns = n
	}
	b.Reset()
	if err := WriteJSON(&b, week()); err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Error(err)
	}
	if n := len(week().Summary); n != 5 {
		t.Errorf("the summary has %d sentences", n)
	}

	long := week()
	for range 60 {
		long.Pools[0].Saturation.Episodes = append(long.Pools[0].Saturation.Episodes, long.Pools[0].Saturation.Episodes[0])
	}
	b.Reset()
	if err := WriteMarkdown(&b, long); err != nil || !strings.Contains(b.String(), "12 saturations more are in the JSON") {
		t.Errorf("a long list is not cut (%v)", err)
	}
}

func TestNumbers(t *testing.T) {
	nan := Number(math.NaN())
	for _, c := range []struct{ got, want string }{
		{percent(0), "0.0 %"}, {percent(.0812), "8.1 %"}, {percent(.0999), "10 %"}, {percent(-.123), "-12 %"}, {percent(nan), "–"},
		{percent(-.0001), "0.0 %"}, {signed(.05), "+5.0 %"}, {signed(-.05), "-5.0 %"}, {signed(.0001), "0.0 %"}, {signed(nan), "–"},
		{quantity(0, "tokens"), "0 tokens"}, {quantity(12345, "tokens/s"), "12.3 k tokens/s"}, {quantity(999.6, "tokens"), "1 k tokens"},
		{quantity(1.5e6, "tokens"), "1.5 M tokens"}, {quantity(3.21, "1/s"), "3.21 /s"}, {quantity(nan, "1/s"), "–"},
		{lead(13.6), "14 min"}, {lead(nan), "–"}, {count(1, "pool"), "1 pool"}, {count(0, "pool"), "0 pools"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for v, want := range map[Number]string{0.25: "0.25", Number(math.Inf(1)): "null"} {
		if b, err := json.Marshal(v); err != nil || string(b) != want {
			t.Errorf("%v is %s (%v)", float64(v), b, err)
		}
	}
	if got := fmt.Sprint(Covered{nan, nan, nan, 0}); got != "–" {
		t.Errorf("unknown coverage is %q", got)
	}
}
