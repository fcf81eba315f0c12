package plan

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// requests is the load of requests with equal prompts.
func requests(rate, prompt, cached, output float64) Load {
	return FromRates(rate, rate*(prompt-cached), rate*cached, rate*output, math.NaN(), 1, 1)
}

// launchPool has ten replicas that have, together, the capacity of the published launch sheet: 400 requests/s, 650k
// prompt tokens/s, 22k output tokens/s and 240k KV tokens.
func launchPool(t testing.TB, change func(*capacity.Config)) Pool {
	t.Helper()
	c := capacity.Config{
		Name: "chat", KVCapacityTokens: 24_000, KVTarget: 1, PrefillTarget: 1, PrefillTokensPerS: 65_000, DecodeTokensPerS: 2200, MaxRequestsPerS: 40,
		ITL: 7500 * time.Microsecond, Replicas: capacity.Replicas{Max: 40}, GPUHourUSD: 3,
	}
	if change != nil {
		change(&c)
	}
	p, err := capacity.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Pool{Pool: p, Replicas: 10, WaitingPerReplica: 4}
}

// launchTraffic is 100 requests/s with 180k prompt and 6k output tokens/s. 85 % of the prompts come from the cache. The
// requests hold 83,098 KV tokens.
func launchTraffic() Traffic {
	return Traffic{Source: "test", Minutes: []Load{FromRates(100, 27_000, 153_000, 6000, 83_098, 65_000, .0075)}}
}

func sheet(t testing.TB, in Input) *Sheet {
	t.Helper()
	s, err := New(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func risks(uses []Use) map[string]Risk {
	out := map[string]Risk{}
	for _, u := range uses {
		out[u.Resource] = u.Risk
	}
	return out
}

func (s *Sheet) outcome(t testing.TB, name string) *Outcome {
	t.Helper()
	for i := range s.Outcomes {
		if s.Outcomes[i].Name == name {
			return &s.Outcomes[i]
		}
	}
	t.Fatalf("no scenario %s", name)
	return nil
}

// TestLaunchSheet reproduces the published table: 100 → 300 requests/s is okay, 180k → 720k prompt tokens/s without a
// cache is a shortfall of 650k, 6k → 19.5k output tokens/s is tight at 22k, and KV memory runs out.
func TestLaunchSheet(t *testing.T) {
	launch := Same
	launch.Rate, launch.Prompt, launch.Output, launch.CacheHit = 3, 4./3, 13./12, 0
	s := sheet(t, Input{Pool: launchPool(t, nil), Traffic: launchTraffic(), Launch: launch, Ramp: 20 * time.Minute})
	want := []struct {
		name             string
		baseline, launch float64
		risk             Risk
	}{
		{capacity.Requests, 100, 300, Okay},
		{capacity.Prefill, 27_000, 720_000, Shortfall},
		{capacity.Decode, 6000, 19_500, Tight},
		{capacity.KV, 83_098, 385_000, OutOfMemory},
	}
	for _, w := range want {
		i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.Resource == w.name })
		if i < 0 {
			t.Errorf("no row for %s", w.name)
			continue
		}
		r := s.Rows[i]
		if !near(float64(r.Baseline), w.baseline, .01) || !near(float64(r.Demand), w.launch, .02) || r.Risk != w.risk {
			t.Errorf("%s: %.0f → %.0f of %.0f, %s; want %.0f → %.0f, %s", w.name, r.Baseline, r.Demand, r.Capacity, r.Risk, w.baseline, w.launch, w.risk)
		}
	}
	if o := s.outcome(t, "launch"); o.First != capacity.KV || o.Replicas != 16 || !o.TooLate || !(o.Share > .1 && o.Share < 1) {
		t.Errorf("%s first at %.2f, %v replicas, too late: %t", o.First, o.Share, o.Replicas, o.TooLate)
	}
	if o := s.outcome(t, "baseline"); o.First != "" || o.When != nil {
		t.Errorf("without a change %s runs out", o.First)
	}
}

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

// The scenario "silent": the number of requests stays, but prompts are twice as long and not cached. Prefill and KV
// memory run out while requests/s are okay.
func TestSilentScenario(t *testing.T) {
	p := launchPool(t, func(c *capacity.Config) { c.PrefillTokensPerS, c.KVCapacityTokens = 20_000, 14_000 })
	s := sheet(t, Input{Pool: p, Traffic: launchTraffic(), Launch: Same})
	before, after := risks(s.outcome(t, "baseline").Uses), s.outcome(t, "silent")
	got := risks(after.Uses)
	for _, name := range []string{capacity.Requests, capacity.Prefill, capacity.KV, capacity.Decode} {
		if before[name] != Okay {
			t.Errorf("before, %s is %s", name, before[name])
		}
	}
	if got[capacity.Requests] != Okay || got[capacity.Decode] != Okay {
		t.Errorf("requests/s are %s and output tokens/s %s, want okay", got[capacity.Requests], got[capacity.Decode])
	}
	if got[capacity.Prefill] != Shortfall || got[capacity.KV] != OutOfMemory {
		t.Errorf("prefill is %s and KV %s", got[capacity.Prefill], got[capacity.KV])
	}
	if after.Replicas <= number(p.Replicas) || after.First == "" {
		t.Errorf("%v replicas suffice, %q runs out first", after.Replicas, after.First)
	}
}

// TestLimits: limits that more replicas do not raise can be what runs out first.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		change  func(*capacity.Config)
		first   string
		blocked string
	}{
		{func(c *capacity.Config) { c.Limits.RequestsPerMin = 100 * 60 * 1.1 }, RateLimit, RateLimit},
		{func(c *capacity.Config) { c.Limits.TokensPerMin = 186_000 * 60 * 1.1 }, TokenQuota, TokenQuota},
		{func(c *capacity.Config) { c.BudgetHourUSD = 31 }, capacity.KV, "budget_hour_usd"},
		{func(c *capacity.Config) { c.Replicas.Max = 11 }, capacity.KV, "replicas.max"},
		{nil, capacity.KV, ""},
	} {
		s := sheet(t, Input{Pool: launchPool(t, tt.change), Traffic: launchTraffic(), Launch: changed(func(c *Change) { c.Rate = 3.5 }), Ramp: time.Hour})
		if o := s.outcome(t, "launch"); o.First != tt.first || o.Blocked != tt.blocked {
			t.Errorf("%s runs out first, blocked by %q; want %s, %q", o.First, o.Blocked, tt.first, tt.blocked)
		}
	}
}

// TestWhen: when a change grows linearly over an hour, a resource with room for half of it runs out after half an hour.
func TestWhen(t *testing.T) {
	p := launchPool(t, func(c *capacity.Config) { c.MaxRequestsPerS = 15 }) // 150 in total, 100 used
	in := Input{Pool: p, Traffic: launchTraffic(), Launch: changed(func(c *Change) { c.Rate = 2 }), Ramp: time.Hour}
	o := sheet(t, in).outcome(t, "launch")
	if o.First != capacity.Requests || !near(*o.When, 1800, .01) || o.TooLate {
		t.Errorf("%s after %g s, too late: %t; want requests after 1800", o.First, *o.When, o.TooLate)
	}
	in.Ramp = 10 * time.Minute
	if o := sheet(t, in).outcome(t, "launch"); !o.TooLate {
		t.Error("a saturation in 5 minutes is not too late for the warm-up")
	}
	// Of two minutes of a trace the second is above the capacity, without any change.
	in.Traffic.Minutes = append(in.Traffic.Minutes, requests(200, 1800, 1530, 60))
	b := sheet(t, in).outcome(t, "baseline")
	if b.Over != .5 || b.Share != 0 {
		t.Errorf("over in %v of the minutes, at %v of the change", b.Over, b.Share)
	}
}

// TestDisaggregated: prompts determine the prefill replicas, the other resources those that decode.
func TestDisaggregated(t *testing.T) {
	p := launchPool(t, func(c *capacity.Config) { c.Disaggregated.PrefillReplicas.Max = 20 })
	p.Prefill = 2
	launch := changed(func(c *Change) { c.CacheHit = 0 })
	o := sheet(t, Input{Pool: p, Traffic: launchTraffic(), Launch: launch}).outcome(t, "launch")
	if o.First != capacity.Prefill || o.Prefill != 3 || o.Replicas >= 10 {
		t.Errorf("%s out first; %v prefill and %v decode replicas, want 3 and fewer than 10", o.First, o.Prefill, o.Replicas)
	}
}

// TestReservesOfRoles: each role has its own reserves and bounds, and both are in the cost.
func TestReservesOfRoles(t *testing.T) {
	in := func(edit func(*capacity.Config)) Input {
		p := launchPool(t, func(c *capacity.Config) {
			c.Disaggregated.PrefillReplicas.Max = 20
			c.Reserves = capacity.Reserves{}
			if edit != nil {
				edit(c)
			}
		})
		p.Prefill = 8
		return Input{Pool: p, Traffic: launchTraffic(), Launch: changed(func(c *Change) { c.CacheHit = 0 })}
	}
	without := sheet(t, in(nil))
	plain := without.outcome(t, "launch")
	for name, tt := range map[string]struct {
		edit            func(*capacity.Config)
		decode, prefill number // more than without reserves
		blocked         string
	}{
		"the same for both": {func(c *capacity.Config) { c.Reserves = capacity.Reserves{Failure: 1, Failover: 1} }, 2, 2, ""},
		"other for prefill": {func(c *capacity.Config) {
			c.Reserves.Failure, c.Disaggregated.PrefillReserves = 2, &capacity.Reserves{Failure: 1}
		}, 2, 1, ""},
		"none for prefill": {func(c *capacity.Config) {
			c.Reserves.Failure, c.Disaggregated.PrefillReserves = 2, new(capacity.Reserves)
		}, 2, 0, ""},
		"a minimum": {func(c *capacity.Config) { c.Disaggregated.PrefillReplicas.Min = int(plain.Prefill) + 3 }, 0, 3, ""},
		"above the maximum": {func(c *capacity.Config) {
			c.Reserves.Failure, c.Disaggregated.PrefillReplicas.Max = 1, int(plain.Prefill)
		}, 1, 1, "disaggregated.prefill_replicas.max"},
	} {
		x := in(tt.edit)
		s := sheet(t, x)
		o := s.outcome(t, "launch")
		if o.Replicas != plain.Replicas+tt.decode || o.Prefill != plain.Prefill+tt.prefill || o.Blocked != tt.blocked {
			t.Errorf("%s: %v decode and %v prefill, blocked by %q; without reserves %v and %v", name, o.Replicas, o.Prefill, o.Blocked, plain.Replicas, plain.Prefill)
		}
		hour := x.Pool.ReplicaHourUSD()
		if paid := float64(o.HourUSD - plain.HourUSD); !near(paid, hour*float64(tt.decode+tt.prefill), 1e-9) {
			t.Errorf("%s: $%g an hour more for %v replicas", name, paid, tt.decode+tt.prefill)
		}
	}
}

// TestCost: the cost of a request is that of all replicas divided by the calls, not by the attempts.
func TestCost(t *testing.T) {
	in := Input{Pool: launchPool(t, nil), Launch: Same, Traffic: launchTraffic()}
	in.Traffic.Calls = 80
	if c := sheet(t, in).Cost; !near(float64(c.Hour), 30, 1e-9) || !near(float64(c.Request), 30./(80*3600), 1e-9) {
		t.Errorf("%+v", c)
	}
}

// TestLastReplicaLost: without the only replica the capacity is 0, not unknown.
func TestLastReplicaLost(t *testing.T) {
	pool := launchPool(t, nil)
	pool.Replicas = 1
	o := sheet(t, Input{Pool: pool, Traffic: launchTraffic(), Launch: Same}).outcome(t, "replica_lost")
	if got := risks(o.Uses)[capacity.KV]; got != OutOfMemory {
		t.Errorf("KV memory without a replica: the risk is %q, want %q", got, OutOfMemory)
	}
	for _, u := range o.Uses {
		if u.Resource == capacity.KV && u.Capacity != 0 {
			t.Errorf("without a replica, the capacity is %v, want 0", u.Capacity)
		}
	}
}

func loads() *rapid.Generator[Load] {
	return rapid.Custom(func(t *rapid.T) Load {
		prompt := rapid.Float64Range(1, 1e5).Draw(t, "prompt")
		cached := prompt * rapid.Float64Range(0, 1).Draw(t, "hit")
		l := requests(rapid.Float64Range(.01, 100).Draw(t, "rate"), prompt, cached, rapid.Float64Range(0, 1e4).Draw(t, "output"))
		l.Spread = rapid.Float64Range(.5, 10).Draw(t, "spread")
		return l
	})
}

// TestChange: without a change the load is the same. Each factor changes its sums in the right direction.
func TestChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := loads().Draw(t, "load")
		same := Same.apply(l)
		for _, x := range [][2]float64{{same.Requests, l.Requests}, {same.Prompt, l.Prompt}, {same.Cached, l.Cached}, {same.Output, l.Output}, {same.Spread, l.Spread}, {same.KV(5000, .02), l.KV(5000, .02)}} {
			if !near(x[0], x[1], 1e-9) && math.Abs(x[0]-x[1]) > 1e-9*l.Prompt {
				t.Fatalf("unchanged %+v is %+v", l, same)
			}
		}
		double := changed(func(c *Change) { c.Rate = 2 }).apply(l)
		if !near(double.KV(5000, .02), 2*l.KV(5000, .02), 1e-6) {
			t.Fatalf("twice the rate holds %g KV tokens, once %g", double.KV(5000, .02), l.KV(5000, .02))
		}
		cold := changed(func(c *Change) { c.CacheHit = 0 }).apply(l)
		if cold.Cached != 0 || !near(cold.Prompt, l.Prompt, 1e-9) || cold.KV(5000, .02) < l.KV(5000, .02)*(1-1e-9) {
			t.Fatalf("without cache hits %+v becomes %+v", l, cold)
		}
		long := changed(func(c *Change) { c.Prompt, c.Output = 2, 3 }).apply(l)
		if !near(long.Prompt, 2*l.Prompt, 1e-9) || !near(long.Output, 3*l.Output, 1e-9) || !near(long.Cached, 2*l.Cached, 1e-9) {
			t.Fatalf("%+v becomes %+v", l, long)
		}
		if c := changed(func(c *Change) { c.Rate, c.Retry = 3, .2 }); c.partly(1) != c || c.partly(0) != Same {
			t.Fatalf("all of a change is %+v, none %+v", c.partly(1), c.partly(0))
		}
	})
}

// TestKVByLittlesLaw compares KV tokens with the sum of what requests with exponential outputs hold.
func TestKVByLittlesLaw(t *testing.T) {
	const prefill, itl = 4000.0, .02
	want, n := 0., 200_000
	random := rand.New(rand.NewPCG(1, 2))
	for range n {
		output := random.ExpFloat64() * 200
		want += 3 * (500*400/prefill + itl*(500*output+output*output/2)) / float64(n) // token-seconds of one request
	}
	if got := requests(3, 500, 100, 200).KV(prefill, itl); !near(got, want, .01) {
		t.Errorf("%g KV tokens, want %g", got, want)
	}
}

func TestStated(t *testing.T) {
	l, err := Stated{RequestsPerS: 10, Prompt: 1000, Output: 200, CacheHit: .25}.Load()
	if want := requests(10, 1000, 250, 200); err != nil || l != want {
		t.Errorf("%+v, %v, want %+v", l, err, want)
	}
	for _, bad := range []Stated{
		{RequestsPerS: -1}, {RequestsPerS: math.NaN()}, {RequestsPerS: 1, CacheHit: 2}, {RequestsPerS: 1, Prompt: -5}, {RequestsPerS: 1, Output: math.Inf(1)},
	} {
		if _, err := bad.Load(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// TestFromRates: the spread follows from the KV tokens.
func TestFromRates(t *testing.T) {
	l := FromRates(10, 8000, 2000, 3000, 50_000, 6000, .02)
	if !near(l.KV(6000, .02), 50_000, 1e-9) || l.Prompt != 10_000 || l.Cached != 2000 {
		t.Errorf("%+v holds %g", l, l.KV(6000, .02))
	}
	if l := FromRates(10, 8000, 2000, 3000, math.NaN(), 6000, .02); !(l.KV(6000, .02) > 0) {
		t.Error("unknown KV tokens count as none")
	}
	if l := FromRates(0, 1, 1, 1, 1, 1, 1); l != (Load{}) {
		t.Errorf("%+v without requests", l)
	}
}

func TestRendering(t *testing.T) {
	in := Input{Pool: launchPool(t, func(c *capacity.Config) {
		c.Reserves.Failure = 1
	}), Traffic: launchTraffic(), Launch: changed(func(c *Change) { c.Rate = 3 })}
	in.Traffic.Notes = []string{`<script>alert("|")</script>`}
	s := sheet(t, in)
	rendered := func(format string) string {
		out, err := Render(s, format)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	md, page, js := rendered("md"), rendered("html"), rendered("json")
	for _, want := range []string{"# Launch sheet of chat", "| active KV tokens | ", "a reserve: 1 for failures", `alert("\|")`} {
		if !strings.Contains(md, want) {
			t.Errorf("the Markdown does not have %q:\n%s", want, md)
		}
	}
	for _, want := range []string{"<!doctype html>", `<tr class="memory">`, "requests/s", "&lt;script&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	for _, no := range []string{"<script", "http://", "https://", "src="} {
		if strings.Contains(page, no) {
			t.Errorf("the page has %q, and should load nothing", no)
		}
	}
	var back map[string]any
	if err := json.Unmarshal([]byte(js), &back); err != nil || back["scenarios"] == nil || strings.Contains(js, "NaN") {
		t.Errorf("%v in %s", err, js)
	}
}

func TestNewRefuses(t *testing.T) {
	for want, in := range map[string]Input{
		"no traffic":            {Pool: launchPool(t, nil)},
		"known to be ready":     {Pool: Pool{Pool: launchPool(t, nil).Pool}, Traffic: launchTraffic()},
		"no traffic to plan fo": {Pool: launchPool(t, nil), Traffic: Traffic{Minutes: make([]Load, 3)}},
	} {
		if _, err := New(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
