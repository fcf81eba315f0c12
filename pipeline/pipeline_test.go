package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// oneRequest is a request of pool p without class and id.
func oneRequest(at time.Time) []ingest.Request {
	return []ingest.Request{{
		Pool: "p", ArrivedAt: at, PromptTokens: 1000, CachedTokens: ingest.Unknown, OutputTokens: 10, MaxOutputTokens: ingest.Unknown,
	}}
}

// apply applies copies of batches, so that the same ones can be applied again.
func apply(p *Pipeline, batches []ingest.Batch, emit func(*Output)) {
	for _, b := range batches {
		b.Requests, b.Refused = slices.Clone(b.Requests), nil
		p.Apply(&b, emit)
	}
}

// TestBatching: the state is the same whether each message has one record or many.
func TestBatching(t *testing.T) {
	cfg, single := mixedConfig(t, EventClock), mixedLog(2, 40)
	var joined []ingest.Batch
	for _, b := range single {
		last := len(joined) - 1
		if last >= 0 && len(b.Requests) > 0 && len(joined[last].Requests) > 0 && joined[last].Source == b.Source {
			joined[last].Requests, joined[last].Sequence = append(slices.Clip(joined[last].Requests), b.Requests...), b.Sequence
			continue
		}
		joined = append(joined, b)
	}
	p, q := New(cfg), New(cfg)
	apply(p, single, func(*Output) {})
	apply(q, joined, func(*Output) {})
	if len(joined) > len(single)/2+len(single)/3 || !bytes.Equal(saved(t, p), saved(t, q)) {
		t.Errorf("states differ, or nothing is joined: %d batches of %d", len(joined), len(single))
	}
}

func TestRefusals(t *testing.T) {
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

// TestDefaultPool: a pool that is not configured gets the default configuration, up to max_pools.
func TestDefaultPool(t *testing.T) {
	cfg := eventConfig(t)
	d := testPool(t, "template")
	cfg.DefaultPool, cfg.MaxPools = &d, 3
	p := New(cfg)
	var b ingest.Batch
	for i := range 5 {
		b.Requests = append(b.Requests, ingest.Request{Pool: fmt.Sprint("pool", i), ArrivedAt: midnight, PromptTokens: 1, CachedTokens: -1, OutputTokens: -1, MaxOutputTokens: -1})
	}
	p.Apply(&b, func(*Output) {})
	if len(b.Refused) != 2 || len(p.pools) != 3 || !strings.Contains(b.Refused[0].Detail, "max_pools is 3") {
		t.Errorf("refused %v, %d pools", b.Refused, len(p.pools))
	}
}

// TestSilentPoolsAreForgotten: pools of default_pool that are silent for class_ttl leave the places of max_pools and the
// state, also after a restart. A listed pool, one that still reports, and one whose past was loaded stay.
func TestSilentPoolsAreForgotten(t *testing.T) {
	cfg := eventConfig(t, "listed")
	cfg.DefaultPool, cfg.MaxPools, cfg.Features.ClassTTL = new(testPool(t, "template")), 5, time.Hour
	p := New(cfg)
	var last Output
	send := func(pool string, at time.Time) (refused int) {
		r := oneRequest(at)
		r[0].Pool = pool
		b := ingest.Batch{Requests: r}
		p.Apply(&b, func(o *Output) { last = *o })
		return len(b.Refused)
	}
	past := ingest.History{
		Pool: "past", Class: features.TotalClass, Dimension: features.DimRequests, Start: midnight.AddDate(0, 0, -1), Values: []float64{1},
	}
	p.Apply(&ingest.Batch{Histories: []ingest.History{past}}, func(*Output) {})
	for _, pool := range []string{"listed", "stays", "canary"} {
		send(pool, midnight)
	}
	send("late", midnight.Add(-time.Hour)) // refused
	if refused := send("new", midnight); refused == 0 {
		t.Error("more than max_pools")
	}
	for m := range 90 {
		send("stays", midnight.Add(time.Duration(m)*time.Minute))
		if m != 30 {
			continue
		}
		var state bytes.Buffer
		err := p.Encode(&state)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = Restore(cfg, &state); err != nil {
			t.Fatal(err)
		}
	}
	var names, models []string
	for _, e := range p.pools {
		names = append(names, e.Name)
	}
	for i := range last.Pools {
		models = append(models, last.Pools[i].Pool)
	}
	if want := []string{"listed", "past", "stays"}; !slices.Equal(names, want) || !slices.Equal(models, want) {
		t.Errorf("pools %q, with models %q", names, models)
	}
	if refused := send("new", midnight.Add(90*time.Minute)); refused > 0 {
		t.Error("the place of a forgotten pool is not free")
	}
	state, err := p.DecisionState("stays")
	resumed := New(cfg)
	for _, later := range []time.Duration{time.Hour, 0} { // of the log's newest decision
		err = errors.Join(err, resumed.Resume("stays", state, last.Tick.Add(later)))
		if taken := resumed.byName["stays"] != nil; taken != (later == 0) {
			t.Errorf("%s after its newest decision a pool is resumed: %t", later, taken)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// Requests without times hold memory for as long as the stated rates say, also in a pool of default_pool.
func TestServiceOfDefaultPool(t *testing.T) {
	cfg := eventConfig(t, "listed")
	cfg.Pools[0].ITL = 100 * time.Millisecond
	cfg.DefaultPool = new(cfg.Pools[0])
	var b ingest.Batch
	for _, pool := range []string{"listed", "other"} {
		b.Sums = append(b.Sums, ingest.Sum{Pool: pool, Class: "c", Start: midnight, Requests: 10, PromptTokens: 9000, CachedTokens: 0, OutputTokens: 2000})
	}
	b.Watermark = &ingest.Watermark{At: midnight.Add(time.Minute)}
	held := map[string]float64{}
	New(cfg).Apply(&b, func(o *Output) {
		for i := range o.Windows {
			held[o.Windows[i].Pool] += o.Windows[i].KVModelled
		}
	})
	if held["listed"] == 0 || held["listed"] != held["other"] {
		t.Errorf("token-seconds: %v", held)
	}
}

// TestRefusedRecordsAddNoPool: records that are refused, acknowledgements and watermarks leave the places of max_pools to
// pools that have telemetry. A replica report, a sum or a history is the first record of a pool.
func TestRefusedRecordsAddNoPool(t *testing.T) {
	cfg := eventConfig(t)
	d := testPool(t, "template")
	cfg.DefaultPool, cfg.MaxPools = &d, 4
	p := New(cfg)
	request := func(pool string, at time.Time) []ingest.Request {
		r := oneRequest(at)
		r[0].Pool = pool
		return r
	}
	future := midnight.Add(48 * time.Hour)
	nameless := request("e", midnight)
	nameless[0].Phase = ingest.PhaseArrived
	for i, step := range []struct {
		b      ingest.Batch
		reason ingest.Reason
		pools  int
	}{
		{ingest.Batch{Requests: request("served", midnight)}, "", 1},
		{ingest.Batch{Requests: request("a", future)}, ingest.ReasonFuture, 1},
		{ingest.Batch{Sums: []ingest.Sum{{Pool: "b", Start: future}}}, ingest.ReasonFuture, 1},
		{ingest.Batch{Replicas: []ingest.Replica{{Pool: "c", Name: "r", At: future}}}, ingest.ReasonFuture, 1},
		{ingest.Batch{Acks: []ingest.Ack{{Pool: "d", Generation: 1, Stage: ingest.AckReady, At: midnight}}}, ingest.ReasonUnknownEvent, 1},
		{ingest.Batch{Requests: nameless}, ingest.ReasonMissingField, 1},
		{ingest.Batch{Histories: []ingest.History{{Pool: "f", Class: features.TotalClass, Dimension: "nothing", Start: midnight.AddDate(0, 0, -1), Values: []float64{1}}}}, ingest.ReasonNoHistory, 1},
		{ingest.Batch{Watermark: &ingest.Watermark{Pool: "g", At: midnight.Add(time.Minute)}}, "", 1},
		{ingest.Batch{Replicas: []ingest.Replica{{Pool: "reports", Name: "r", At: midnight}}}, "", 2},
		{ingest.Batch{Sums: []ingest.Sum{{Pool: "sums", Start: midnight, Requests: 1}}}, "", 3},
		{ingest.Batch{Histories: []ingest.History{{Pool: "past", Class: features.TotalClass, Dimension: features.DimRequests, Start: midnight.AddDate(0, 0, -1), Values: []float64{1}}}}, "", 4},
		{ingest.Batch{Requests: request("z", midnight)}, ingest.ReasonUnknownPool, 4},
		{ingest.Batch{Watermark: &ingest.Watermark{Pool: "z", At: midnight.Add(2 * time.Minute)}}, ingest.ReasonUnknownPool, 4},
		{ingest.Batch{Acks: []ingest.Ack{{Pool: "z", Generation: 1, At: midnight}}}, ingest.ReasonUnknownPool, 4},
		{ingest.Batch{Watermark: &ingest.Watermark{Pool: "sums", At: midnight.Add(2 * time.Minute)}}, "", 4},
	} {
		p.Apply(&step.b, func(*Output) {})
		var reason ingest.Reason
		for _, r := range step.b.Refused {
			reason = r.Reason
		}
		if reason != step.reason || len(p.pools) != step.pools {
			t.Errorf("step %d: refused as %q, %d pools; want %q, %d", i, reason, len(p.pools), step.reason, step.pools)
		}
	}
	if want := midnight.Add(2 * time.Minute); !p.LastTick().Equal(want) {
		t.Errorf("the last tick is %s, want %s: watermarks of all pools move time", p.LastTick(), want)
	}
}

// TestWatermarksOfTwoPools: on the event clock the watermark of one pool does not end a minute whose records of another
// pool come a moment later. One that fell silent is not waited for longer than the lateness.
func TestWatermarksOfTwoPools(t *testing.T) {
	cfg := eventConfig(t, "p", "q")
	cfg.Features.Lateness = 10 * time.Second
	p := New(cfg)
	const last = 10 // minute with records of q
	ticks := 0
	emit := func(o *Output) {
		ticks++
		for i := range o.Minutes {
			if m := &o.Minutes[i]; !m.Covered && m.Start.Before(midnight.Add(last*time.Minute)) && m.Start.After(midnight) {
				t.Errorf("the minute %s of %s counts as one without telemetry", m.Start.Format(time.TimeOnly), m.Pool)
			}
		}
	}
	const minutes = 20
	for m := range minutes {
		start, end := midnight.Add(time.Duration(m)*time.Minute), midnight.Add(time.Duration(m+1)*time.Minute)
		for _, pool := range []string{"p", "q"} {
			if pool == "q" && m >= last {
				continue
			}
			requests := oneRequest(start.Add(30 * time.Second))
			requests[0].Pool = pool
			p.Apply(&ingest.Batch{Requests: requests}, emit)
			p.Apply(&ingest.Batch{Watermark: &ingest.Watermark{Pool: pool, At: end}}, emit)
		}
	}
	if ticks != minutes {
		t.Errorf("%d ticks, want one for each of %d minutes", ticks, minutes)
	}
}

// TestTicksOnWallClock: each watermark has one decision. A watermark after an hour of silence has a tick for each
// minute. Watermarks that are old or in the future have none.
func TestTicksOnWallClock(t *testing.T) {
	cfg := eventConfig(t, "p")
	cfg.Clock = WallClock
	p := New(cfg)
	var ticks, decided int
	count := func(o *Output) { ticks++; decided += len(o.Decisions()) }
	tick := func(m int) {
		at := midnight.Add(time.Duration(m) * time.Minute)
		p.Apply(&ingest.Batch{ReceivedAt: at.Add(time.Second), Watermark: &ingest.Watermark{At: at}}, count)
	}
	request := func(m int) {
		at := midnight.Add(time.Duration(m) * time.Minute)
		p.Apply(&ingest.Batch{ReceivedAt: at, Requests: oneRequest(at.Add(-time.Second))}, count)
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
		t.Error("there was a tick for an old watermark")
	}
	// A watermark from the future is refused.
	b := ingest.Batch{ReceivedAt: midnight.Add(71 * time.Minute), Watermark: &ingest.Watermark{At: midnight.Add(1000 * time.Minute)}}
	p.Apply(&b, count)
	if ticks != 70 || len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonFuture {
		t.Errorf("%d ticks, refused %v", ticks, b.Refused)
	}
}

// TestEventClockLeap: single records far ahead do not move the clock. Several in a row do.
func TestEventClockLeap(t *testing.T) {
	p := New(eventConfig(t, "p"))
	send := func(at time.Time) int {
		b := ingest.Batch{Requests: oneRequest(at)}
		p.Apply(&b, func(*Output) {})
		return len(b.Refused)
	}
	send(midnight)
	// Records far ahead do not move the clock if records of the present come between them.
	for _, ahead := range []time.Duration{12 * time.Minute, time.Hour, 7 * 24 * time.Hour} {
		for i := range 2 * leapConfirm {
			if send(midnight.Add(ahead)) != 1 {
				t.Fatalf("a record %s ahead was accepted", ahead)
			}
			if i%(leapConfirm-1) == leapConfirm-2 && send(midnight.Add(5*time.Second)) != 0 {
				t.Fatal("a record of the present was refused")
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

// TestEventClockSmallLeap: after a record that is ahead by less than the revise span, no record is refused as late.
func TestEventClockSmallLeap(t *testing.T) {
	p := New(eventConfig(t, "p"))
	for _, at := range []time.Duration{0, 9 * time.Minute, 10 * time.Second, time.Minute, 5 * time.Minute} {
		b := ingest.Batch{Requests: oneRequest(midnight.Add(at))}
		p.Apply(&b, func(*Output) {})
		if len(b.Refused) != 0 {
			t.Errorf("a record at %s is refused as %s", at, b.Refused[0].Reason)
		}
	}
}

// A damaged snapshot and one with another clock are refused. A pool that is no longer configured is forgotten.
func TestRestore(t *testing.T) {
	p, log := New(eventConfig(t, "p")), mixedLog(3, 10)
	apply(p, log[:len(log)/2], func(*Output) {})
	good, wall := saved(t, p), eventConfig(t, "p")
	wall.Clock = WallClock
	for name, x := range map[string]struct {
		cfg      Config
		snapshot []byte
	}{
		"garbage":   {eventConfig(t, "p"), []byte("nothing")},
		"truncated": {eventConfig(t, "p"), good[:len(good)/2]},
		"clock":     {wall, good},
	} {
		if _, err := Restore(x.cfg, bytes.NewReader(x.snapshot)); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
	// A pool that is no longer configured is in no output.
	q, err := Restore(eventConfig(t, "new"), bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	apply(q, log[len(log)/2:], func(o *Output) {
		if len(o.Pools) > 0 {
			t.Errorf("%s: an output of %d pools", o.Tick, len(o.Pools))
		}
	})
}
