package features

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/ingest"
)

func inSession(id uint64) func(*ingest.Request) { return func(r *ingest.Request) { r.Session = id } }

// turn is a request of a session that arrives and ends at given seconds.
func turn(session uint64, arrived, ended float64, prompt, cached, output int64) *ingest.Request {
	return changed(request("", arrived), inSession(session), tokens(prompt, cached, output), times(arrived, arrived, ended))
}

// sessionsAt closes minute after minute and returns the summary of chat in the last one.
func sessionsAt(t *testing.T, a *Aggregator, from, n int) *Sessions {
	t.Helper()
	var h history
	h.closeUntil(t, a, from, n)
	return h.window(t, "chat", n-1).Sessions
}

var withoutAges = cmpopts.IgnoreFields(Sessions{}, "ByAge", "Begun") // see TestSessionsByAge

func TestSessions(t *testing.T) {
	a := New(testConfig()) // five minutes of silence end a session
	mustAdd(t, a,
		turn(1, 0, 10, 100, 0, 20),
		turn(1, 20, 30, 150, 100, 50), // 10 s after the end of the first
		turn(2, 30, 40, 1000, ingest.Unknown, 100),
		request("", 50), // of no session
	)
	want := &Sessions{
		Active: 2, Started: 2, AgeMean: (60 + 30) / 2.0, TurnMean: 1.5, ContextSum: 200 + 1100, ContextMax: 1100,
		CachedShare: 100.0 / 150, GrowthMean: 80, GapMean: 10,
	}
	if diff := cmp.Diff(want, sessionsAt(t, a, 1, 1), about, withoutAges); diff != "" {
		t.Errorf("after a minute (-want +got):\n%s", diff)
	}
	mustAdd(t, a, turn(1, 90, 100, 300, 200, 0))
	want = &Sessions{
		Active: 2, AgeMean: (120 + 90) / 2.0, TurnMean: 2, ContextSum: 300 + 1100, ContextMax: 1100,
		CachedShare: 200.0 / 300, GrowthMean: (300 - 120) / 2.0, GapMean: 60,
	}
	if diff := cmp.Diff(want, sessionsAt(t, a, 2, 2), about, withoutAges); diff != "" {
		t.Errorf("after two minutes (-want +got):\n%s", diff)
	}
	// The second ended at 0:40, so it has fallen silent by 5:40; the first at 1:40.
	got := sessionsAt(t, a, 3, 6)
	if got.Active != 1 || got.Ended != 1 || !math.IsNaN(got.GapMean) {
		t.Errorf("after six minutes: %+v", got)
	}
	if got = sessionsAt(t, a, 7, 7); got.Active != 0 || got.Ended != 1 || !math.IsNaN(got.AgeMean) {
		t.Errorf("after seven minutes: %+v", got)
	}
	if got = sessionsAt(t, a, 8, 8); got != nil {
		t.Errorf("when all is over: %+v", got)
	}
}

// A request that is reported at its arrival and at its end is one turn, and its end tells the context.
func TestSessionOfRequestsInTwoRecords(t *testing.T) {
	a := New(testConfig())
	r := changed(request("a", 0), inSession(1), tokens(500, ingest.Unknown, ingest.Unknown), phase(ingest.PhaseArrived))
	mustAdd(t, a, r)
	if got := sessionsAt(t, a, 1, 1); got.TurnMean != 1 || got.ContextSum != 500 || !math.IsNaN(got.CachedShare) {
		t.Errorf("on arrival: %+v", got)
	}
	mustAdd(t, a, changed(r, phase(ingest.PhaseFinished), tokens(500, 250, 80), times(0, 5, 70)))
	if got := sessionsAt(t, a, 2, 2); got.TurnMean != 1 || got.ContextSum != 580 || got.CachedShare != .5 || got.Started != 0 {
		t.Errorf("at the end: %+v", got)
	}
}

// An agent's parallel calls, and records that come late, do not take the context back.
func TestSessionContextIsOfTheTurnThatBeganLast(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, turn(1, 0, 50, 100, 0, 20), turn(1, 10, 20, 5000, 0, 20), changed(turn(1, 5, 55, 300, 0, 20), ofClass("side")))
	if got := sessionsAt(t, a, 1, 1); got.ContextSum != 5020 || got.TurnMean != 3 || !math.IsNaN(got.GapMean) {
		t.Errorf("%+v", got)
	}
}

func TestSessionsAreOfAPoolAndOfTheirNewestClass(t *testing.T) {
	a := New(testConfig())
	other := turn(1, 2, 3, 100, 0, 20)
	other.Pool = "q"
	mustAdd(t, a, turn(1, 0, 1, 100, 0, 20), other, changed(turn(1, 10, 11, 100, 0, 20), ofClass("agent")))
	windows, _ := a.Close(at(60))
	got := map[Key]Sessions{}
	for _, w := range windows {
		if w.Sessions != nil {
			got[w.Key] = *w.Sessions
		}
	}
	if n := got[Key{"p", "agent"}]; n.Active != 1 || n.Started != 0 || n.TurnMean != 2 {
		t.Errorf("the class of the newest turn: %+v", n)
	}
	if n := got[Key{"p", "chat"}]; n.Active != 0 || n.Started != 1 {
		t.Errorf("the class it left: %+v", n)
	}
	if n := got[Key{"q", "chat"}]; n.Active != 1 || n.Started != 1 || n.TurnMean != 1 {
		t.Errorf("the same session in another pool: %+v", n)
	}
}

func TestSessionsBeyondTheBound(t *testing.T) {
	a := New(testConfig()) // at most 8
	for i := range 8 {
		mustAdd(t, a, turn(uint64(i+1), float64(i), float64(i), 10, 0, 1))
	}
	mustAdd(t, a, turn(1, 9, 9, 10, 0, 1), turn(99, 10, 10, 10, 0, 1)) // 2 was silent longest
	got := sessionsAt(t, a, 1, 1)
	if n := a.Counters().SessionsEvicted; got.Active != 8 || n != 1 {
		t.Errorf("%d sessions, %d evicted; want 8 and 1", got.Active, n)
	}
	p := a.known("p")
	if a.sessions.find(2^p.seed) != nil || a.sessions.find(1^p.seed) == nil {
		t.Error("another one than the one that was silent longest was forgotten")
	}
}

func TestSessionsGoWithTheirClass(t *testing.T) {
	cfg := testConfig()
	cfg.SessionTTL = 48 * 60 * Minute // longer than the class is kept
	a := New(cfg)
	mustAdd(t, a, turn(1, 0, 10, 100, 0, 20))
	sessionsAt(t, a, 1, 1)
	for m := 2; m < 8*60; m++ {
		a.Close(at(float64(m) * 60))
	}
	if a.Counters().ClassesEvicted != 1 || a.sessions.count != 0 {
		t.Errorf("%d classes evicted, %d sessions left", a.Counters().ClassesEvicted, a.sessions.count)
	}
}

// The table against a plain list, oldest first.
func TestSessionTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		table := newSessionTable(capacity)
		var model []uint64
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			id := uint64(rapid.IntRange(0, 40).Draw(t, "id")) << 32 // all low bits alike
			at := slices.Index(model, id)
			s := table.find(id)
			if (s != nil) != (at >= 0) {
				t.Fatalf("%x found: %t, want %t", id, s != nil, at >= 0)
			}
			switch {
			case s == nil:
				if _, evicted := table.add(id); evicted != (len(model) == capacity) {
					t.Fatalf("evicted: %t with %d of %d", evicted, len(model), capacity)
				} else if evicted {
					model = model[1:]
				}
				model = append(model, id)
			case rapid.Bool().Draw(t, "remove"):
				table.remove(s)
				model = slices.Delete(model, at, at+1)
			default:
				table.touch(s)
				model = append(slices.Delete(model, at, at+1), id)
			}
			var got []uint64
			for pos := table.oldest; pos != 0; pos = table.entries[pos].newer {
				got = append(got, table.entries[pos].id)
			}
			if !slices.Equal(got, model) || table.count != len(model) || len(table.entries) > capacity+1 {
				t.Fatalf("%x, want %x; %d entries", got, model, len(table.entries))
			}
		}
	})
}

func TestSessionsAllocateNothing(t *testing.T) {
	cfg := testConfig()
	cfg.MaxSessions = 1000
	a := New(cfg)
	r := turn(1, 0, 1, 100, 0, 20)
	n := uint64(0)
	visit := func() {
		n++
		r.Session = n * n % 3000
		if a.AddRequest(r) != "" {
			t.Fatal("refused")
		}
	}
	for range 5000 {
		visit()
	}
	if allocs := testing.AllocsPerRun(1000, visit); allocs > 0 {
		t.Errorf("%v allocations a record", allocs)
	}
}

func BenchmarkSessionVisit(b *testing.B) {
	a := New(DefaultConfig())
	r := turn(1, 0, 1, 100, 0, 20)
	mustAdd(b, a, r)
	p, t := a.known("p"), momentsOf(r)
	c := p.classes[0]
	b.ReportAllocs()
	for i := range b.N {
		r.Session = uint64(i%80000) * 0x9e3779b97f4a7c15 // more than there is room for
		a.visit(p, c, r, &t, true, true)
	}
}
