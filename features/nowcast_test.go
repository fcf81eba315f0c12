package features

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
)

func dimension(t testing.TB, name string) Dimension {
	t.Helper()
	d, ok := DimensionByName(name)
	if !ok {
		t.Fatalf("no dimension %s", name)
	}
	return d
}

// reportsAtEnd adds requests to an Aggregator when they end.
type reportsAtEnd struct {
	a       *Aggregator
	running []*ingest.Request
	minute  int
}

// pass closes a minute in which n requests arrive that take lasts(i) seconds.
func (e *reportsAtEnd) pass(t testing.TB, n int, lasts func(i int) float64, change ...func(*ingest.Request)) []Window {
	t.Helper()
	start := float64(e.minute) * 60
	for i := range n {
		at := start + float64(i)*60/float64(n)
		r := changed(request(fmt.Sprint(e.minute, "-", i), at), times(at, at+lasts(i)/2, at+lasts(i)))
		e.running = append(e.running, changed(r, change...))
	}
	e.minute++
	end := at(start + 60)
	kept := e.running[:0]
	for _, r := range e.running {
		if r.FinishedAt.After(end) {
			kept = append(kept, r)
			continue
		}
		mustAdd(t, e.a, r)
	}
	e.running = kept
	cover(e.a, start+60)
	w, _ := e.a.Close(end)
	return w
}

func steady(i int) float64 { return 5 + float64(i*37%60) }

func newest(windows []Window) *Window { return &windows[len(windows)-1] }

func TestNowcastOfSteadyTraffic(t *testing.T) {
	cfg := testConfig()
	cfg.Revise = 5 * Minute
	e := reportsAtEnd{a: New(cfg)}
	for range 40 {
		e.pass(t, 60, steady)
	}
	w := newest(e.pass(t, 60, steady))
	for name, want := range map[string]float64{DimRequests: 1, DimPrefill: 100, DimDecode: 20} {
		d := dimension(t, name)
		counted, _ := d.Value(w)
		now, ok := d.Now(w)
		if !ok || counted > .9*want || math.Abs(now.Mean-want) > .02*want {
			t.Errorf("%s: %v counted, nowcast %+v, want %v", name, counted, now, want)
		}
		if now.Counted != counted {
			t.Errorf("%s: %v of %v reported, nowcast %+v", name, counted, want, now)
		}
	}
	// Nowcasts of older open minutes are good too. A settled minute has none.
	for i, w := range e.pass(t, 60, steady) {
		now, _ := Dimensions[0].Now(&w)
		if w.Settled && (w.Nowcast != nil || now != Complete(1)) {
			t.Errorf("a settled window has nowcast %+v", now)
		}
		if i > 0 && math.Abs(now.Mean-1) > .02 {
			t.Errorf("the nowcast of %v is %+v", w.Start, now)
		}
	}
}

// If all requests take longer than a minute, the newest minutes have no reports, and the nowcast is the usual level. A
// single short request does not change it much.
func TestNowcastWithoutReports(t *testing.T) {
	cfg := testConfig()
	cfg.Revise = 8 * Minute
	long := func(i int) float64 { return 121 + float64(i*37%239) }
	e := reportsAtEnd{a: New(cfg)}
	for range 60 {
		e.pass(t, 60, long)
	}
	check := func(w *Window, counted, off float64) {
		t.Helper()
		for name, want := range map[string]float64{DimRequests: 1, DimPrefill: 100} {
			d := dimension(t, name)
			now, ok := d.Now(w)
			if !ok || math.Abs(now.Counted-counted*want) > 1e-9 || math.Abs(now.Mean-want) > off*want || !now.Incomplete() {
				t.Errorf("%s: nowcast %+v, want %v", name, now, want)
			}
		}
	}
	check(newest(e.pass(t, 60, long)), 0, .1)
	check(newest(e.pass(t, 60, func(i int) float64 {
		if i == 0 {
			return 10
		}
		return long(i)
	})), 1./60, .2)
}

// If all requests are reported at their arrival, requests and prompt tokens are exactly those that were counted. Only
// output has a nowcast.
func TestNowcastWithArrivalRecords(t *testing.T) {
	a := New(testConfig())
	var running []*ingest.Request
	requests, prefill, decode := dimension(t, DimRequests), dimension(t, DimPrefill), dimension(t, DimDecode)
	for m := range 60 {
		kept := running[:0]
		for i := range 30 {
			s := float64(m)*60 + float64(i)*2
			r := changed(request(fmt.Sprint(m, "-", i), s), times(s, s+1, s+1+steady(i)))
			mustAdd(t, a, changed(r, phase(ingest.PhaseArrived)))
			running = append(running, r)
		}
		for _, r := range running {
			if r.FinishedAt.After(at(float64(m+1) * 60)) {
				kept = append(kept, r)
			} else {
				addEnd(t, a, r, true)
			}
		}
		running = kept
		windows, _ := a.Close(at(float64(m+1) * 60))
		for i := range windows {
			w := &windows[i]
			for _, d := range []Dimension{requests, prefill} {
				value, _ := d.Value(w)
				if now, _ := d.Now(w); now != Complete(value) {
					t.Fatalf("minute %d: %s counted %v, nowcast %+v", m, d.Name, value, now)
				}
			}
		}
		now, _ := decode.Now(newest(windows))
		if m > 30 && (math.Abs(now.Mean-10) > 1 || now.Counted > 8) {
			t.Fatalf("minute %d: output nowcast %+v, want 10 tokens/s", m, now)
		}
	}
}

// There are no nowcasts if nothing comes late. A class without late records does not keep the delays of its pool.
func TestNowcastWithoutLateRecords(t *testing.T) {
	a := New(testConfig())
	for m := range 40 {
		late := m >= 10
		for i := range 60 {
			s := float64(m)*60 + float64(i)
			mustAdd(t, a, changed(request("", s), ofClass("prompt")))
			if late && m > 10 {
				mustAdd(t, a, changed(request("", s-60), ofClass("late")))
			}
		}
		windows, _ := a.Close(at(float64(m+1) * 60))
		for i := range windows {
			w := &windows[i]
			now, _ := Dimensions[0].Now(w)
			if !late && w.Nowcast != nil {
				t.Fatalf("minute %d: nowcast %+v before anything came late", m, now)
			}
			if m == 39 && w.Class == "prompt" && now != Complete(now.Mean) {
				t.Errorf("the class without late records has the nowcast %+v", now)
			}
		}
	}
}

// Records that come after an outage do not count as late when delays are learned. A minute without telemetry is
// unknown.
func TestNowcastAfterOutage(t *testing.T) {
	a := New(testConfig()) // revise: 3 minutes
	closeMinute := func(m int) []Window {
		windows, _ := a.Close(at(float64(m+1) * 60))
		return windows
	}
	add := func(m int) {
		for i := range 60 {
			mustAdd(t, a, request("", float64(m)*60+float64(i)))
		}
	}
	for m := range 30 {
		add(m)
		if m > 0 { // one in 61 comes a minute late
			mustAdd(t, a, request("", float64(m-1)*60+30))
		}
		closeMinute(m)
	}
	before := hazardsOf(a)
	for m := 30; m < 32; m++ {
		w := newest(closeMinute(m))
		if now, ok := Dimensions[0].Now(w); ok {
			t.Errorf("minute %d without telemetry has the nowcast %+v", m, now)
		}
	}
	add(30)
	add(31)
	add(32)
	closeMinute(32)
	for age := 2; age <= 3; age++ {
		was, is := before.at(age), a.pools[0].Lag.Rows[0].at(age)
		if is > was {
			t.Errorf("the hazard at age %d is %.3f after the outage, %.3f before", age, is, was)
		}
	}
}

// A class of which one producer holds back nearly all records for some minutes, and then sends them all, has no
// nowcast far beyond what was ever counted: the product of the delays that were learned means nothing.
func TestNowcastAfterBacklog(t *testing.T) {
	cfg := testConfig()
	cfg.Revise = 10 * Minute
	a := New(cfg)
	add := func(m, n int) {
		for i := range n {
			mustAdd(t, a, request("", float64(m)*60+float64(i%60)))
		}
	}
	var windows []Window
	for m := range 5 {
		add(m, 2)
		if m == 1 {
			add(0, 1) // records come late, so delays are learned
		}
		windows, _ = a.Close(at(float64(m+1) * 60))
	}
	for m := range 5 {
		add(m, 118)
	}
	for m := 5; m < 8; m++ {
		add(m, 120)
		windows, _ = a.Close(at(float64(m+1) * 60))
		now, ok := Dimensions[0].Now(newest(windows))
		if !ok || now.Counted != 2 || now.Mean > 11 {
			t.Errorf("minute %d: want at most about five times the 2 requests/s, got %+v", m, now)
		}
	}
}

// hazardsOf is a copy of the hazards of the first row of the first pool.
func hazardsOf(a *Aggregator) hazards { return slices.Clone(a.pools[0].Lag.Rows[0]) }

// Skipped minutes have no first count, so no delays are learned from them.
func TestNowcastAfterSkippedMinutes(t *testing.T) {
	e := reportsAtEnd{a: New(testConfig())}
	for range 30 {
		e.pass(t, 60, steady)
	}
	before := hazardsOf(e.a)
	for m := e.minute; m < e.minute+3; m++ {
		for i := range 60 {
			mustAdd(t, e.a, request("", float64(m)*60+float64(i)))
		}
	}
	e.a.Close(at(float64(e.minute+3) * 60))
	for age := 1; age <= 3; age++ {
		if was, is := before.at(age), e.a.pools[0].Lag.Rows[0].at(age); math.Abs(is-was) > 1e-6 {
			t.Errorf("the hazard at age %d is %.3f after the skipped minutes, %.3f before", age, is, was)
		}
	}
}

// The shares computed from learned hazards are the distribution function of the delays, although the newest minutes are
// open.
func TestHazards(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const ages, perMinute = 8, 400
	h := make(hazards, ages)
	var counts [200][ages + 1]float64
	delay := func() int { return min(int(rng.ExpFloat64()*1.5), ages) }
	for m := range counts {
		for range perMinute {
			counts[m][delay()]++
		}
	}
	for now := range counts {
		for age := 1; age <= ages && age <= now; age++ {
			n := 0.0
			for d := 0; d <= age; d++ {
				n += counts[now-age][d]
			}
			h.learn(age, counts[now-age][age], n)
		}
	}
	shares := make([]float64, ages+1)
	none := make(hazards, ages)
	h.shares(shares, none, 1)
	for age, got := range shares[:ages] {
		want := 1 - math.Exp(-float64(age+1)/1.5)
		if math.Abs(got-want) > .01 {
			t.Errorf("share at age %d is %.3f, want %.3f", age, got, want)
		}
	}
	if shares[ages] != 1 {
		t.Errorf("share when settled is %v", shares[ages])
	}
}

// A new class uses the delays of its pool until it has its own.
func TestDelaysOfNewClass(t *testing.T) {
	own, pool := make(hazards, 1), make(hazards, 1)
	pool.learn(1, 400, 1000)
	for _, tc := range []struct{ seen, want float64 }{{0, .4}, {30, .4 * 27 / 57}, {300, 0}, {3000, 0}} {
		own[0].Seen = float32(tc.seen)
		if got := own.blend(1, pool, 1); math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("after %v requests in time the share of late ones is %v, want %v", tc.seen, got, tc.want)
		}
	}
}

func TestEstimateBetweenCountAndLevel(t *testing.T) {
	var d reporting
	d.Strays, d.Usual, d.Stray = 180, 10, 10+.04*100 // ν = 0.2 beyond Poisson
	for _, tc := range []struct {
		name                  string
		counted, share, level float64
		low, high             float64 // of the mean
	}{
		{"complete", 7, 1, 10, 7, 7},
		{"no count, known level", 0, .05, 10, 9, 10},
		{"count and level agree", 5, .5, 10, 9.9, 10.1},
		{"no level", 5, .5, math.NaN(), 10, 10},
		{"a burst far above the level", 500, .5, 10, 850, 1000},
		{"a value that shrinks as records come", 20, 2, 10, 9.9, 10.1},
		{"silence", 0, .5, 0, 0, 0},
	} {
		e := d.estimate(tc.counted, tc.share, tc.level, 1)
		if e.Mean < tc.low || e.Mean > tc.high {
			t.Errorf("%s: %+v, want a mean of %v to %v", tc.name, e, tc.low, tc.high)
		}
	}
	if e := d.estimate(math.NaN(), .5, 10, 1); !math.IsNaN(e.Mean) {
		t.Errorf("the nowcast of an unknown count is %+v", e)
	}
}

func TestPlus(t *testing.T) {
	a := Estimate{Mean: 10, Counted: 5}
	b := Estimate{Mean: 30, Counted: 30}
	if diff := cmp.Diff(Estimate{Mean: 40, Counted: 35}, a.Plus(b), about); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Complete(1).Plus(Complete(2)); got != Complete(3) {
		t.Errorf("sum of complete values: %+v", got)
	}
}

// When the revise span changes, the learned delays are discarded, and learned again.
func TestDelaysAfterReviseChanged(t *testing.T) {
	cfg := testConfig()
	e := reportsAtEnd{a: New(cfg)}
	for range 10 {
		e.pass(t, 60, steady)
	}
	if e.a.pools[0].classes[0].Nowcasts == nil {
		t.Fatal("no delays were learned")
	}
	cfg.Revise = 4 * Minute
	e.a = restarted(t, e.a, cfg)
	if p := e.a.pools[0]; p.Lag.Late || p.classes[0].Nowcasts != nil {
		t.Errorf("delays %+v", p.classes[0].Nowcasts)
	}
	for range 10 {
		e.pass(t, 60, steady)
	}
	if now, _ := Dimensions[0].Now(newest(e.pass(t, 60, steady))); math.Abs(now.Mean-1) > .1 {
		t.Errorf("after the change the nowcast is %+v", now)
	}
}
