package daemon

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

// class is one class of a pool's traffic in one minute.
type class struct {
	name, tenant           string
	perMinute              float64
	prompt, cached, output float64
	retried                bool // each first attempt fails
	producer               string
	ahead                  time.Duration // of the producer's clock
}

// usual is the traffic of every pool before nightBegins.
func usual() []class {
	return []class{
		{name: "chat", tenant: "web", perMinute: 20, prompt: 800, cached: 500, output: 250, producer: "gw-1"},
		{name: "agent", tenant: "acme", perMinute: 10, prompt: 6000, cached: 4300, output: 400, producer: "gw-2"},
	}
}

// nightBegins is the minute in which causes begin. A slow cause grows for nightSpan minutes.
const nightBegins, nightMinutes, nightSpan = 75, 125, 25

// nightCauses are causes of trouble. Each changes one pool from nightBegins on, and has an alert with these facts.
var nightCauses = []struct {
	pool    string
	change  func(c []class, minutes float64) []class
	replica string // keys of the pool; "" is the default
	warning alerting.AlertName
	facts   []string // parts of its text
}{
	{pool: "prompts", change: func(c []class, m float64) []class {
		c[1].prompt *= 1 + 1.1*min(m/nightSpan, 1)
		c[1].cached = c[1].prompt * .71
		return c
	}, warning: alerting.TooLateToWarm, facts: []string{"Class agent (mostly tenant acme) causes it: ", "prompts ", "times as long", "Forewarm asked for ", "due by"}},
	{pool: "cache", change: func(c []class, _ float64) []class {
		c[1].cached *= .3
		return c
	}, warning: alerting.TooLateToWarm, facts: []string{"Class agent", "cache hits down from 7"}},
	{pool: "retries", change: func(c []class, m float64) []class {
		c[1].retried = true
		c[1].perMinute *= 1 + min(m/nightSpan, 1)
		return c
	}, warning: alerting.RetryStorm, facts: []string{"class agent", "of the requests are retries"}},
	{pool: "tenant", change: func(c []class, m float64) []class {
		newcomer := c[1]
		newcomer.tenant, newcomer.perMinute = "newcorp", 12*min(m/nightSpan, 1)
		return append(c, newcomer)
	}, warning: alerting.TooLateToWarm, facts: []string{"Class agent (tenant newcorp grew most) causes it: ", "times as many requests"}},
	{pool: "shift", change: func(c []class, _ float64) []class {
		c[0].perMinute, c[1].perMinute = c[0].perMinute*1.8, c[1].perMinute*1.8
		return c
	}, warning: alerting.TooLateToWarm, facts: []string{"times as many requests", "due by"}},
	{pool: "silent", change: func([]class, float64) []class { return nil },
		warning: alerting.TelemetryStale, facts: []string{"The engines are busy", "no request was reported"}},
	{pool: "slow", replica: "warmup: {p50: 40m, p90: 50m}", change: func(c []class, m float64) []class {
		c[1].perMinute *= 1 + .8*min(m/nightSpan, 1)
		return c
	}, warning: alerting.TooLateToWarm, facts: []string{"Forewarm asked for ", "due by", "Admit at most"}},
	{pool: "full", replica: "replicas: {min: 3, max: 3}", change: func(c []class, m float64) []class {
		c[1].perMinute *= 1 + .8*min(m/nightSpan, 1)
		return c
	}, warning: alerting.AtCapacityLimit, facts: []string{"replicas.max"}},
}

// TestScenarioNight changes each pool of a running daemon by another cause of trouble. The alerts name the cause and
// say what to do.
func TestScenarioNight(t *testing.T) {
	t.Parallel()
	var pools []string
	for _, c := range nightCauses {
		own := c.replica
		for _, key := range []string{"warmup: {p50: 6m, p90: 12m}", "replicas: {min: 3, max: 12}"} {
			if name, _, _ := strings.Cut(key, ":"); !strings.Contains(own, name) {
				own += ", " + key
			}
		}
		pools = append(pools, fmt.Sprintf("{name: %s, kv_capacity_tokens: 11500, kv_target: 0.9, prefill_tokens_per_s: 270, prefill_target: 1, decode_tokens_per_s: 220, %s}", c.pool, strings.TrimPrefix(own, ", ")))
	}
	p := startDaemon(t, "clock: event", "decision: {mode: active}", "features: {lateness: 30s}",
		"sinks: {alertmanager: {urls: ['http://127.0.0.1:1']}}", "pools: ["+strings.Join(pools, ", ")+"]")
	alerts := testenv.Subscribe(t, p.conn, "forewarm.alert.>")
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for m := range nightMinutes {
		at := start.Add(time.Duration(m) * time.Minute)
		for i := range nightCauses {
			c, traffic := &nightCauses[i], usual()
			if m >= nightBegins {
				traffic = c.change(traffic, float64(m-nightBegins))
			}
			p.minute(t, c.pool, at, traffic)
			for r := range 3 {
				p.publish(t, fmt.Sprintf("forewarm.telemetry.replica.%s.%s-%d", c.pool, c.pool, r), fmt.Appendf(nil,
					`{"at":%d,"state":"ready","kv_capacity_tokens":11500,"kv_used_ratio":0.5,"running":4,"waiting":0}`, at.Add(59*time.Second).UnixMilli()))
			}
		}
		if m%10 == 9 {
			p.settle(t)
		}
	}
	p.settle(t)

	first, all := map[string]string{}, map[string]string{} // texts of alerts
	for m := range testenv.Messages(alerts) {
		e := parse[alerting.CloudEvent[alerting.AlertData]](t, m.Data)
		a := e.Data
		key := fmt.Sprintf("%s %s", a.Labels["pool"], a.Name)
		all[key] += testenv.Words(a.Annotations) + "\n"
		if a.State == "firing" && first[key] == "" {
			first[key] = fmt.Sprintf("%s %s (%s, class %q)\n%s", a.UpdatedAt.Format("15:04"), key, a.Labels["severity"], a.Labels["class"], testenv.Words(a.Annotations))
		}
	}
	for _, c := range nightCauses {
		key := c.pool + " " + string(c.warning)
		for _, fact := range c.facts {
			if !strings.Contains(all[key], fact) { // a driver is named only after its change is significant
				t.Errorf("%s: no %q in %q", c.pool, fact, first[key])
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(first)) {
		t.Log(first[key])
	}
}

// minute publishes the requests of a pool in one minute, as the producer of each class does.
func (p *inProcess) minute(t *testing.T, pool string, at time.Time, traffic []class) {
	t.Helper()
	for _, c := range traffic {
		var b bytes.Buffer
		n := int(c.perMinute + .5)
		for i := range n {
			arrived := at.Add(time.Duration(i) * time.Minute / time.Duration(n))
			wobble := 1 + .1*float64((i*7+at.Minute()*3)%11-5)/5
			arrived = arrived.Add(c.ahead)
			attempt := 1
			if c.retried {
				fmt.Fprintf(&b, `{"id":"%[1]s-%[2]d-%[3]d","attempt":1,"status":"error","tenant":%[1]q,"arrived_at":%[4]d,"finished_at":%[4]d,"prompt_tokens":%.0[5]f,"output_tokens":0}`+"\n",
					c.tenant, at.Unix(), i, arrived.UnixMilli(), c.prompt*wobble)
				attempt = 2
			}
			fmt.Fprintf(&b, `{"id":"%[1]s-%[2]d-%[3]d","attempt":%[4]d,"tenant":%[1]q,"arrived_at":%[5]d,"finished_at":%[6]d,"prompt_tokens":%.0[7]f,"cached_tokens":%.0[8]f,"output_tokens":%.0[9]f}`+"\n",
				c.tenant, at.Unix(), i, attempt, arrived.UnixMilli(), arrived.Add(time.Duration(c.output*40)*time.Millisecond).UnixMilli(),
				c.prompt*wobble, c.cached*wobble, c.output*wobble)
		}
		p.publish(t, "forewarm.telemetry.request."+pool+"."+c.name, b.Bytes(), "Content-Type", "application/x-ndjson", "Forewarm-Source", c.producer)
	}
}
