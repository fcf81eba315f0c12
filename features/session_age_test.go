package features

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
)

// What sessions do is told by the age that they had at the end of the minute before.
func TestSessionsByAge(t *testing.T) {
	a := New(testConfig()) // five minutes of silence end a session
	mustAdd(t, a,
		turn(1, 0, 10, 100, 0, 20), turn(1, 20, 30, 150, 100, 50),
		turn(2, 30, 40, 1000, ingest.Unknown, 100),
	)
	got := sessionsAt(t, a, 1, 1)
	want := Sessions{Begun: SessionActs{Woke: 2, Turns: 3, Prefill: 1150, Output: 170}}
	want.ByAge[0].Alive = 2
	check := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want.ByAge, got.ByAge); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		if diff := cmp.Diff(want.Begun, got.Begun); diff != "" {
			t.Errorf("%s, new ones (-want +got):\n%s", when, diff)
		}
	}
	check("after a minute")
	sessionsAt(t, a, 2, 2)
	retry := changed(turn(2, 155, 156, 1000, 0, 9), attempt(2)) // the first is silent from 0:30, the second from 0:40
	mustAdd(t, a, turn(1, 150, 155, 300, 250, 5), turn(1, 160, 165, 310, 300, 5), retry, turn(3, 170, 171, 10, 0, 1))
	got = sessionsAt(t, a, 3, 3)
	want = Sessions{Begun: SessionActs{Woke: 1, Turns: 1, Prefill: 10, Output: 1}}
	want.ByAge[1].SessionActs = SessionActs{Woke: 1, Turns: 2, Prefill: 60, Output: 10}
	want.ByAge[0].Alive = 3
	check("after three minutes")
	got = sessionsAt(t, a, 4, 8)
	want = Sessions{}
	want.ByAge[3].Ended = 3 // silent for four minutes a minute before
	check("after eight minutes")
}
