package features

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/ingest"
)

// TestWindowsOfEdgesAddUp: whatever requests come, in whatever order, parted over edges in whatever way: the increments
// of the edges add up to the windows that one Aggregator counts. An edge whose state went through a snapshot gives the same.
func TestWindowsOfEdgesAddUp(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.MaxTenants = 8 // more counters than tenants: rankings are exact, too
		whole, sum := New(cfg), New(cfg)
		edges := []*Aggregator{New(cfg), New(cfg), New(cfg)}
		var want, got history
		id := 0
		for m := range rapid.IntRange(2, 9).Draw(t, "minutes") {
			for range rapid.IntRange(0, 6).Draw(t, "requests") {
				id++
				end := float64(m)*60 + rapid.Float64Range(0, 59).Draw(t, "end")
				lasted := rapid.Float64Range(0.1, 150).Draw(t, "lasted")
				r := changed(request(fmt.Sprint(id), max(end-lasted, 0)), times(max(end-lasted, 0), max(end-lasted/2, 0), end),
					ofClass(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "class")), attempt(rapid.IntRange(1, 2).Draw(t, "attempt")),
					tokens(int64(rapid.IntRange(1, 9000).Draw(t, "prompt")), int64(rapid.IntRange(-1, 1).Draw(t, "cached")), int64(rapid.IntRange(0, 900).Draw(t, "output"))))
				r.Tenant = rapid.SampledFrom([]string{"t1", "t2", "t3"}).Draw(t, "tenant")
				// Sessions stay at one edge.
				r.Session = uint64(id%3 + 1)
				reason := whole.AddRequest(r)
				if edge := edges[r.Session%3].AddRequest(r); edge != reason {
					t.Fatalf("the edge says %q, the whole %q", edge, reason)
				}
			}
			for i, e := range edges {
				if rapid.Bool().Draw(t, "restart") {
					e = restarted(outer, e, cfg)
					edges[i] = e
				}
				d := e.Drain(at(float64(m+1) * 60))
				for j := range d.Windows {
					if reason := sum.AddWindow(&d.Windows[j]); reason != "" {
						t.Fatalf("window %+v: %s", d.Windows[j], reason)
					}
				}
				for j := range d.Minutes {
					if reason := sum.AddMinute(&d.Minutes[j]); reason != "" {
						t.Fatalf("minute %+v: %s", d.Minutes[j], reason)
					}
				}
			}
			want.closeUntil(t, whole, m+1, m+1)
			got.closeUntil(t, sum, m+1, m+1)
		}
		options := cmp.Options{about, cmpopts.IgnoreFields(Window{}, "Nowcast")}
		for id, w := range want.newest {
			if g, ok := got.newest[id]; ok || w.Records > 0 {
				if diff := cmp.Diff(w, g, options); diff != "" {
					t.Fatalf("%v (-whole +sum of edges):\n%s", id, diff)
				}
			}
		}
	})
}

// TestSplitDemandIsClose: what calls that were turned away would have needed is an expectation, from the traffic that
// each edge has seen; with enough of it, two edges expect within 5 % of what one does.
func TestSplitDemandIsClose(t *testing.T) {
	cfg := testConfig()
	whole, sum, edges := New(cfg), New(cfg), []*Aggregator{New(cfg), New(cfg)}
	var want, got float64
	for m := range 40 {
		for i := range 60 {
			r := changed(request(fmt.Sprint(m, "-", i), float64(m*60+i)), tokens(int64(500+17*i), 0, int64(100+(i*37)%200)))
			if i%5 == 0 {
				r.Phase, r.Status, r.OutputTokens = ingest.PhaseRejected, ingest.StatusRejected, ingest.Unknown
			}
			mustAdd(t, whole, r)
			mustAdd(t, edges[(i/5+i)%2], r)
		}
		end := at(float64(m+1) * 60)
		for _, e := range edges {
			d := e.Drain(end)
			for j := range d.Windows {
				if reason := sum.AddWindow(&d.Windows[j]); reason != "" {
					t.Fatal(reason)
				}
			}
			for j := range d.Minutes {
				sum.AddMinute(&d.Minutes[j])
			}
		}
		for _, x := range []struct {
			a  *Aggregator
			to *float64
		}{{whole, &want}, {sum, &got}} {
			windows, _ := x.a.Close(end)
			for i := range windows {
				if windows[i].Settled && m >= 10 {
					*x.to += windows[i].decode()
				}
			}
		}
	}
	if want == 0 || math.Abs(got-want) > 0.05*want {
		t.Errorf("two edges make it %g output tokens, one aggregator %g", got, want)
	}
}

func TestAddWindowRefuses(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, request("1", 600))
	a.Close(at(660))
	w := func(minute float64) *ingest.Window {
		x := &ingest.Window{Pool: "p", Class: "chat", Start: at(minute * 60)}
		x.Figures[ingest.FigureRequests], x.Figures[ingest.FigurePromptTokens] = 2, 50
		return x
	}
	broken := w(11)
	broken.Sketches[0] = []byte{2, 1}
	weights := w(11)
	weights.Tenants.Names = []ingest.Weight{{Name: "t", Weight: 1, Error: 2}}
	for name, tc := range map[string]struct {
		in   *ingest.Window
		want ingest.Reason
	}{
		"late": {w(2), ingest.ReasonLate}, "future": {w(500), ingest.ReasonFuture}, "sketch": {broken, ingest.ReasonOutOfRange},
		"ranking": {weights, ingest.ReasonOutOfRange}, "sound": {w(11), ""},
	} {
		if got := a.AddWindow(tc.in); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if reason := a.AddMinute(&ingest.Minute{Pool: "p", Start: at(660), LastEvent: at(1e6)}); reason != "" {
		t.Errorf("minute: %s", reason)
	}
	var h history
	h.closeUntil(t, a, 12, 16)
	if last := h.pools[0].LastEvent; last.After(at(12 * 60)) {
		t.Errorf("the newest event is at %s, in the future", last)
	}
	if l := h.window(t, "chat", 8).Late; l == nil || l.Requests != 2 || l.PromptTokens != 50 {
		t.Errorf("late: %+v", l)
	}
}
