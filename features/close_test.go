package features

import (
	"fmt"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/google/go-cmp/cmp"
)

// returned lists what a Close returned: pool/class, minute from t0, and "settled" or "open", with its requests.
func returned(windows []Window) (list []string) {
	for _, w := range windows {
		state := "open"
		if w.Settled {
			state = "settled"
		}
		list = append(list, fmt.Sprintf("%s %d %s %v", w.Key, w.Start.Sub(t0)/Minute, state, w.Requests))
	}
	return list
}

func TestCloseSchedule(t *testing.T) {
	a := New(testConfig()) // revise: 3 minutes
	q := func(r *ingest.Request) { r.Pool = "a" }
	for _, tick := range []struct {
		add  []*ingest.Request
		want []string
	}{
		{[]*ingest.Request{request("1", 10), request("2", 59)}, []string{"p/chat 0 open 2"}},
		{[]*ingest.Request{changed(request("3", 61), ofClass("agent"))}, []string{"p/agent 1 open 1", "p/chat 1 open 0"}},
		{[]*ingest.Request{request("4", 30), changed(request("5", 150), q)}, // late, but of an open minute
			[]string{"p/chat 0 open 3", "a/chat 2 open 1", "p/agent 2 open 0", "p/chat 2 open 0"}},
		{nil, []string{"p/chat 0 settled 3", "a/chat 3 open 0", "p/agent 3 open 0", "p/chat 3 open 0"}},
		{nil, []string{"p/agent 1 settled 1", "p/chat 1 settled 0", "a/chat 4 open 0", "p/agent 4 open 0", "p/chat 4 open 0"}},
	} {
		mustAdd(t, a, tick.add...)
		end := startOf(max(a.Open, unixTimeOf(t0).minute()) + 1)
		windows, pools := a.Close(end)
		if diff := cmp.Diff(tick.want, returned(windows)); diff != "" {
			t.Errorf("Close(%s) (-want +got):\n%s", end.Format("15:04"), diff)
		}
		for i, p := range pools {
			if !p.Start.Equal(end.Add(-Minute)) || i > 0 && pools[i-1].Pool >= p.Pool {
				t.Errorf("pools %+v", pools)
			}
		}
	}
	if got := a.addRequest(request("6", 119)); got != ingest.ReasonLate {
		t.Errorf("a record of a settled minute: %q", got)
	}
	if w, p := a.Close(at(300)); w != nil || p != nil {
		t.Errorf("a second Close of one minute returned %v, %v", w, p)
	}
}

func TestCloseWithoutRevise(t *testing.T) {
	cfg := testConfig()
	cfg.Revise = 0
	a := New(cfg)
	mustAdd(t, a, request("1", 10))
	w, _ := a.Close(at(60))
	if diff := cmp.Diff([]string{"p/chat 0 settled 1"}, returned(w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := a.addRequest(request("2", 59)); got != ingest.ReasonLate {
		t.Errorf("a record of the minute just closed: %q", got)
	}
	mustAdd(t, a, request("3", 60))
	if w, _ = a.Close(at(120)); len(w) != 1 || w[0].Requests != 1 {
		t.Errorf("next minute: %v", returned(w))
	}
}

// A late watermark makes unknown minutes known: they are minutes without requests.
func TestLateWatermark(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, request("1", 10))
	a.Close(at(60))
	if w, p := a.Close(at(120)); len(w) != 1 || w[0].Covered || p[0].Covered {
		t.Fatalf("a silent minute without a watermark is covered: %+v", w)
	}
	a.AddWatermark(&ingest.Watermark{At: at(500)}) // without a pool it covers nothing
	cover(a, 179)                                  // the third minute is not over yet
	w, pools := a.Close(at(180))
	if diff := cmp.Diff([]string{"p/chat 1 open 0", "p/chat 2 open 0"}, returned(w)); diff != "" || !w[0].Covered || w[1].Covered {
		t.Errorf("covered %v (-want +got):\n%s", w[0].Covered, diff)
	}
	if pools[0].Covered || !pools[0].LastEvent.Equal(at(179)) {
		t.Errorf("pool %+v", pools[0])
	}
}

func TestSkippedMinutes(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, request("1", 10), request("2", 130))
	a.Close(at(60))
	w, _ := a.Close(at(180)) // minute 1 is skipped, and can still be amended
	if diff := cmp.Diff([]string{"p/chat 2 open 1"}, returned(w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mustAdd(t, a, request("3", 70))
	w, _ = a.Close(at(180 + 24*3600))
	if diff := cmp.Diff([]string{"p/chat 1439 settled 0", "p/chat 1442 open 0"}, returned(w)); diff != "" {
		t.Errorf("after a day (-want +got):\n%s", diff)
	}
	mustAdd(t, a, request("4", 180+24*3600))
	if w, _ = a.Close(at(240 + 24*3600)); w[len(w)-1].Requests != 1 {
		t.Errorf("after the gap: %v", returned(w))
	}
}

// A first record with a wrong time does not move the time of the others.
func TestFirstRecordWithWrongTime(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, changed(request("1970", 0), func(r *ingest.Request) { r.ArrivedAt = time.Unix(-5, 0) }))
	mustAdd(t, a, request("now", 10))
	if w, _ := a.Close(at(60)); w[len(w)-1].Requests != 1 || !w[len(w)-1].Start.Equal(t0) {
		t.Errorf("%v", returned(w))
	}
	if got := a.addRequest(request("tomorrow", 86400)); got != ingest.ReasonFuture {
		t.Errorf("a record of tomorrow: %q", got)
	}
}

func TestClassTTL(t *testing.T) {
	cfg := testConfig()
	cfg.ClassTTL = 2 * time.Hour
	a := New(cfg)
	mustAdd(t, a, request("1", 10), changed(request("2", 10), ofClass("agent")))
	for m := 1; m <= 200; m++ {
		if m == 100 {
			mustAdd(t, a, request("3", 99*60))
		}
		w, pools := a.Close(at(float64(m) * 60))
		if covered := m == 1 || m == 100; pools[0].Covered != covered {
			t.Fatalf("minute %d is covered: %v", m-1, pools[0].Covered)
		}
		if alive := w[0].Class == "agent"; alive != (m <= 121) {
			t.Fatalf("after %d minutes the class is alive: %v", m, alive)
		}
	}
	if n := len(a.pools[0].classes); n != 1 {
		t.Errorf("%d classes left, want 1", n)
	}
}

func TestMinuteOf(t *testing.T) {
	for s, want := range map[int64]int64{-61: -2, -60: -1, -1: -1, 0: 0, 59: 0, 60: 1} {
		if got := unixTimeOf(time.Unix(s, 5)).minute(); got != want {
			t.Errorf("minute of %d s = %d, want %d", s, got, want)
		}
	}
}

// BenchmarkAddRequest includes one Close for 6,000 records. In the steady state a record allocates nothing, apart from
// new tenants, ids and strings.
func BenchmarkAddRequest(b *testing.B) {
	a := New(DefaultConfig())
	rs := make([]*ingest.Request, 1000)
	for i := range rs {
		rs[i] = changed(request("", 0), ofClass(fmt.Sprint("c", i%5)), tokens(int64(100+i*7%3000), int64(i%100), int64(10+i*13%500)))
		rs[i].Tenant = fmt.Sprint("t", i*i%300)
		rs[i].Feature = fmt.Sprint("f", i*i%30)
	}
	b.ReportAllocs()
	for i := range b.N {
		r := rs[i%len(rs)]
		s := float64(i) / 100
		r.ArrivedAt, r.StartedAt, r.FirstTokenAt, r.FinishedAt = at(s), at(s+.1), at(s+.5), at(s+12)
		if reason := a.addRequest(r); reason != "" {
			b.Fatal(reason)
		}
		if i%6000 == 5999 {
			a.Close(at(s + .02).Truncate(Minute))
		}
	}
}
