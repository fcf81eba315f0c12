package pipeline

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// TestLatencyObjective plants 36 minutes of slow service in traffic for which the pool has enough replicas. The
// autoscaler obeys after three minutes. If an objective is stated, replicas are added and people are alerted, and paged
// if more replicas do not help.
func TestLatencyObjective(t *testing.T) {
	const onset, minutes, normal, lag = 80, 36, 4, 3
	for _, tt := range []struct {
		name   string
		slow   func(ready int, ttft, itl *float64) // changes the latencies
		stated bool                                // objectives
		most   int                                 // upper bound of the replicas
		helped bool                                // more replicas reduce the latency
	}{
		{"first token, no objective", func(_ int, ttft, _ *float64) { *ttft *= 4 }, false, normal, false},
		{"first token, more replicas help", func(ready int, ttft, _ *float64) { *ttft *= 4 * (normal / float64(ready)) * (normal / float64(ready)) }, true, 8, true},
		{"first token, more do not help", func(_ int, ttft, _ *float64) { *ttft *= 4 }, true, 7, false},
		{"further tokens, more do not help", func(_ int, _, itl *float64) { *itl *= 3 }, true, 6, false},
		{"further tokens, more replicas help", func(ready int, _, itl *float64) { *itl *= 3 * (normal / float64(ready)) * (normal / float64(ready)) }, true, 8, true},
		{"both", func(_ int, ttft, itl *float64) { *ttft, *itl = 4**ttft, 3**itl }, true, 7, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pc := capacity.Config{Name: "p", PrefillTokensPerS: 5000, DecodeTokensPerS: 2000, Replicas: capacity.Replicas{Min: normal, Max: 30, Initial: normal}}
			if tt.stated {
				pc.SLO = capacity.SLO{TTFT: time.Second, ITL: 40 * time.Millisecond}
			}
			pool, err := capacity.New(pc, nil)
			if err != nil {
				t.Fatal(err)
			}
			cfg := DefaultConfig()
			cfg.Clock, cfg.Features.Lateness, cfg.Pools, cfg.Decision.Mode = EventClock, 0, []capacity.Pool{pool}, alerting.Active
			p, rng := New(cfg), rand.New(rand.NewPCG(3, 4))
			var desired [onset + minutes + 60]int
			var alerted, paged []int
			breached, text := 0, ""
			peak, last := 0, alerting.Decision{}
			for m := range desired {
				ready := normal
				if m > lag {
					ready = max(desired[m-lag-1], normal)
				}
				ttft, itl := .5, .02
				if m >= onset && m < onset+minutes {
					tt.slow(ready, &ttft, &itl)
				}
				start := midnight.Add(time.Duration(m) * time.Minute)
				b := ingest.Batch{Watermark: &ingest.Watermark{Pool: "p", At: start.Add(time.Minute)}}
				for n := range 60 {
					at := start.Add(time.Duration(n) * time.Second)
					r := ingest.Request{ID: fmt.Sprint(m, "-", n), Pool: "p", Class: "chat", Attempt: 1, ArrivedAt: at, PromptTokens: 1000, CachedTokens: 0, OutputTokens: 100, MaxOutputTokens: ingest.Unknown}
					r.FirstTokenAt = at.Add(time.Duration(ttft * (1 + .1*rng.Float64()) * float64(time.Second)))
					r.FinishedAt = r.FirstTokenAt.Add(time.Duration(99 * itl * (1 + .1*rng.Float64()) * float64(time.Second)))
					b.Requests = append(b.Requests, r)
				}
				for n := range ready {
					b.Replicas = append(b.Replicas, ingest.Replica{Pool: "p", Name: fmt.Sprint("r", n), At: start.Add(50 * time.Second), KVCapacityTokens: 100_000, KVUsedTokens: ingest.Unknown, KVUsedRatio: .3, Waiting: 0, Running: 5})
				}
				if m > 0 {
					desired[m] = desired[m-1]
				}
				p.Apply(&b, func(o *Output) {
					for _, d := range o.Decisions() {
						last = *d
						desired[m] = last.Desired
						peak = max(peak, last.Desired)
						if b := last.Breach; b != nil && (b.TTFT || b.ITL) {
							breached++
						}
					}
					for _, a := range o.Alerts {
						if a.Name == alerting.LatencyObjective && !a.Resolved {
							alerted, text = append(alerted, m-onset), a.Annotations["summary"]+"\n"+a.Annotations["action"]
							if a.Labels["severity"] == "page" {
								paged = append(paged, m-onset)
							}
						}
					}
				})
			}
			t.Logf("peak %d, at the end %d, breached %d minutes, alerted %v, paged %v\n%s\n%v", peak, last.Desired, breached, alerted, paged, text, desired[onset-1:])
			switch {
			case !tt.stated && (alerted != nil || peak > normal):
				t.Error("there is an alert or a replica more although no objective is stated")
			case !tt.stated:
			case peak <= normal || peak > tt.most:
				t.Errorf("%d replicas, want %d to %d", peak, normal+1, tt.most)
			case alerted == nil || alerted[0] > 6:
				t.Errorf("alerted in minutes %v", alerted)
			case tt.helped && paged != nil, !tt.helped && (paged == nil || !strings.Contains(text, "Do not add replicas")):
				t.Errorf("paged in minutes %v", paged)
			case last.Desired != normal:
				t.Errorf("%d replicas in the end, want %d", last.Desired, normal)
			}
			if tt.stated && !tt.helped && (breached < minutes-4 || breached > minutes+5) {
				t.Errorf("breached in %d minutes of %d", breached, minutes)
			}
		})
	}
}
