package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// mixedLog is a log of some minutes with all kinds of records and faults. Three gateways send requests with sessions,
// tenants, prefix blocks or cached tokens, with a class, without one, or with a class by rule. After namelessMinutes
// they send their names, and the clock of one is ahead. Pool p has a record of each arrival too, pool q only one at the
// end. Calls are rejected, cancelled, fail and are retried; of some only a later attempt is reported. Records come
// late, very late, twice, out of order, from the future and from unknown pools. There are also sums, reports of
// replicas, acks of an autoscaler, and a watermark each minute. Batches are in the order of the stream, one for each
// record.
func mixedLog(seed uint64, minutes int) []ingest.Batch {
	g := &logWriter{rng: rand.New(rand.NewPCG(seed, 2))}
	for s := 0; s < 60*minutes; s += 5 {
		for range g.rng.IntN(6) {
			g.call(midnight.Add(g.seconds(float64(s), float64(s+5))))
		}
		now := midnight.Add(time.Duration(s) * time.Second)
		if s%15 == 0 && s > 60*namelessMinutes {
			g.replicas(now)
		}
		switch s % 60 {
		case 10:
			g.add(now.Add(time.Second), "", ingest.Batch{Watermark: &ingest.Watermark{At: now.Truncate(time.Minute)}})
			g.add(now.Add(time.Second), "", ingest.Batch{Watermark: &ingest.Watermark{Pool: "p", At: now.Truncate(time.Minute)}})
		case 30:
			if s < 60*namelessMinutes {
				break
			}
			g.add(now, "batch", ingest.Batch{Sums: []ingest.Sum{{
				Pool: "q", Class: "offline", Start: now.Truncate(time.Minute), Requests: 3, PromptTokens: 6000, CachedTokens: math.NaN(), OutputTokens: 900,
			}}})
			g.add(now, "", ingest.Batch{Acks: []ingest.Ack{{Pool: "p", Generation: int64(s / 60 / 10), Stage: ingest.AckReady, At: now, Replicas: 1}}})
		}
	}
	end := midnight.Add(time.Duration(minutes) * time.Minute)
	g.log = slices.DeleteFunc(g.log, func(b ingest.Batch) bool { return b.ReceivedAt.After(end) })
	slices.SortStableFunc(g.log, func(a, b ingest.Batch) int { return a.ReceivedAt.Compare(b.ReceivedAt) })
	for i := range g.log {
		g.log[i].Sequence = uint64(i + 1)
	}
	return g.log
}

// namelessMinutes is for how long producers do not send their names.
const namelessMinutes = 4

// logWriter writes a mixedLog.
type logWriter struct {
	rng   *rand.Rand
	log   []ingest.Batch
	calls int
}

// seconds draws a duration.
func (g *logWriter) seconds(from, to float64) time.Duration {
	return time.Duration((from + (to-from)*g.rng.Float64()) * float64(time.Second))
}

func (g *logWriter) add(at time.Time, source string, b ingest.Batch) {
	b.ReceivedAt, b.Source = at, source
	g.log = append(g.log, b)
}

func (g *logWriter) request(at time.Time, r ingest.Request) {
	if r.ID[0] == '3' { // a gateway whose clock is ahead
		for _, t := range []*time.Time{&r.ArrivedAt, &r.StartedAt, &r.FirstTokenAt, &r.FinishedAt} {
			if !t.IsZero() {
				*t = t.Add(3 * time.Second)
			}
		}
	}
	source := ""
	if at.Sub(midnight) > namelessMinutes*time.Minute {
		source = "gateway-" + r.ID[:1]
	}
	g.add(at, source, ingest.Batch{Requests: []ingest.Request{r}})
}

// call writes the records of one call: one for each attempt at its end, in pool p also one at its arrival.
func (g *logWriter) call(at time.Time) {
	g.calls++
	r := ingest.Request{
		ID: fmt.Sprint(1+g.calls%3, "-", g.calls), Pool: []string{"p", "p", "q"}[g.rng.IntN(3)], Class: []string{"chat", "agent", "", ""}[g.rng.IntN(4)],
		Tenant: fmt.Sprint("t", g.rng.IntN(20)), Feature: fmt.Sprint("f", g.rng.IntN(4)), Session: uint64(g.rng.IntN(60)),
		PromptTokens: int64(50 * math.Exp(g.rng.Float64())), CachedTokens: ingest.Unknown, OutputTokens: int64(400 * math.Exp(g.rng.Float64())), MaxOutputTokens: 2000,
	}
	if g.rng.IntN(2) == 0 { // half of the calls have long prompts and short outputs
		r.PromptTokens, r.OutputTokens = 40*r.PromptTokens, 1+r.OutputTokens/40
	}
	if g.rng.IntN(3) == 0 {
		r.CachedTokens = r.PromptTokens / int64(2+g.rng.IntN(3))
	}
	first := 1
	if g.rng.IntN(25) == 0 {
		first = 2 // the first attempt is not reported
	}
	for r.Attempt = first; ; r.Attempt++ {
		end := g.attempt(at, r)
		if g.rng.IntN(8) > 0 || r.Attempt == 4 {
			return
		}
		at = end.Add(g.seconds(.1, 20))
	}
}

// attempt writes the records of one attempt, and returns its end.
func (g *logWriter) attempt(at time.Time, r ingest.Request) time.Time {
	r.ArrivedAt = at
	wait, output := g.seconds(0, .8), r.OutputTokens
	if g.rng.IntN(10) == 0 {
		wait = g.seconds(1, 40)
	}
	if r.Pool == "p" {
		arrived := r
		arrived.Phase, arrived.OutputTokens, arrived.CachedTokens = ingest.PhaseArrived, ingest.Unknown, ingest.Unknown
		g.request(at.Add(g.seconds(0, 1)), arrived)
	}
	end := at.Add(wait)
	switch outcome := g.rng.IntN(12); outcome {
	case 0, 1: // not served
		r.Phase, r.OutputTokens, r.CachedTokens = ingest.PhaseRejected, ingest.Unknown, ingest.Unknown
		r.FinishedAt = end
	default:
		r.StartedAt = end
		r.FirstTokenAt = r.StartedAt.Add(g.seconds(.1, 2))
		if outcome < 4 {
			r.Phase, r.Status = ingest.PhaseCancelled, ingest.StatusCancelled
			r.OutputTokens = 1 + output/int64(2+g.rng.IntN(5))
		} else if outcome == 4 {
			r.Status = ingest.StatusError
			r.OutputTokens = 1 + output/3
		}
		end = r.FirstTokenAt.Add(time.Duration(r.OutputTokens) * g.seconds(.01, .2))
		r.FinishedAt = end
	}
	sent := end.Add(g.seconds(0, 2))
	switch g.rng.IntN(40) {
	case 0, 1, 2:
		sent = sent.Add(g.seconds(60, 500))
	case 3:
		sent = sent.Add(g.seconds(600, 2400))
	case 4:
		g.request(sent.Add(time.Second), r) // a duplicate
	case 5:
		unknown := r
		unknown.Pool = "unknown"
		g.request(sent, unknown)
	case 6:
		future := r
		future.ID, future.ArrivedAt, future.FinishedAt = r.ID+"?", at.Add(400*time.Hour), end.Add(400*time.Hour)
		g.request(sent, future)
	}
	g.request(sent, r)
	return end
}

// replicas writes a report of each replica.
func (g *logWriter) replicas(at time.Time) {
	for _, name := range []string{"a", "b"} {
		g.add(at, "", ingest.Batch{Replicas: []ingest.Replica{{
			Pool: "p", Name: name, At: at, KVCapacityTokens: 90_000, KVUsedTokens: int64(g.rng.IntN(60_000)), KVUsedRatio: math.NaN(),
			Running: 5, Waiting: int64(g.rng.IntN(8)), PreemptionsTotal: at.Unix() / 100, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
			StartedAt: midnight.Add(-time.Minute), StartupSeconds: 500,
		}}})
	}
}

// mixedConfig is a configuration for a mixedLog.
func mixedConfig(t testing.TB, clock Clock) Config {
	cfg := eventConfig(t, "p", "q")
	cfg.Clock = clock
	cfg.Classify = features.ClassifyConfig{Rules: []features.Rule{{Class: "first", Tenant: []string{"t0", "t?1"}}}}
	if clock == WallClock {
		cfg.Features.Lateness = 10 * time.Second
	}
	return cfg
}
