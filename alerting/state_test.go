package alerting

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
)

// A day of decisions, half of it without replica reports, is the same with a snapshot and a restore after each tick.
func TestDecideRestored(t *testing.T) {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	zone := time.Local
	time.Local = time.FixedZone("elsewhere", 3600)
	defer func() { time.Local = zone }()
	cfg := DefaultConfig()
	cfg.Mode = Active
	var whole, restored State
	scaleOuts := 0
	for minute := range 24 * 60 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		demand := 800 - 500*math.Cos(2*math.Pi*float64(minute)/(24*60))
		s := scene{ready: 4, median: flat(demand), spread: .1, last: demand}
		s.edit = func(in *Input) {
			if minute/90%2 == 1 {
				in.Minute.State = features.PoolState{}
				return
			}
			// Reports follow the requests, with fractions of seconds.
			in.Minute.State.Ready = max(whole.LastDesired-1, 1)
			in.Minute.State.Pending = 1
			in.Minute.State.PendingSince = []time.Time{now.Add(-1500 * time.Millisecond)}
		}
		in := s.input(t)
		var a, b Decision
		a, whole = Decide(now, in, whole, cfg)
		b, restored = Decide(now, in, restored, cfg)
		if diff := cmp.Diff(bytesOf(t, a), bytesOf(t, b)); diff != "" {
			t.Fatalf("minute %d: %s", minute, diff)
		}
		if a.Action == ScaleOut {
			scaleOuts++
		}
		data, err := enc.Marshal(restored)
		if err != nil {
			t.Fatal(err)
		}
		restored = State{}
		if err := cbor.Unmarshal(data, &restored); err != nil {
			t.Fatal(err)
		}
		again, err := enc.Marshal(restored)
		if err != nil || string(again) != string(data) {
			t.Fatalf("minute %d: the state changes in a snapshot (%v)", minute, err)
		}
	}
	if scaleOuts == 0 {
		t.Error("no decision scaled out: the test proves nothing")
	}
}

// bytesOf is a decision as it is in the journal.
func bytesOf(t *testing.T, d Decision) string {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
