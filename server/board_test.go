package server

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/pipeline"
)

func requests(class string, start time.Time, n float64) features.Window {
	return features.Window{Key: features.Key{Pool: "chat", Class: class}, Start: start, Covered: true, Requests: n, RequestsKnown: n}
}

func observed(t *testing.T, b *Board, dimension string) []float64 {
	t.Helper()
	pools := b.Pools()
	if len(pools) != 1 {
		t.Fatalf("%d pools, want 1", len(pools))
	}
	var values []float64
	for _, p := range pools[0].actual(dimension) {
		values = append(values, p.Value)
	}
	return values
}

func TestBoardSumsClassesAndTakesRevisions(t *testing.T) {
	b, minute := NewBoard(), []features.PoolMinute{{Pool: "chat"}}
	t0, t1 := origin, origin.Add(time.Minute)
	b.Observe(&pipeline.Output{Pools: minute, Windows: []features.Window{requests("a", t0, 60), requests("b", t0, 120)}})
	uncovered := requests("a", t1, 0)
	uncovered.Covered = false
	b.Observe(&pipeline.Output{Pools: minute, Windows: []features.Window{uncovered}})
	nan := math.NaN()
	equal := cmp.Comparer(func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) })
	if diff := cmp.Diff([]float64{3, nan}, observed(t, b, features.DimRequests), equal); diff != "" {
		t.Errorf("sum of the classes, and a minute that is not covered (-want +got):\n%s", diff)
	}
	b.Observe(&pipeline.Output{Pools: minute, Windows: []features.Window{requests("b", t0, 180)}}) // only b was amended
	if diff := cmp.Diff([]float64{4, nan}, observed(t, b, features.DimRequests), equal); diff != "" {
		t.Errorf("after a revision of one class (-want +got):\n%s", diff)
	}
	reporting := requests("a", t0, 60)
	reporting.Nowcast = slices.Repeat([]features.Estimate{{Mean: 2, Counted: 1}}, 4)
	b.Observe(&pipeline.Output{Pools: minute, Windows: []features.Window{reporting}})
	if diff := cmp.Diff([]float64{5, nan}, observed(t, b, features.DimRequests), equal); diff != "" {
		t.Errorf("with what is still being reported (-want +got):\n%s", diff)
	}
}

// The classes of a minute settle together; what they came to is then all that is kept.
func TestBoardForgetsPartsThatHaveSettled(t *testing.T) {
	b, minute := NewBoard(), []features.PoolMinute{{Pool: "chat"}}
	for i := range 20 {
		var windows []features.Window
		for _, class := range []string{"a", "b"} {
			windows = append(windows, requests(class, origin.Add(time.Duration(i)*time.Minute), 60))
			if i >= 10 {
				settled := requests(class, origin.Add(time.Duration(i-10)*time.Minute), 120)
				settled.Settled = true
				windows = append(windows, settled)
			}
		}
		b.Observe(&pipeline.Output{Pools: minute, Windows: windows})
	}
	if n := len(b.history["chat"].parts); n != 10 {
		t.Errorf("parts of %d minutes are kept, want the 10 that have not settled", n)
	}
	want := append(slices.Repeat([]float64{4}, 10), slices.Repeat([]float64{2}, 10)...)
	if diff := cmp.Diff(want, observed(t, b, features.DimRequests)); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}

func TestBoardForgets(t *testing.T) {
	b, pools := NewBoard(), []features.PoolMinute{{Pool: "chat"}}
	var windows []features.Window
	for i := range 2 * HistoryMinutes {
		windows = append(windows, requests("a", origin.Add(time.Duration(i)*time.Minute), 60))
	}
	b.Observe(&pipeline.Output{Pools: pools, Windows: windows[:HistoryMinutes]}) // all at once, as after a gap
	for i := range HistoryMinutes {
		b.Observe(&pipeline.Output{Pools: pools, Windows: windows[HistoryMinutes+i:][:1]})
	}
	got := observed(t, b, features.DimRequests)
	if len(got) != HistoryMinutes || got[0] != 1 {
		t.Errorf("history of %d minutes that starts with %g, want %d and 1", len(got), got[0], HistoryMinutes)
	}
	if n := len(b.history["chat"].parts); n > reviseMinutes+1 {
		t.Errorf("parts of %d minutes are kept, want at most %d", n, reviseMinutes+1)
	}
	b.Observe(&pipeline.Output{Pools: []features.PoolMinute{{Pool: "other"}}})
	if len(b.history) != 0 || len(b.Pools()) != 1 || b.Pools()[0].Pool != "other" {
		t.Errorf("a pool that is gone is still there: %v", b.Pools())
	}
}

func TestBoardKeepsTheLastDecisionAndCopies(t *testing.T) {
	b, out := NewBoard(), fullOutput()
	b.Observe(out)
	out.Decisions[0].Constraints[0] = "overwritten"
	out.Alerts[0].Labels["severity"] = "overwritten"
	b.Observe(&pipeline.Output{Tick: origin.Add(time.Minute), Pools: out.Pools}) // a tick that decides nothing
	chat := b.Pools()[1]
	if chat.Decision == nil || chat.Decision.Constraints[0] != "replicas.max = 8" {
		t.Errorf("decision was lost or shared: %+v", chat.Decision)
	}
	if len(chat.Alerts) != 1 || chat.Alerts[0].Labels["severity"] != "warning" {
		t.Errorf("alerts: got %+v, want the one that fires, unchanged", chat.Alerts)
	}
}
