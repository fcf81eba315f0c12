package forecaster

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
)

// talking is a minute of a class in which ten sessions are alive, nine of which take a turn a minute.
func talking(class string, i int) features.Window {
	w := window("p", class, i, 10.0/60)
	w.Sessions = &features.Sessions{Active: 10, ContextSum: 1000, Begun: features.SessionActs{Woke: 1, Turns: 1}}
	w.Sessions.ByAge[0] = features.SessionAge{Alive: 10, Ended: 1, SessionActs: features.SessionActs{Woke: 9, Turns: 9}}
	return w
}

func observeTalk(f *Forecaster, from, n int) {
	for i := from; i < from+n; i++ {
		f.Observe([]features.Window{window("p", "batch", i, 5), talking("chat", i)}, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true, LastEvent: minuteAt(i)}})
	}
}

// The expert speaks for the class that has sessions, sleeps for the one that has none, and of the total it knows both.
func TestSessionsReachTheirClassAndTheTotal(t *testing.T) {
	f := New(Config{})
	observeTalk(f, 0, 300)
	p := f.pools[0]
	said := func(s *series) float64 { return s.experts[sessionsExpert].Forecast(s.history, 20) }
	chat := said(p.class(features.Key{Pool: "p", Class: "chat"}).series[0])
	if math.Abs(chat-10.0/60) > .03 {
		t.Errorf("of chat %v is expected, want about %v", chat, 10.0/60)
	}
	if y := said(p.class(features.Key{Pool: "p", Class: "batch"}).series[0]); !math.IsNaN(y) {
		t.Errorf("of a class without sessions %v is expected", y)
	}
	if y := said(p.total[0]); math.Abs(y-5-chat) > 1e-3 {
		t.Errorf("of the total %v is expected, want %v", y, 5+chat)
	}
	// When all fall silent less is expected, and nothing once they are no longer followed.
	for i := 300; i < 360; i++ {
		w := window("p", "chat", i, 0)
		if i < 320 {
			w.Sessions = &features.Sessions{Active: 10}
			w.Sessions.ByAge[min(i-300, 5)].Alive = 10
		}
		f.Observe([]features.Window{window("p", "batch", i, 5), w}, nil)
	}
	if y := said(p.class(features.Key{Pool: "p", Class: "chat"}).series[0]); !(y < chat) {
		t.Errorf("after an hour of silence %v is expected, %v before it", y, chat)
	}
}

// What sessions let expect is the same after a restore between two minutes.
func TestSessionsSurviveARestore(t *testing.T) {
	f := New(Config{Settle: 2 * time.Minute})
	observeTalk(f, 0, 200)
	g := restoredOf(t, f)
	for at := 200; at <= 230; at += 30 {
		if diff := cmp.Diff(f.Forecast(minuteAt(at)), g.Forecast(minuteAt(at))); diff != "" {
			t.Fatalf("at minute %d (-uninterrupted +restored):\n%s", at, diff)
		}
		observeTalk(f, at, 30)
		observeTalk(g, at, 30)
	}
}
