package features

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var t0 = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// at is an instant, in seconds from t0.
func at(s float64) time.Time { return t0.Add(time.Duration(math.Round(s * 1e9))) }

// testConfig has a revise span of three minutes, and simple service rates.
func testConfig() Config {
	return Config{
		Revise: 3 * Minute, MaxClasses: 4, ReplicaTTL: 3 * Minute, ClassTTL: 6 * time.Hour,
		Service: map[string]Service{"p": {PrefillTokensPerS: 1000, ITL: 10 * time.Millisecond}},
	}
}

// request is a finished request of which only the time of arrival is known, with 100 prompt tokens and 20 output
// tokens.
func request(id string, arrived float64) *ingest.Request {
	return &ingest.Request{
		ID: id, Pool: "p", Class: "chat", Attempt: 1, ArrivedAt: at(arrived),
		PromptTokens: 100, CachedTokens: ingest.Unknown, OutputTokens: 20, MaxOutputTokens: ingest.Unknown,
	}
}

// changed is r with changes.
func changed(r *ingest.Request, change ...func(*ingest.Request)) *ingest.Request {
	c := *r
	for _, f := range change {
		f(&c)
	}
	return &c
}

func phase(p ingest.Phase) func(*ingest.Request) { return func(r *ingest.Request) { r.Phase = p } }
func attempt(n int) func(*ingest.Request)        { return func(r *ingest.Request) { r.Attempt = n } }
func ofClass(name string) func(*ingest.Request)  { return func(r *ingest.Request) { r.Class = name } }
func tokens(prompt, cached, output int64) func(*ingest.Request) {
	return func(r *ingest.Request) { r.PromptTokens, r.CachedTokens, r.OutputTokens = prompt, cached, output }
}

// times sets start, first token and end, in seconds from t0.
func times(start, first, end float64) func(*ingest.Request) {
	return func(r *ingest.Request) { r.StartedAt, r.FirstTokenAt, r.FinishedAt = at(start), at(first), at(end) }
}

// addRequest adds a request without earlier records; an attempt > 1 is a retry of a counted call.
func (a *Aggregator) addRequest(r *ingest.Request) ingest.Reason {
	return a.AddAttempt(r, Earlier{CallCounted: r.Attempt > 1})
}

func mustAdd(t testing.TB, a *Aggregator, rs ...*ingest.Request) {
	t.Helper()
	for _, r := range rs {
		if reason := a.addRequest(r); reason != "" {
			t.Fatalf("request %s at %s: refused as %s", r.ID, r.EventTime(), reason)
		}
	}
}

// addEnd adds the end of a request whose arrival was counted, with or without its prompt.
func addEnd(t testing.TB, a *Aggregator, r *ingest.Request, prompt bool) {
	t.Helper()
	if reason := a.AddAttempt(r, Earlier{CallCounted: r.Attempt > 1, ArrivalCounted: true, PromptCounted: prompt}); reason != "" {
		t.Fatalf("request %s at %s: refused as %s", r.ID, r.EventTime(), reason)
	}
}

func cover(a *Aggregator, until float64) { a.AddWatermark(&ingest.Watermark{Pool: "p", At: at(until)}) }

// history has the newest version of each window that Close returned, and all pool minutes.
type history struct {
	newest map[windowID]Window
	pools  []PoolMinute
}

type windowID struct {
	Key
	minute int // from t0
}

// reporter is a testing.TB or a rapid.T.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// closeUntil closes each minute from t0 + from to t0 + n minutes, and keeps copies of the windows.
func (h *history) closeUntil(t reporter, a *Aggregator, from, n int) {
	t.Helper()
	if h.newest == nil {
		h.newest = map[windowID]Window{}
	}
	for m := from; m <= n; m++ {
		windows, pools := a.Close(t0.Add(time.Duration(m) * Minute))
		for _, w := range windows {
			id := windowID{w.Key, int(w.Start.Sub(t0) / Minute)}
			if h.newest[id].Settled {
				t.Fatalf("%v is returned again after it settled", id)
			}
			h.newest[id] = detached(w)
		}
		h.pools = append(h.pools, pools...)
	}
}

// detached is a copy of w that shares nothing with its Aggregator.
func detached(w Window) Window {
	for _, s := range [...]*sketch.Quantile{&w.Prompt, &w.Output} {
		var c sketch.Quantile
		c.Merge(s)
		*s = c
	}
	return w
}

func (h *history) window(t testing.TB, class string, minute int) Window {
	t.Helper()
	w, ok := h.newest[windowID{Key{"p", class}, minute}]
	if !ok {
		t.Fatalf("no window of %s in minute %d", class, minute)
	}
	return w
}

// wantDims checks the dimensions of a window that want has. NaN means unknown.
func wantDims(t testing.TB, w Window, want map[string]float64) {
	t.Helper()
	for _, d := range Dimensions {
		expected, named := want[d.Name]
		if !named {
			continue
		}
		got, ok := d.Value(&w)
		if !ok {
			got = math.NaN()
		}
		if math.IsNaN(got) != math.IsNaN(expected) || math.Abs(got-expected) > 1e-9*math.Max(1, expected) {
			t.Errorf("%s of %s at %s = %v, want %v", d.Name, w.Key, w.Start.Format("15:04"), got, expected)
		}
	}
}

var unknown = math.NaN()

// about compares windows up to rounding of sums.
var about = cmp.Options{
	cmpopts.EquateApprox(1e-9, 1e-9), cmpopts.EquateNaNs(), cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b sketch.Quantile) bool {
		same := a.Count() == b.Count() && math.Abs(a.Total-b.Total) <= 1e-9*a.Total
		for q := 0.0; q <= 1 && same && a.Count() > 0; q += 1.0 / 64 {
			same = a.Quantile(q) == b.Quantile(q)
		}
		return same
	}),
}
