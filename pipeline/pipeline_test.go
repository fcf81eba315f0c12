package pipeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

var midnight = time.Date(2025, 3, 3, 0, 0, 0, 0, time.UTC)

func testPool(t testing.TB, name string) capacity.Pool {
	t.Helper()
	p, err := capacity.New(capacity.Config{
		Name: name, KVCapacityTokens: 100_000, PrefillTokensPerS: 5000, DecodeTokensPerS: 800,
		Replicas: capacity.Replicas{Min: 1, Max: 30, Initial: 3},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func eventConfig(t testing.TB, pools ...string) Config {
	c := DefaultConfig()
	c.Clock, c.Features.Lateness = EventClock, 0
	c.Classify = features.ClassifyConfig{Rules: []features.Rule{{Class: "first", Tenant: []string{"t0"}}}}
	for _, name := range pools {
		c.Pools = append(c.Pools, testPool(t, name))
	}
	return c
}

// traffic makes n batches of one minute each: records with times, some late, some twice, some of a pool nobody knows,
// replica reports, and a watermark.
func traffic(seed uint64, n int) []ingest.Batch {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []ingest.Batch
	id := 0
	for m := range n {
		start := midnight.Add(time.Duration(m) * time.Minute)
		b := ingest.Batch{Sequence: uint64(m + 1)}
		for range 4 + r.IntN(8) {
			id++
			at := start.Add(time.Duration(r.IntN(60_000)) * time.Millisecond)
			if r.IntN(20) == 0 {
				at = at.Add(-time.Duration(r.IntN(30)) * time.Minute)
			}
			q := ingest.Request{
				ID: fmt.Sprint(id), Pool: "p", Class: []string{"chat", "agent", "rag", ""}[r.IntN(4)], Attempt: 1, Tenant: fmt.Sprint("t", r.IntN(4)),
				Session: uint64(r.IntN(40)), Feature: fmt.Sprint("f", id%3),
				ArrivedAt: at, FirstTokenAt: at.Add(time.Second), FinishedAt: at.Add(time.Duration(2+r.IntN(90)) * time.Second),
				PromptTokens: int64(100 + r.IntN(5000)), CachedTokens: ingest.Unknown, OutputTokens: int64(r.IntN(900)), MaxOutputTokens: ingest.Unknown,
			}
			if r.IntN(3) == 0 {
				q.CachedTokens = q.PromptTokens / 2
			} else {
				q.BlockTokens = 64
				for block := range q.PromptTokens / 64 {
					q.Blocks = append(q.Blocks, uint64(len(out)%7)<<32|uint64(block))
				}
			}
			if r.IntN(40) == 0 {
				q.Pool = "nobody"
			}
			b.Requests = append(b.Requests, q)
			if r.IntN(30) == 0 {
				b.Requests = append(b.Requests, q)
			}
		}
		b.Replicas = append(b.Replicas, ingest.Replica{
			Pool: "p", Name: "r1", At: start, KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: r.Float64(),
			Waiting: int64(r.IntN(3)), Running: 5,
		})
		b.Watermark = &ingest.Watermark{Pool: "p", At: start.Add(time.Minute)}
		out = append(out, b)
	}
	return out
}

// apply folds copies of batches, so that the same ones can be folded again.
func apply(p *Pipeline, batches []ingest.Batch, emit func(*Output)) {
	for _, b := range batches {
		b.Requests, b.Refused = slices.Clone(b.Requests), nil
		p.Apply(&b, emit)
	}
}

// summary is what a run said, as text: comparing it compares decisions, alerts and forecasts byte for byte.
func summary(lines *[]string) func(*Output) {
	return func(o *Output) {
		enc := func(v any) []byte {
			b, err := encoder.Marshal(v)
			if err != nil {
				panic(err)
			}
			return b
		}
		*lines = append(*lines, fmt.Sprintf("%s %s", o.Tick, digest(slices.Concat(enc(o.Windows), enc(o.Forecasts), enc(o.Projections), enc(o.Decisions), enc(o.Alerts)))))
	}
}

// TestFoldIsExact: the same log gives the same bytes, also when the state went through a snapshot on the way, wherever,
// and once again.
func TestFoldIsExact(t *testing.T) {
	batches := traffic(1, 75) // forecasts of an hour ahead have had their outcomes
	var want, got []string
	whole, p := New(eventConfig(t, "p")), New(eventConfig(t, "p"))
	apply(whole, batches, summary(&want))
	at := 0
	for _, cut := range []int{1, 37, 74} {
		apply(p, batches[at:cut], summary(&got))
		p, at = reborn(t, eventConfig(t, "p"), p), cut
	}
	apply(p, batches[at:], summary(&got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if !bytes.Equal(saved(t, whole), saved(t, p)) {
		t.Error("the final state differs")
	}
}

// TestBatchingDoesNotMatter: one record a message or many, the fold sees the same records in the same order.
func TestBatchingDoesNotMatter(t *testing.T) {
	batches := traffic(2, 40)
	var single []ingest.Batch
	for _, b := range batches {
		for i := range b.Requests {
			single = append(single, ingest.Batch{Sequence: b.Sequence, Requests: b.Requests[i : i+1]})
		}
		single = append(single, ingest.Batch{Sequence: b.Sequence, Replicas: b.Replicas, Watermark: b.Watermark})
	}
	p, q := New(eventConfig(t, "p")), New(eventConfig(t, "p"))
	discard := func(*Output) {}
	apply(p, batches, discard)
	apply(q, single, discard)
	a := saved(t, p)
	b := saved(t, q)
	if !bytes.Equal(a, b) {
		t.Error("states differ")
	}
}

func TestRefusalsAreCountedAndExplained(t *testing.T) {
	p := New(eventConfig(t, "p"))
	at := midnight.Add(time.Hour)
	good := ingest.Request{ID: "1", Pool: "p", Class: "c", Attempt: 1, ArrivedAt: at, PromptTokens: 10, CachedTokens: -1, OutputTokens: 5, MaxOutputTokens: -1}
	with := func(change func(*ingest.Request)) ingest.Request { r := good; change(&r); return r }
	b := ingest.Batch{Requests: []ingest.Request{
		good,
		good,
		with(func(r *ingest.Request) { r.Attempt = 2 }),
		with(func(r *ingest.Request) { r.ID, r.Pool = "2", "other" }),
		with(func(r *ingest.Request) { r.ID, r.ArrivedAt = "3", at.Add(48*time.Hour) }),
		with(func(r *ingest.Request) { r.ID, r.ArrivedAt = "4", at.Add(-48*time.Hour) }),
		with(func(r *ingest.Request) { r.ID = "5" }),
	}}
	p.Apply(&b, func(*Output) {})
	var got []ingest.Reason
	for _, r := range b.Refused {
		got = append(got, r.Reason)
		if r.Detail == "" {
			t.Errorf("%s has no detail", r.Reason)
		}
	}
	if diff := cmp.Diff([]ingest.Reason{ingest.ReasonDuplicate, ingest.ReasonUnknownPool, ingest.ReasonFuture, ingest.ReasonLate}, got); diff != "" {
		t.Error(diff)
	}
	c := p.Counters()
	if c.Records != 3 || c.Refused[ingest.ReasonDuplicate] != 1 || c.Refused[ingest.ReasonLate] != 1 {
		t.Errorf("counters %+v", c)
	}
}

// TestDefaultPoolIsBounded: names nobody configured get a pool of their own until there are too many.
func TestDefaultPoolIsBounded(t *testing.T) {
	cfg := eventConfig(t)
	d := testPool(t, "template")
	cfg.DefaultPool, cfg.MaxPools = &d, 3
	p := New(cfg)
	var b ingest.Batch
	for i := range 5 {
		b.Requests = append(b.Requests, ingest.Request{Pool: fmt.Sprint("pool", i), ArrivedAt: midnight, PromptTokens: 1, CachedTokens: -1, OutputTokens: -1, MaxOutputTokens: -1})
	}
	p.Apply(&b, func(*Output) {})
	if len(b.Refused) != 2 || len(p.pools) != 3 {
		t.Errorf("%d refused, %d pools", len(b.Refused), len(p.pools))
	}
}

// TestOneDecidingTickPerWatermarkOnTheWallClock: after an hour of silence the log goes on with one decision, not sixty,
// and learns of every minute.
func TestOneDecidingTickPerWatermarkOnTheWallClock(t *testing.T) {
	cfg := eventConfig(t, "p")
	cfg.Clock = WallClock
	p := New(cfg)
	var ticks, decided int
	count := func(o *Output) { ticks++; decided += len(o.Decisions) }
	tick := func(m int) {
		at := midnight.Add(time.Duration(m) * time.Minute)
		p.Apply(&ingest.Batch{ReceivedAt: at.Add(time.Second), Watermark: &ingest.Watermark{At: at}}, count)
	}
	request := func(m int) {
		at := midnight.Add(time.Duration(m) * time.Minute)
		p.Apply(&ingest.Batch{ReceivedAt: at, Requests: []ingest.Request{{Pool: "p", ArrivedAt: at.Add(-time.Second), PromptTokens: 1000, CachedTokens: -1, OutputTokens: 10, MaxOutputTokens: -1}}}, count)
	}
	for m := 1; m <= 10; m++ {
		request(m)
		tick(m)
	}
	if ticks != 10 || decided != 10 {
		t.Fatalf("%d ticks, %d decisions in ten minutes", ticks, decided)
	}
	tick(70)
	if ticks != 70 || decided != 11 {
		t.Errorf("%d ticks, %d decisions after an hour's silence", ticks, decided)
	}
	tick(69)
	tick(70)
	if ticks != 70 {
		t.Error("time went back, or stood still and ticked")
	}
	// A watermark from the future is no time.
	b := ingest.Batch{ReceivedAt: midnight.Add(71 * time.Minute), Watermark: &ingest.Watermark{At: midnight.Add(1000 * time.Minute)}}
	p.Apply(&b, count)
	if ticks != 70 || len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonFuture {
		t.Errorf("%d ticks, refused %v", ticks, b.Refused)
	}
}

// TestEventClockNeedsMoreThanOneWitness: a lone record from next week does not move time, traffic from next week does.
func TestEventClockNeedsMoreThanOneWitness(t *testing.T) {
	p := New(eventConfig(t, "p"))
	n := 0
	send := func(at time.Time) int {
		n++
		b := ingest.Batch{Requests: []ingest.Request{{ID: fmt.Sprint(n), Pool: "p", ArrivedAt: at, PromptTokens: 1, CachedTokens: -1, OutputTokens: -1, MaxOutputTokens: -1}}}
		p.Apply(&b, func(*Output) {})
		return len(b.Refused)
	}
	send(midnight)
	// Records that good ones come between do not move time, however near or far.
	for _, ahead := range []time.Duration{12 * time.Minute, time.Hour, 7 * 24 * time.Hour} {
		for i := range 2 * leapConfirm {
			if send(midnight.Add(ahead)) != 1 {
				t.Fatalf("a record %s ahead was taken", ahead)
			}
			if i%(leapConfirm-1) == leapConfirm-2 && send(midnight.Add(5*time.Second)) != 0 {
				t.Fatal("a good record was refused")
			}
		}
		send(midnight.Add(5 * time.Second))
	}
	if !p.LastTick().Equal(midnight) {
		t.Fatalf("single records moved the clock to %s", p.LastTick())
	}
	week := midnight.Add(7 * 24 * time.Hour)
	refused := 0
	for i := range 20 {
		refused += send(week.Add(time.Duration(i) * time.Second))
	}
	if refused != leapConfirm-1 || !p.LastTick().Equal(week) {
		t.Errorf("%d refused, clock at %s", refused, p.LastTick())
	}
}

// TestALeapWithinTheReviseSpanLosesNothing: what moves time too far by less than can be amended makes nothing late.
func TestALeapWithinTheReviseSpanLosesNothing(t *testing.T) {
	p := New(eventConfig(t, "p"))
	for i, at := range []time.Duration{0, 9 * time.Minute, 10 * time.Second, time.Minute, 5 * time.Minute} {
		b := ingest.Batch{Requests: []ingest.Request{{ID: fmt.Sprint(i), Pool: "p", ArrivedAt: midnight.Add(at), PromptTokens: 1, CachedTokens: -1, OutputTokens: -1, MaxOutputTokens: -1}}}
		p.Apply(&b, func(*Output) {})
		if len(b.Refused) != 0 {
			t.Errorf("a record of %s is refused as %s", at, b.Refused[0].Reason)
		}
	}
}

func TestRestoreRefusesWhatItCannotRead(t *testing.T) {
	p := New(eventConfig(t, "p"))
	apply(p, traffic(3, 5), func(*Output) {})
	good := saved(t, p)
	wall := eventConfig(t, "p")
	wall.Clock = WallClock
	for name, try := range map[string]func() error{
		"garbage":   func() error { _, err := Restore(eventConfig(t, "p"), bytes.NewReader([]byte("nothing"))); return err },
		"truncated": func() error { _, err := Restore(eventConfig(t, "p"), bytes.NewReader(good[:len(good)/2])); return err },
		"clock":     func() error { _, err := Restore(wall, bytes.NewReader(good)); return err },
	} {
		if try() == nil {
			t.Errorf("%s: taken over", name)
		}
	}
	// A pool that is no longer configured is forgotten and does no harm.
	q, err := Restore(eventConfig(t, "new"), bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	apply(q, traffic(3, 10)[5:], func(*Output) {})
}
