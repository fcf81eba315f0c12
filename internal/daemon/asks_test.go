package daemon

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/backtest"
)

// slowAutoscaler obeys at once, but its replicas take 8 minutes to start. They report nothing before they are ready,
// and nothing when they are removed, like engines whose metrics are scraped.
type slowAutoscaler struct {
	ready, starting    []int // minutes since which, and until which
	started, cancelled int   // number of replicas
}

func (l *slowAutoscaler) obey(minute, desired int) {
	for len(l.starting) > 0 && l.starting[0] <= minute {
		l.ready, l.starting = append(l.ready, minute), l.starting[1:]
	}
	for len(l.ready)+len(l.starting) < desired {
		l.started++
		l.starting = append(l.starting, minute+8)
	}
	for len(l.ready)+len(l.starting) > desired {
		if n := len(l.starting); n > 0 {
			l.cancelled++
			l.starting = l.starting[:n-1]
		} else {
			l.ready = l.ready[:len(l.ready)-1]
		}
	}
}

// TestScenarioAsksAreKept serves generated traffic by a pool whose replicas start slowly. No replica is asked for and
// then cancelled before it is ready. Each change of the desired replicas has an action and a reason.
func TestScenarioAsksAreKept(t *testing.T) {
	t.Parallel()
	p := startDaemon(t, "clock: event", "decision: {mode: active}", "features: {lateness: 0s}",
		"pools: [{name: asks, decode_tokens_per_s: 30, prefill_tokens_per_s: 600, prefill_target: 1, warmup: {p50: 8m, p90: 9m}, replicas: {min: 2, max: 30, initial: 4}}]")
	start := time.Date(2026, 3, 2, 7, 0, 0, 0, time.UTC)
	traffic := backtest.NewWorkload(backtest.WorkloadConfig{Start: start, Rate: .15}, 1)
	var next backtest.Item
	_ = traffic.Next(&next) // never ends
	id := 0
	fleet := slowAutoscaler{ready: make([]int, 4)}
	var asked []int // the minute in which each desired replica was asked for
	type view struct {
		Decision struct {
			Desired        int `json:"desired_replicas"`
			Action, Reason string
		}
		Replicas struct{ Ready, Pending int }
	}
	was, changes, reversed, silent := 4, 0, 0, 0
	for range was {
		asked = append(asked, -1000)
	}
	for m := range 320 {
		at := start.Add(time.Duration(m) * time.Minute)
		lines := map[string]*bytes.Buffer{}
		for ; next.At().Before(at.Add(time.Minute)); _ = traffic.Next(&next) {
			r := next.Request
			b := lines[r.Class]
			if b == nil {
				b = new(bytes.Buffer)
				lines[r.Class] = b
			}
			id++
			fmt.Fprintf(b, `{"id":"r%d","arrived_at":%d,"finished_at":%d,"prompt_tokens":%d,"cached_tokens":%d,"output_tokens":%d}`+"\n", id, r.ArrivedAt.UnixMilli(),
				r.ArrivedAt.Add(time.Duration(r.OutputTokens)*30*time.Millisecond).UnixMilli(), r.PromptTokens, r.CachedTokens, r.OutputTokens)
		}
		for class, b := range lines {
			p.publish(t, "forewarm.telemetry.request.asks."+class, b.Bytes(), "Content-Type", "application/x-ndjson")
		}
		for i := range fleet.ready {
			p.publish(t, fmt.Sprintf("forewarm.telemetry.replica.asks.r%d", i), fmt.Appendf(nil, `{"at":%d,"state":"ready","waiting":0}`, at.Add(59*time.Second).UnixMilli()))
		}
		p.publish(t, "forewarm.telemetry.watermark.asks", fmt.Appendf(nil, `{"at":%d}`, at.Add(time.Minute).UnixMilli()))
		p.settle(t)
		var v view
		p.getJSON(t, "/api/v1/pools/asks", &v)
		d := &v.Decision
		if d.Reason == "" {
			continue
		}
		if d.Desired != was {
			changes++
			back := ""
			if d.Desired < was {
				if newest := asked[len(asked)-1]; m-newest < 10 {
					reversed++
					back = fmt.Sprintf(" CANCELS the ask of %d min ago", m-newest)
				}
				asked = asked[:d.Desired]
			}
			for len(asked) < d.Desired {
				asked = append(asked, m)
			}
			if d.Action == "hold" && !strings.Contains(d.Reason, "limited by") {
				silent++
			}
			t.Logf("%s %d→%d %s%s: %d ready, %d pending; in fact %d and %d: %s", at.Format("15:04"), was, d.Desired, d.Action, back,
				v.Replicas.Ready, v.Replicas.Pending, len(fleet.ready), len(fleet.starting), d.Reason)
			was = d.Desired
		}
		fleet.obey(m, d.Desired)
	}
	t.Logf("%d changes, %d cancelled an ask within ten minutes, %d had no reason; of %d starts %d were cancelled", changes, reversed, silent, fleet.started, fleet.cancelled)
	if changes < 8 || reversed+silent+fleet.cancelled > 0 {
		t.Error("want at least eight changes, and nothing cancelled or without reason")
	}
}
