package forewarm

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// message is one of a simulated stream, with when it was stored.
type message struct {
	at    time.Time
	batch ingest.Batch
}

// ended are requests of two classes and four tenants over so many minutes, each one record when it ends.
func ended(seed uint64, minutes int) (out []message) {
	r := rand.New(rand.NewPCG(seed, 2))
	for m := range minutes {
		n := 60 + int(30*math.Sin(float64(m)/9)) + r.IntN(20)
		for i := range n {
			at := midnight.Add(time.Duration(m)*time.Minute + time.Duration(r.IntN(60_000))*time.Millisecond)
			q := ingest.Request{
				ID: fmt.Sprint(m, "-", i), Pool: "p", Class: []string{"chat", "agent"}[r.IntN(2)], Attempt: 1, Tenant: fmt.Sprint("t", r.IntN(4)), Session: uint64(1 + r.IntN(300)),
				ArrivedAt: at, FirstTokenAt: at.Add(time.Second), FinishedAt: at.Add(time.Duration(2000+r.IntN(70_000)) * time.Millisecond),
				PromptTokens: int64(200 + r.IntN(5000)), OutputTokens: int64(10 + r.IntN(900)), MaxOutputTokens: ingest.Unknown,
			}
			q.CachedTokens = q.PromptTokens / 3
			out = append(out, message{q.FinishedAt.Add(20 * time.Millisecond), ingest.Batch{Requests: []ingest.Request{q}}})
		}
	}
	slices.SortStableFunc(out, func(a, b message) int { return a.at.Compare(b.at) })
	return out
}

// clocked puts a watermark of each minute among messages, as a daemon on the wall clock does.
func clocked(c *Config, messages []message, minutes int) []message {
	out := slices.Clone(messages)
	if c.Clock == WallClock {
		for m := 1; m <= minutes; m++ {
			at := midnight.Add(time.Duration(m) * time.Minute)
			out = append(out, message{at.Add(c.Features.Lateness), ingest.Batch{Watermark: &ingest.Watermark{At: at}}})
		}
	}
	slices.SortStableFunc(out, func(a, b message) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	return out
}

// fold folds messages in the order of time. With a configuration of the wall clock, a watermark comes again when a tick has
// waited for its agents.
func fold(p *Pipeline, messages []message, c *Config, emit func(at time.Time, o *Output)) {
	var again message
	n := uint64(0)
	apply := func(m *message) {
		n++
		b := m.batch
		b.Sequence, b.ReceivedAt, b.Requests = n, m.at, slices.Clone(b.Requests)
		p.Apply(&b, func(o *Output) { emit(m.at, o) })
	}
	for i := range messages {
		m := &messages[i]
		if !again.at.IsZero() && !m.at.Before(again.at) {
			if !p.Held().IsZero() {
				apply(&again)
			}
			again.at = time.Time{}
		}
		apply(m)
		if c != nil && m.batch.Watermark != nil && 0 < c.AgentWait && c.AgentWait < time.Minute {
			again = message{m.at.Add(c.AgentWait), m.batch}
		}
	}
}

// edges sends requests through so many edges, dealt out by session, and is what they publish: as stored centrally, each so
// much later than published.
func edges(t testing.TB, c Config, requests []message, minutes int, delays ...time.Duration) (parts []message) {
	for i, delay := range delays {
		a := c
		a.Agent = fmt.Sprint("site-", i)
		var own []message
		for _, m := range requests {
			if m.batch.Requests[0].Session%uint64(len(delays)) == uint64(i) {
				own = append(own, m)
			}
		}
		fold(New(a), clocked(&a, own, minutes), nil, func(at time.Time, o *Output) {
			for j := range o.Parts {
				parts = append(parts, message{at.Add(delay), *decodePart(t, ingest.AppendProtobuf(nil, &o.Parts[j]), a.Agent)})
			}
		})
	}
	slices.SortStableFunc(parts, func(a, b message) int { return a.at.Compare(b.at) })
	return parts
}

// worst is by how much the quantiles of two forecasts differ at most, as a share.
func worst(t testing.TB, a, b *forecaster.PoolForecast) (most float64) {
	t.Helper()
	if a == nil || b == nil || len(a.Total) == 0 {
		t.Fatal("there is no forecast")
	}
	for i := range a.Total {
		f := &a.Total[i]
		g := b.Of(f.Dimension)
		if g == nil {
			t.Fatalf("no forecast of %s", f.Dimension)
		}
		for m := range f.Minute {
			for l, x := range f.Minute[m] {
				if x > 0 {
					most = max(most, math.Abs(g.Minute[m][l]/x-1))
				}
			}
		}
	}
	return most
}

// edgeConfig is the defaults with a pool.
func edgeConfig(t testing.TB, clock Clock) Config {
	c := DefaultConfig()
	c.Clock, c.Pools = clock, []capacity.Pool{testPool(t, "p")}
	return c
}

// TestEdgesForecastAlike: with defaults at every place, what agents publish gives the forecasts that the raw requests give, at
// the same minutes; on the event clock to the last bit of one agent's.
func TestEdgesForecastAlike(t *testing.T) {
	const minutes, at = 75, 70
	second := time.Second
	for name, tc := range map[string]struct {
		clock  Clock
		delays []time.Duration
		bound  float64
	}{
		"wall":                 {WallClock, []time.Duration{5 * time.Millisecond}, 0.01},
		"wall, slow link":      {WallClock, []time.Duration{25 * second}, 0.01},
		"wall, of three sites": {WallClock, []time.Duration{10 * time.Millisecond, 3 * second, 15 * second}, 0.02},
		"event":                {EventClock, []time.Duration{5 * time.Millisecond}, 1e-9},
		"event, three sites":   {EventClock, []time.Duration{10 * time.Millisecond, 3 * second, 15 * second}, 0.04}, // each site's clock stands between its own records
	} {
		t.Run(name, func(t *testing.T) {
			c := edgeConfig(t, tc.clock)
			requests := ended(3, minutes)
			forecast := func(messages []message) (at70 *forecaster.PoolForecast, p *Pipeline) {
				p = New(c)
				fold(p, clocked(&c, messages, minutes), &c, func(_ time.Time, o *Output) {
					if o.Tick.Equal(midnight.Add(at * time.Minute)) {
						at70 = &slices.Clone(o.Forecasts)[0]
					}
				})
				return at70, p
			}
			raw, _ := forecast(requests)
			edged, p := forecast(edges(t, c, requests, minutes, tc.delays...))
			if d := worst(t, raw, edged); d > tc.bound {
				t.Errorf("quantiles differ by up to %.2g of those of raw requests, want %.2g", d, tc.bound)
			}
			if n := p.Omissions().WindowsLate; n > 0 {
				t.Errorf("%d windows came late", n)
			}
		})
	}
}

// TestCentreWaitsForEdges: a minute waits for the agents that kept step, no longer than it says and no longer than the next,
// and once for one that is gone. What comes later is counted.
func TestCentreWaitsForEdges(t *testing.T) {
	const minutes = 40
	run := func(wait time.Duration, change func(*message) bool) (ticked map[int]time.Duration, decided, known int, p *Pipeline) {
		c := edgeConfig(t, WallClock)
		c.AgentWait = wait
		var parts []message
		for _, m := range edges(t, c, ended(5, minutes), minutes, time.Second, 2*time.Second) {
			if change(&m) {
				parts = append(parts, m)
			}
		}
		slices.SortStableFunc(parts, func(a, b message) int { return a.at.Compare(b.at) })
		ticked, p = map[int]time.Duration{}, New(c)
		fold(p, clocked(&c, parts, minutes), &c, func(at time.Time, o *Output) {
			m := int(o.Tick.Sub(midnight) / time.Minute)
			ticked[m] = at.Sub(o.Tick)
			decided += len(o.Decisions)
			if len(o.Forecasts) > 0 && o.Forecasts[0].Of("prefill") != nil {
				known = o.Forecasts[0].Of("prefill").Known
			}
		})
		return ticked, decided, known, p
	}
	second := time.Second
	gone := midnight.Add(20 * time.Minute)
	for name, tc := range map[string]struct {
		wait   time.Duration
		change func(*message) bool
		want   map[int]time.Duration // after the end of its minute
		late   [2]uint64             // from, to
	}{
		"both in time": {30 * second, func(*message) bool { return true }, map[int]time.Duration{15: 12 * second, 30: 12 * second}, [2]uint64{0, 4}},
		"not waiting":  {0, func(*message) bool { return true }, map[int]time.Duration{15: 10 * second, 30: 10 * second}, [2]uint64{120, 160}},
		"one is gone":  {30 * second, func(m *message) bool { return m.batch.Part.Agent == "site-0" || m.at.Before(gone) }, map[int]time.Duration{19: 12 * second, 20: 40 * second, 21: 11 * second, 30: 11 * second}, [2]uint64{0, 4}},
		"one is slow": {30 * second, func(m *message) bool {
			if m.batch.Part.Agent == "site-1" && !m.at.Before(gone) {
				m.at = m.at.Add(43 * second) // 45 s after the watermark
			}
			return true
		}, map[int]time.Duration{19: 12 * second, 20: 40 * second, 30: 40 * second}, [2]uint64{36, 46}},
		"until the next": {time.Minute, func(m *message) bool { return m.batch.Part.Agent == "site-0" || m.at.Before(gone) }, map[int]time.Duration{19: 12 * second, 20: 70 * second, 21: 11 * second}, [2]uint64{0, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			ticked, decided, known, p := run(tc.wait, tc.change)
			for m, want := range tc.want {
				if got := ticked[m]; got != want {
					t.Errorf("tick %d came %s after its minute, want %s", m, got, want)
				}
			}
			if n := p.Omissions().WindowsLate; n < tc.late[0] || n > tc.late[1] {
				t.Errorf("%d windows late, want %d to %d", n, tc.late[0], tc.late[1])
			}
			if known < minutes-5 {
				t.Errorf("forecasts know %d of %d minutes", known, minutes)
			}
			if len(ticked) < minutes-1 || decided < minutes-2 {
				t.Errorf("%d ticks and %d decisions in %d minutes", len(ticked), decided, minutes)
			}
		})
	}
}

// TestWaitingIsExact: a snapshot taken while a tick waits goes on waiting, and the fold goes on to the same bytes.
func TestWaitingIsExact(t *testing.T) {
	const minutes = 30
	for _, clock := range []Clock{WallClock, EventClock} {
		c := edgeConfig(t, clock)
		messages := clocked(&c, edges(t, c, ended(7, minutes), minutes, time.Second, 2*time.Second), minutes)
		var want, got []string
		whole, p := New(c), New(c)
		note, held := summary(&want), 0
		fold(whole, messages, nil, func(_ time.Time, o *Output) { note(o) })
		note = summary(&got)
		for i := range messages {
			b := messages[i].batch
			b.Sequence, b.ReceivedAt = uint64(i+1), messages[i].at
			p.Apply(&b, note)
			if i%7 == 0 || !p.Held().IsZero() {
				if !p.Held().IsZero() {
					held++
				}
				p = reborn(t, c, p)
			}
		}
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", clock, d)
		}
		if held < 10 {
			t.Errorf("%s: a tick waited at %d messages only", clock, held)
		}
		if !bytes.Equal(saved(t, whole), saved(t, p)) {
			t.Errorf("%s: the final state differs", clock)
		}
	}
}

// TestSilentEdgesSaySo: an agent without traffic tells that, under numbers that do not depend on it, and nothing waits for it.
func TestSilentEdgesSaySo(t *testing.T) {
	const minutes = 30
	c := edgeConfig(t, WallClock)
	var requests []message
	for _, m := range ended(9, minutes) {
		if at := m.batch.Requests[0].ArrivedAt.Sub(midnight); at < 5*time.Minute || at > 20*time.Minute {
			m.batch.Requests[0].Session = 0 // which would be told of as long as it may go on
			requests = append(requests, m)
		}
	}
	parts := edges(t, c, requests, minutes, time.Second)
	sequence, silent := uint64(0), 0
	for i := range parts {
		b := &parts[i].batch
		if len(b.Windows)+len(b.Minutes) == 0 {
			silent++
		} else if sequence++; b.Part.Sequence != sequence {
			t.Fatalf("part %d is numbered %d", sequence, b.Part.Sequence)
		}
	}
	if silent < 10 {
		t.Errorf("%d messages of a silent agent", silent)
	}
	p := New(c)
	fold(p, clocked(&c, parts, minutes), &c, func(at time.Time, o *Output) {
		if late := at.Sub(o.Tick); late > 11*time.Second {
			t.Errorf("tick %s came after %s", o.Tick, late)
		}
	})
	if n := p.Counters().Refused[ingest.ReasonDuplicate]; n != 0 || p.Omissions().PartsMissing != 0 {
		t.Errorf("%d messages were refused, %d parts are missing", n, p.Omissions().PartsMissing)
	}
	// Who knows the time better than the stream is not believed, whatever it says.
	b := ingest.Batch{ReceivedAt: midnight.Add(minutes * time.Minute), Part: new(*parts[len(parts)-1].batch.Part)}
	b.Part.At = midnight.Add(24 * time.Hour)
	p.Apply(&b, func(*Output) { t.Error("it moved time") })
	if len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonFuture {
		t.Errorf("%+v", b.Refused)
	}
}
