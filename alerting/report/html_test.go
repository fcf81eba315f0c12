package report

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// hostile is a name that runs a script where it is not escaped.
const hostile = `</td><script>alert("x")</script><img src=//evil.example/a onerror=alert(1)>' " & ]]> javascript:x`

func rendered(t testing.TB, r *Report, format string) string {
	t.Helper()
	out, err := Render(r, format)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// withTimeline is week with data for charts.
func withTimeline() *Report {
	r := week()
	p := &r.Pools[0]
	kv := ResourceTimeline{Resource: "kv", Unit: "tokens"}
	t := &Timeline{From: r.From, Minutes: 30}
	for i := range 336 {
		level := 1e6 * (1.2 + math.Sin(float64(i)/48*2*math.Pi))
		for _, x := range []struct {
			list *[]Number
			v    float64
		}{{&kv.Actual, level}, {&kv.Peak, 1.1 * level}, {&kv.Capacity, 2.3e6}, {&kv.Asked, 2.8e6}, {&kv.P10, .8 * level}, {&kv.P50, level}, {&kv.P90, 1.2 * level}} {
			v := Number(x.v)
			if i > 100 && i < 110 {
				v = Number(math.NaN())
			}
			*x.list = append(*x.list, v)
		}
	}
	decode := kv
	decode.Resource, decode.Unit = "decode", "tokens/s"
	t.Resources = []ResourceTimeline{kv, decode}
	p.Timeline = t
	return r
}

// TestPageIsSelfContained: the page loads nothing and runs no script, and each drawing has a label for screen readers.
func TestPageIsSelfContained(t *testing.T) {
	r := withTimeline()
	r.Pools[0].Pool, r.Pools[0].Accuracy[0].Class, r.Pools[0].Totals[1].Class = hostile, hostile, hostile
	r.Pools[0].Accuracy[3].Dimension, r.Pools[0].Timeline.Resources[0].Resource, r.Pools[0].Saturation.Episodes[0].Resource = hostile, hostile, hostile
	r.Pools[0].Saturation.Episodes[0].Cause = hostile
	r.Summary = append(r.Summary, hostile)
	for _, name := range []string{"html"} {
		drawings, shown := 0, false
		for z := html.NewTokenizer(strings.NewReader(rendered(t, r, name))); ; {
			kind := z.Next()
			if kind == html.ErrorToken {
				break
			}
			token := z.Token()
			shown = shown || kind == html.TextToken && strings.Contains(token.Data, `<script>alert("x")</script>`)
			if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
				continue
			}
			attributes := map[string]string{}
			for _, a := range token.Attr {
				attributes[a.Key] = a.Val
				if a.Key == "src" || a.Key == "href" || a.Key == "srcset" || strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: %s has %s=%q", name, token.Data, a.Key, a.Val)
				}
			}
			switch token.Data {
			case "script", "link", "img", "iframe", "object", "base", "form":
				t.Errorf("%s has a %s", name, token.Data)
			case "svg":
				if attributes["aria-hidden"] != "true" {
					if drawings++; attributes["role"] != "img" || attributes["aria-label"] == "" {
						t.Errorf("%s: a drawing without a label: %v", name, attributes)
					}
				}
			}
		}
		if !shown {
			t.Errorf("%s does not show a name unchanged", name)
		}
		if name == "html" && drawings != 2 {
			t.Errorf("%d drawings, want 2", drawings)
		}
	}
	if out := regexp.MustCompile(`(?i)@import|url\((?:[^#])|\bNaN\b|Infinity`).FindString(rendered(t, r, "html")); out != "" {
		t.Errorf("the page loads something or draws a value that is not a number: %s", out)
	}
}

// TestPageSize: the page of ten pools with 10,000 classes each, and thirty small ones, is bounded.
func TestPageSize(t *testing.T) {
	r := &Report{From: start, To: start.AddDate(0, 0, 7), Zone: time.UTC}
	for i := range 40 {
		p := withTimeline().Pools[0]
		p.Pool = fmt.Sprint("pool-", i)
		classes := 10_000
		if i >= 10 {
			classes = 10
		}
		for c := range classes {
			p.Totals = append(p.Totals, Total{Class: fmt.Sprint("class-", c), Requests: 1, PromptTokens: Number(c), CachedTokens: 0, OutputTokens: 1})
			row := p.Accuracy[1]
			row.Class = fmt.Sprint("class-", c)
			p.Accuracy = append(p.Accuracy, row)
		}
		for range 3000 {
			p.Saturation.Episodes = append(p.Saturation.Episodes, p.Saturation.Episodes[0])
		}
		r.Pools = append(r.Pools, p)
	}
	out := rendered(t, r, "html")
	if len(out) > 3<<20 {
		t.Errorf("the page has %d bytes, want at most 3 MiB", len(out))
	}
	for _, want := range []string{"At most ten saturations", "At most twenty, the heaviest first", "class-9999"} {
		if !strings.Contains(out, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}

// TestAdvice: the advice of the report for a pool.
func TestAdvice(t *testing.T) {
	calm := func(p *Pool) { p.Saturation, p.Contradicts = Saturation{KnownMinutes: 9}, nil }
	for name, c := range map[string]struct {
		change func(*Pool)
		advice string
	}{
		"missed saturation": {func(*Pool) {}, "Find out why 1 saturation came without a warning in time (listed below). Let an autoscaler follow the advice (decision.mode: active); nothing did. " +
			"Engines report 700k tokens of KV cache a replica, and the pool's configuration comes to 1M. The reported ones are used. Correct kv_capacity_tokens, or the model and GPU."},
		"warned":          {func(p *Pool) { p.Saturation.Missed, p.Contradicts = 0, nil }, "Let an autoscaler follow the advice (decision.mode: active); nothing did."},
		"active":          {func(p *Pool) { p.Saturation.Missed, p.Contradicts, p.Decisions.Mode = 0, nil, "active" }, "Find out why 1 saturation came although the warning was in time: replicas may start too slowly."},
		"false warnings":  {func(p *Pool) { calm(p); p.Saturation.False = 3 }, "If the 3 false warnings disturb, raise decision.warning_probability."},
		"a false warning": {func(p *Pool) { calm(p); p.Saturation.False = 1 }, "Nothing to do."},
		"no telemetry":    {func(p *Pool) { p.Data.Observed = 0 }, "Find out why no telemetry arrives."},
		"gaps":            {func(p *Pool) { calm(p); p.Data.Observed = 8064 }, "Repair the telemetry: it is missing for 20 % of the time."},
		"no problem":      {calm, "Nothing to do."},
		"few outcomes": {func(p *Pool) {
			calm(p)
			p.Accuracy[3].Q90 = forecaster.Coverage{Share: .3, Low: 0, High: .8, Effective: 3}
		}, "Nothing to do."},
		"new": {func(p *Pool) { calm(p); p.Data.Decided = 504 }, "Find out why Forewarm made no decision for 95 % of the time, unless it is new."},
		"idle": {func(p *Pool) { calm(p); p.Decisions.Provision.Over.ReplicaHours = 500 },
			"Check whether fewer replicas would do: 73 % of their time was idle, reserves not counted."},
		"too narrow": {func(p *Pool) {
			calm(p)
			p.Accuracy[3].Q90 = forecaster.Coverage{Share: .8, Low: .7, High: .85, Effective: 99}
		},
			"Raise decision.quantile for a while: the upper bound that should hold in 90 % of the minutes held in 80 %."},
	} {
		p := withTimeline().Pools[0]
		c.change(&p)
		if got := strings.Join(p.Advice(), " "); got != c.advice {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestText(t *testing.T) {
	if out := rendered(t, withTimeline(), "md"); !strings.Contains(out, "\n- **llama-70b**: Find out") {
		t.Error(out)
	}
}

// TestTimeline compares bins with the stored data: a resource that binds, and one more replica in the second half.
func TestTimeline(t *testing.T) {
	h := ramp()
	for m := range 120 {
		d := alerting.Decision{Pool: "p", Tick: minute(m), Ready: 2, Desired: 4, WarnFrom: .5,
			Resources: []alerting.ResourceEvidence{{Dimension: features.DimRequests, PerReplica: 50, Ahead: .1}}}
		if m >= 90 {
			d.Ready, d.Resources[0].Ahead = 3, .7
		}
		h.decisions = append(h.decisions, d)
	}
	line := reconcile(t, h, 60, 120).Pools[0].Timeline
	if line == nil || line.Minutes != 1 || line.Resources[0].Resource != features.DimRequests || len(line.Resources[0].Actual) != 60 {
		t.Fatalf("%+v", line)
	}
	x := &line.Resources[0]
	for i := range x.Actual {
		y := Number(160 + i)
		ready := Number(2)
		if i >= 30 {
			ready = 3
		}
		got := []Number{x.Actual[i], x.Peak[i], x.P50[i], x.P90[i], x.Capacity[i], x.Asked[i]}
		want := []Number{y, y, y - 8, 1.4 * (y - 8), 50 * ready, 200}
		if i >= 30 && i < 35 { // a gap
			nan := Number(math.NaN())
			want[0], want[1] = nan, nan
		}
		if diff := cmp.Diff(want, got, close); diff != "" {
			t.Fatalf("minute %d: %s", i, diff)
		}
	}
	for minutes, want := range map[int]int{1: 1, 60: 1, 1440: 4, 10_080: 28, MaxDays * 1440: 372} {
		if got := (&grid{end: minutes}).binMinutes(); got != want {
			t.Errorf("bins of %d minutes for %d, want %d", got, minutes, want)
		}
	}
}
