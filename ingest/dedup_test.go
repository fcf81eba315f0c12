package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDeduperDistinguishesRecords(t *testing.T) {
	type record struct {
		pool, id string
		attempt  int
		phase    Phase
	}
	d := NewDeduper(100)
	for _, r := range []record{
		{"p", "1", 1, PhaseFinished}, {"p", "1", 1, PhaseArrived}, {"p", "1", 2, PhaseFinished}, {"q", "1", 1, PhaseFinished},
		{"p1", "", 1, PhaseFinished}, {"", "p1", 1, PhaseFinished}, {"p", "11", 1, PhaseFinished}, {"p1", "1", 1, PhaseFinished},
	} {
		if d.Known(r.pool, r.id, r.attempt, r.phase) || d.Seen(r.pool, r.id, r.attempt, r.phase) {
			t.Errorf("%+v is new, but counts as seen", r)
		}
		if known := d.Known(r.pool, r.id, r.attempt, r.phase); known != (r.id != "") {
			t.Errorf("%+v: known %v after it was seen", r, known)
		}
		if want := r.id != ""; d.Seen(r.pool, r.id, r.attempt, r.phase) != want {
			t.Errorf("%+v: seen again: got %v, want %v", r, !want, want)
		}
	}
}

func TestDeduperForgetsTheOldestHalf(t *testing.T) {
	const capacity = 10
	d := NewDeduper(capacity)
	seen := func(i int) bool { return d.Seen("p", fmt.Sprint(i), 1, PhaseFinished) }
	for i := range 1000 {
		if seen(i) {
			t.Fatalf("%d is new, but counts as seen", i)
		}
		if (len(d.current) + len(d.previous)) > capacity {
			t.Fatalf("%d: remembers %d, more than %d", i, (len(d.current) + len(d.previous)), capacity)
		}
	}
	if d.Forgotten+uint64((len(d.current)+len(d.previous))) != 1000 {
		t.Errorf("forgot %d and remembers %d of 1000", d.Forgotten, (len(d.current) + len(d.previous)))
	}
	for i := 1000 - capacity/2; i < 1000; i++ {
		if !seen(i) {
			t.Errorf("%d: one of the latest %d is forgotten", i, capacity/2)
		}
	}
	if seen(0) {
		t.Error("0 is not forgotten")
	}
}

func TestDeduperStateIsRestored(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	whole := NewDeduper(64)
	cut := NewDeduper(64)
	for i := range 2000 {
		id := fmt.Sprint(random.IntN(120))
		if whole.Seen("p", id, 1, PhaseFinished) != cut.Seen("p", id, 1, PhaseFinished) {
			t.Fatalf("record %d: answers differ", i)
		}
		s := cut.State()
		if !slices.IsSorted(s.Current) || !slices.IsSorted(s.Previous) {
			t.Fatalf("record %d: state is not sorted", i)
		}
		cut = NewDeduper(64)
		cut.Restore(s)
	}
	if d := cmp.Diff(whole.State(), cut.State()); d != "" {
		t.Error(d)
	}
}

func TestDeduperAllocatesNothingWhenFull(t *testing.T) {
	d := NewDeduper(1000)
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	if n := testing.AllocsPerRun(3, func() {
		for _, id := range ids {
			d.Seen("p", id, 1, PhaseFinished)
		}
	}); n > 0 || d.Forgotten == 0 {
		t.Errorf("%g allocations for %d records, %d forgotten", n, len(ids), d.Forgotten)
	}
}

func BenchmarkDeduper(b *testing.B) {
	d := NewDeduper(1_000_000)
	ids := make([]string, 1<<16)
	for i := range ids {
		ids[i] = fmt.Sprintf("chatcmpl-%032d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Seen("llama-70b", ids[i%len(ids)], i/len(ids), PhaseFinished)
	}
}
