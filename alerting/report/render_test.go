package report

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/forecaster"
	rates "github.com/forewarm/forewarm/forecaster/capacity"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, r *Report) {
	t.Helper()
	got := rendered(t, r, strings.TrimPrefix(filepath.Ext(name), "."))
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: go test -update rewrites it\n%s", name, diff)
	}
}

// week is a report with a pool that has all data, and a pool that has only decisions. A class name would break a table.
func week() *Report {
	nan := Number(math.NaN())
	row := func(class, dimension, unit, horizon string, mean, wape Number) Accuracy {
		return Accuracy{Class: class, Dimension: dimension, Unit: unit, Horizon: horizon, Outcomes: 10_050, Missing: 30, Mean: mean,
			WAPE: wape, Bias: wape / 8, Skill: 0.4 - wape,
			Q90: forecaster.Coverage{Share: .902, Low: .896, High: .908, Effective: 9000}}
	}
	amount := func(replicaHours Number) Amount { return Amount{replicaHours, 8 * replicaHours, 20 * replicaHours} }
	r := &Report{From: start, To: start.AddDate(0, 0, 7), Zone: time.UTC, Timezone: "UTC", Pools: []Pool{
		{
			Pool: "llama-70b", Data: Data{Minutes: 10080, Observed: 10050, Decided: 10079},
			Totals: []Total{
				{Class: "*", Requests: 7.46e6, PromptTokens: 9.1e9, CachedTokens: 3.3e9, OutputTokens: 1.9e9},
				{Class: "chat", Requests: 7.46e6, PromptTokens: 9.1e9, CachedTokens: nan, OutputTokens: 1.9e9},
			},
			Accuracy: []Accuracy{
				row("*", "requests", "1/s", "5", 12.34, .05), row("*", "requests", "1/s", "15", 12.34, .081),
				row("*", "requests", "1/s", forecaster.HorizonWindowMax, 15.1, .1), row("*", "kv", "tokens", "15", 1.2346e6, .45),
				row("chat", "requests", "1/s", "15", 0.0123, .123),
				{Class: "a|b\n*", Dimension: "requests", Unit: "1/s", Horizon: "15", Missing: 12, Mean: nan, WAPE: nan, Bias: nan,
					Skill: nan,
					Q90:   forecaster.Coverage{Share: nan, Low: nan, High: nan, Effective: 0}},
			},
			Saturation: Saturation{KnownMinutes: 10040, SaturatedMinutes: 14, InTime: 1, Missed: 1, Averted: 4, False: 1,
				LeadMinutes: 13.5, Episodes: []Episode{
					{Start: start.Add(33 * time.Hour), Minutes: 12, Resource: "kv", Utilisation: 1.072, Forecast: .76, Outcome: InTime, LeadMinutes: 14, Cause: "Class chat causes it: prompts 2.3 times as long within an hour."},
					{Start: start.Add(60 * time.Hour), Minutes: 3, Resource: "prefill", Utilisation: 1.2, Forecast: nan, Outcome: Missed, LeadMinutes: nan},
				}},
			Decisions: Decisions{Mode: "advisory",
				Actions: 88, TakenBack: 9,
				Provision: Provision{KnownMinutes: 10040, LagMinutes: 8, GPUsPerReplica: 8, ReplicaHourUSD: 20,
					Needed: amount(540), Over: amount(133), Under: amount(.25),
					Paid: amount(680.4), Static: amount(836), Hindsight: amount(551)}},
			Contradicts: []rates.Contradiction{{Dimension: rates.KV, Stated: 1e6, Learned: 7e5}},
		},
		{Pool: "silent", Data: Data{Minutes: 10080, Decided: 10079}, Saturation: Saturation{LeadMinutes: nan},
			Decisions: Decisions{Mode: "active", DecodeOnly: true}},
	}}
	r.summarise()
	return r
}

func TestGolden(t *testing.T) {
	golden(t, "week.md", week())
	golden(t, "week.json", week())
	nothing, err := Reconcile(context.Background(), &past{}, Span{start, start.AddDate(0, 0, 7), time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "nothing.md", nothing)
	golden(t, "nothing.json", nothing)
}

func TestRendering(t *testing.T) {
	columns := 0
	for i, line := range strings.Split(rendered(t, week(), "md"), "\n") {
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
	var back map[string]any
	if err := json.Unmarshal([]byte(rendered(t, week(), "json")), &back); err != nil {
		t.Error(err)
	}
	if n := len(week().Summary); n != 6 {
		t.Errorf("the summary has %d sentences, want 6", n)
	}

	long := week()
	for range 60 {
		long.Pools[0].Saturation.Episodes = append(long.Pools[0].Saturation.Episodes, long.Pools[0].Saturation.Episodes[0])
	}
	_, section, _ := strings.Cut(rendered(t, long, "md"), "### What happened?")
	section, _, _ = strings.Cut(section, "\n### ")
	if n := strings.Count(section, "\n| ") - 2; n != episodesShown {
		t.Error("a long list is not cut")
	}
}

func TestNumbers(t *testing.T) {
	nan := Number(math.NaN())
	for _, c := range []struct{ got, want string }{
		{percentRange(.081, .12), "8.1 to 12 %"}, {percentRange(.1, .1), "10 %"},
		{quantity(0, "tokens"), "0 tokens"}, {quantity(12345, "tokens/s"), "12.3k tokens/s"}, {quantity(999.6, "tokens"), "1k tokens"},
		{quantity(1.5e6, "tokens"), "1.5M tokens"}, {quantity(3.21, "1/s"), "3.21/s"}, {quantity(nan, "1/s"), "–"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// What is not known, or not known yet, is not summarised as nothing.
func TestSummaryOfUnknown(t *testing.T) {
	nan := Number(math.NaN())
	for name, c := range map[string]struct {
		pool     Pool
		sentence string
	}{
		"half of the time known": {
			Pool{Data: Data{Minutes: 100}, Saturation: Saturation{KnownMinutes: 50}},
			"The load was within the planned capacity of the ready replicas in all minutes in which both are known, 50 % of the time.",
		},
		"a warning of which nothing is known yet": {
			Pool{Saturation: Saturation{Open: 1}},
			"Warnings: 0 in time, 0 late, 0 followed by more replicas that prevented the saturation, 0 false, 1 not known yet. Saturations without a warning: 0.",
		},
		"no output tokens": {
			Pool{Pool: "chat", Totals: []Total{{Class: "*", Requests: 20, PromptTokens: 900, OutputTokens: nan}}},
			"From 2 Mar 2026 to 9 Mar 2026 UTC, chat received 20 requests with at least 900 tokens.",
		},
		"no tokens": {
			Pool{Pool: "chat", Totals: []Total{{Class: "*", Requests: 20, PromptTokens: nan, OutputTokens: nan}}},
			"From 2 Mar 2026 to 9 Mar 2026 UTC, chat received 20 requests with an unknown number of tokens.",
		},
		"a resource without demand": {
			Pool{Accuracy: []Accuracy{
				{Class: "*", Dimension: "decode", Horizon: "15", Outcomes: 9, WAPE: nan, Skill: nan, Q90: forecaster.Coverage{Share: 1}},
				{Class: "*", Dimension: "prefill", Horizon: "15", Outcomes: 9, WAPE: .2, Skill: .1, Q90: forecaster.Coverage{Share: .9}},
			}},
			"Forecasts 15 minutes ahead were off by 20 % on average. For 1 of 2 resources they were better than the assumption that nothing changes. The load stayed below the upper bound in 90 to 100 % of the minutes; the target is 90 %.",
		},
	} {
		r := &Report{From: start, To: start.AddDate(0, 0, 7), Zone: time.UTC, Pools: []Pool{c.pool}}
		if r.summarise(); !slices.Contains(r.Summary, c.sentence) {
			t.Errorf("%s: %q", name, r.Summary)
		}
	}
}

// Of saturations without a ready replica, the longest is the worst.
func TestWorstOutage(t *testing.T) {
	p := Pool{Pool: "chat", Saturation: Saturation{KnownMinutes: 600, SaturatedMinutes: 111}}
	for i := range 12 {
		p.Saturation.Episodes = append(p.Saturation.Episodes, Episode{
			Start: start.Add(time.Duration(i) * time.Hour), Minutes: 1 + i, Resource: "kv", Utilisation: Number(math.Inf(1)),
		})
	}
	r := &Report{From: start, To: start.AddDate(0, 0, 7), Zone: time.UTC, Pools: []Pool{p, {Pool: "idle"}}}
	r.summarise()
	want := "The worst began on " + r.Day(start.Add(11*time.Hour)) + " and lasted 12 min; no replica of chat was ready."
	if !strings.HasSuffix(r.Summary[1], want) {
		t.Errorf("%q does not end in %q", r.Summary[1], want)
	}
	if worst := p.Worst(); worst[0].Minutes != 3 || worst[len(worst)-1].Minutes != 12 {
		t.Errorf("the worst are %+v", worst)
	}
}
