package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
)

// hostile is a name that would break out of text, attributes and drawings.
const hostile = `</td><script>alert("x")</script><img src=//evil.example/a onerror=alert(1)>' " & ]]> javascript:x`

func page(t testing.TB, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// drawn is week with what charts are drawn of.
func drawn() *Report {
	r := week()
	p := &r.Pools[0]
	t := &Timeline{From: r.From, Minutes: 30, ResourceTimeline: ResourceTimeline{Resource: "kv", Unit: "tokens", Ahead: 15}}
	for i := range 336 {
		level := 1e6 * (1.2 + math.Sin(float64(i)/48*2*math.Pi))
		for _, x := range []struct {
			list *[]Number
			v    float64
		}{{&t.Actual, level}, {&t.Peak, 1.1 * level}, {&t.Capacity, 2.3e6}, {&t.P10, .8 * level}, {&t.P50, level}, {&t.P90, 1.2 * level}, {&t.P99, 1.4 * level},
			{&t.Ready, 5}, {&t.Desired, 6}, {&t.Needed, math.Ceil(level / 4e5)}, {&t.Probability, .4 + .2*math.Sin(float64(i)/10)}} {
			v := Number(x.v)
			if i > 100 && i < 110 {
				v = Number(math.NaN())
			}
			*x.list = append(*x.list, v)
		}
		t.Announced = append(t.Announced, t.Probability[i] >= .5)
	}
	other := t.ResourceTimeline
	other.Resource, other.Unit = "decode", "tokens/s"
	quarter := make([]Number, len(t.Actual))
	for i := range quarter {
		quarter[i] = Number(.25)
	}
	t.Others, t.Mix = []ResourceTimeline{other}, []Line{{"agent", t.P10}, {"rag", t.P50}}
	t.Cached, t.Retried = quarter, make([]Number, len(t.Actual)) // no retries: no picture of them
	p.Timeline = t
	amount := func(h Number) Amount { return Amount{h, 4 * h, 10 * h} }
	p.Decisions.Provision = Provision{KnownMinutes: 10_000, GPUsPerReplica: 4, ReplicaHourUSD: 10, Ready: amount(670), Pending: amount(12), Needed: amount(480), Over: amount(90),
		Under: amount(1), Paid: amount(682), Clairvoyant: amount(600), Regret: amount(82), ShortUSD: 14}
	p.Errors = []ErrorEpisode{{Start: p.Saturation.Episodes[1].Start, Minutes: 20, Attributed: 20, Resource: "prefill", Horizon: "15", Forecast: .7, Actual: 1.05, Error: .35,
		Parts: []ErrorPart{{CauseDemand, .05}, {CausePrompt, .3}}, Drivers: []ErrorDriver{{"agent", CausePrompt, .3}}}}
	return r
}

// Demand is told apart by class, with what came from cache, and retries.
func TestTimelineOfMix(t *testing.T) {
	h := &mixed{newWorld()}
	got := reconcile(t, h, 60, 180).Pools[0].Timeline
	if len(got.Mix) != 2 || got.Mix[0].Class != "big" || got.Mix[0].Values[10] != 300 || got.Mix[1].Values[10] != 100 {
		t.Errorf("mix %+v", got.Mix)
	}
	if got.Cached[10] != .25 || math.Abs(float64(got.Retried[10])-.2) > 1e-12 {
		t.Errorf("%v from cache, %v retried", got.Cached[10], got.Retried[10])
	}
	var resources []string
	for _, x := range append([]ResourceTimeline{got.ResourceTimeline}, got.Others...) {
		resources = append(resources, x.Resource)
	}
	slices.Sort(resources)
	if diff := cmp.Diff([]string{"decode", "prefill", "requests"}, resources); diff != "" {
		t.Error(diff)
	}
}

// mixed is a world of two classes with constant demand.
type mixed struct{ *world }

func (mixed) Observed(_ context.Context, from, to time.Time, fn func(features.Key, string, []float64) error) error {
	for _, x := range []struct {
		class, dimension string
		value            float64
	}{
		{"*", "requests", 4}, {"*", "prefill", 240}, {"*", "cached", 80}, {"*", "decode", 80}, {"*", "retry", 1},
		{"big", "prefill", 180}, {"big", "cached", 60}, {"big", "decode", 60}, {"small", "prefill", 60}, {"small", "cached", 20}, {"small", "decode", 20},
	} {
		if err := fn(features.Key{Pool: "p", Class: x.class}, x.dimension, slices.Repeat([]float64{x.value}, int(to.Sub(from)/time.Minute))); err != nil {
			return err
		}
	}
	return nil
}

func (mixed) Late(context.Context, time.Time, time.Time, func(features.Key, features.Late) error) error {
	return nil
}

// TestPageStandsAlone: nothing is fetched, no script runs, every drawing can be read out.
func TestPageStandsAlone(t *testing.T) {
	r := drawn()
	r.Pools[0].Pool, r.Pools[0].Accuracy[0].Class, r.Pools[0].Totals[1].Class = hostile, hostile, hostile
	r.Pools[0].Accuracy[3].Dimension, r.Pools[0].Timeline.Resource, r.Pools[0].Saturation.Episodes[0].Resource = hostile, hostile, hostile
	r.Pools[0].Errors[0].Drivers[0].Class, r.Pools[0].Errors[0].Note = hostile, hostile
	r.Pools[0].OtherSettings = []OtherSetting{{Setting: hostile, Now: hostile, Other: hostile}}
	r.Summary = append(r.Summary, hostile)
	for name, write := range map[string]func(io.Writer, *Report) error{"page": WriteHTML, "mail": WriteMail} {
		var b bytes.Buffer
		if err := write(&b, r); err != nil {
			t.Fatal(err)
		}
		drawings, shown := 0, false
		for z := html.NewTokenizer(&b); ; {
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
				t.Errorf("%s: there is a %s", name, token.Data)
			case "svg":
				if attributes["aria-hidden"] != "true" {
					if drawings++; attributes["role"] != "img" || attributes["aria-label"] == "" {
						t.Errorf("%s: a drawing that cannot be read out: %v", name, attributes)
					}
				}
			}
		}
		if !shown {
			t.Errorf("%s does not show a name as it is", name)
		}
		if name == "page" && drawings != 7 {
			t.Errorf("%d drawings", drawings)
		}
	}
	if out := page(t, r); regexp.MustCompile(`(?i)@import|url\((?:[^#])|NaN|Infinity`).MatchString(out) {
		t.Error("something is fetched, or a number that is none is drawn")
	}
}

// TestPageIsBounded: ten pools of 10,000 classes.
func TestPageIsBounded(t *testing.T) {
	r := &Report{From: start, To: start.AddDate(0, 0, 7)}
	for i := range 40 {
		p := drawn().Pools[0]
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
			p.Errors = append(p.Errors, p.Errors[0])
		}
		r.Pools = append(r.Pools, p)
	}
	out := page(t, r)
	if len(out) > 3<<20 {
		t.Errorf("%d bytes", len(out))
	}
	for _, want := range []string{"9981 others are added up", "30 pools that need a reader least have no charts", "2952 saturations more are in the JSON", "class-9999"} {
		if !strings.Contains(out, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, write := range []func(io.Writer, *Report) error{WriteMail, WriteText} {
		var b bytes.Buffer
		if err := write(&b, r); err != nil || b.Len() > 100<<10 { // beyond that, readers of mail cut
			t.Errorf("%d bytes of mail, %v", b.Len(), err)
		}
	}
}

// TestFirstPage: what the page tells a reader to do follows from what happened.
func TestFirstPage(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Pool)
		state  state
		advice string
	}{
		"missed":       {func(*Pool) {}, act, "Look at Wed 4 Mar 12:00: prefill rose to 120 % of capacity, and that was not announced: over 20 minutes 105 % came where 70 % was forecast, for longer prompts of agent (+30 points)."},
		"missed, why?": {func(p *Pool) { p.Errors = nil }, act, "Look at Wed 4 Mar 12:00: prefill rose to 120 % of capacity, and that was not announced."},
		"announced":    {func(p *Pool) { p.Saturation.Missed = 0 }, watch, "Let an autoscaler act on the advice (decision.mode: active): it saturated though that was announced."},
		"false alarms": {func(p *Pool) { p.Saturation = Saturation{KnownMinutes: 9, False: 2} }, watch, "Lower decision.false_alarms_per_week if the false alarms disturb."},
		"no telemetry": {func(p *Pool) { p.Data.Observed = 0 }, noData, "Find out why no telemetry comes."},
		"gaps":         {func(p *Pool) { p.Data.Observed, p.Saturation = 8064, Saturation{KnownMinutes: 9} }, watch, "Mend telemetry: 20 % of the minutes are not known."},
		"well":         {func(p *Pool) { p.Saturation = Saturation{KnownMinutes: 9} }, held, "Nothing."},
		"few":          {func(p *Pool) { p.Saturation = Saturation{KnownMinutes: 9}; p.Accuracy[3].Q90 = Covered{.3, 0, .8, 3} }, held, "Nothing."},
		"new": {func(p *Pool) { p.Saturation, p.Data.Decided = Saturation{KnownMinutes: 9}, 504 }, watch,
			"Find out why no decision stood in 95 % of the minutes: was the daemon new, or down?"},
		"active": {func(p *Pool) { p.Saturation.Missed, p.Decisions.Mode = 0, "active" }, watch, "See what kept replicas from coming: it saturated though that was announced."},
		"idle": {func(p *Pool) {
			p.Saturation, p.Decisions.Provision.Over.ReplicaHours = Saturation{KnownMinutes: 9}, 500
		}, watch, "See whether fewer replicas would do: 73 % of what was used was beyond need."},
		"too narrow": {func(p *Pool) {
			p.Saturation = Saturation{KnownMinutes: 9}
			p.Accuracy[3].Q90 = Covered{.8, .7, .85, 99}
		}, watch, "Watch the 90 % quantile, which held in 80 %: a higher decision.quantile would be safer until it holds."},
	} {
		p := drawn().Pools[0]
		c.change(&p)
		if p.state() != c.state || p.advice() != c.advice {
			t.Errorf("%s: %s, %q", name, p.state(), p.advice())
		}
	}
}

// TestText: lines are short enough for any reader of mail.
func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := WriteText(&b, drawn()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(line) > 79 {
			t.Errorf("too long: %q", line)
		}
	}
	if !strings.Contains(b.String(), "\n## llama-70b: act\n") || !strings.Contains(b.String(), "\n- minutes saturated: 14\n") {
		t.Error(b.String())
	}
}

// TestTimeline holds bins against what was stored: a resource that binds, a replica more in the second half.
func TestTimeline(t *testing.T) {
	h := ramp()
	for m := range 120 {
		d := alerting.Decision{Pool: "p", Tick: minute(m), Ready: 2, Desired: 4, Probability: .1,
			Resources: []alerting.ResourceEvidence{{Dimension: features.DimRequests, PerReplica: 50}}}
		if m >= 90 {
			d.Ready, d.Probability = 3, .7
		}
		h.decisions = append(h.decisions, d)
	}
	line := reconcile(t, h, 60, 120).Pools[0].Timeline
	if line == nil || line.Minutes != 1 || line.Resource != features.DimRequests || line.Ahead != 5 || len(line.Actual) != 60 {
		t.Fatalf("%+v", line)
	}
	for i := range line.Actual {
		y := Number(160 + i)
		ready, probability := Number(2), Number(.1)
		if i >= 30 {
			ready, probability = 3, .7
		}
		got := []Number{line.Actual[i], line.Peak[i], line.P50[i], line.P90[i], line.Ready[i], line.Desired[i], line.Probability[i], line.Capacity[i], line.Needed[i]}
		want := []Number{y, y, y + 2, 1.4 * (y + 2), ready, 4, probability, 50 * ready, Number(math.Ceil(float64(y) / 50))}
		if i >= 30 && i < 35 { // a gap
			nan := Number(math.NaN())
			want[0], want[1], want[2], want[3], want[8] = nan, nan, nan, nan, nan
		}
		if diff := cmp.Diff(want, got, close); diff != "" {
			t.Fatalf("minute %d: %s", i, diff)
		}
		if line.Announced[i] != (i >= 30) {
			t.Fatalf("minute %d: announced %v", i, line.Announced[i])
		}
	}
	for minutes, want := range map[int]int{1: 1, 60: 1, 1440: 5, 10_080: 30, MaxDays * 1440: 480} {
		if got := binWidth(minutes); got != want || (minutes+got-1)/got > mostBins {
			t.Errorf("bins of %d minutes for %d", got, minutes)
		}
	}
}

// TestLearned: the fifth sentence is of the worst saturation that came as a surprise, where it is told why.
func TestLearned(t *testing.T) {
	r := drawn()
	r.summarise()
	const want = "The worst saturation that was missed came on Wed 4 Mar 12:00 in prefill of llama-70b, up to 120 % of capacity: over 20 minutes 105 % came where 70 % was forecast 15 minutes ahead, because of longer prompts of agent (+30 points)."
	if got := r.Summary[4]; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	r.Pools[0].Saturation.Episodes[1].Outcome = InTime
	if r.summarise(); !strings.HasPrefix(r.Summary[4], "The largest error was on Wed 4 Mar 12:00 in prefill of llama-70b: 105 % of capacity against 70 %") {
		t.Error(r.Summary[4])
	}
}

// TestMailIsNarrow: a mail fits windows of 600 pixels: it has no tables and no drawings, and says what to do.
func TestMailIsNarrow(t *testing.T) {
	var b bytes.Buffer
	if err := WriteMail(&b, drawn()); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, want := range []string{"<h2>llama-70b: act</h2>\n<p>Look at Wed", "<li>used: 2.73 k GPU\u2011h, $6.82 k</li>"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(out, "<table") || strings.Contains(out, "<svg") || strings.Contains(out, "nowrap") {
		t.Error(out)
	}
}
