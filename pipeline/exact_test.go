package pipeline

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// encoded has a digest of each part of the output of a tick.
func encoded(o *Output) string {
	encode := func(v any) []byte {
		b, err := encoder.Marshal(v)
		if err != nil {
			panic(err)
		}
		return b
	}
	var nowcasts []byte // which are not encoded with the windows
	for i := range o.Windows {
		nowcasts = append(nowcasts, encode(o.Windows[i].Nowcast)...)
	}
	line := o.Tick.Format("15:04")
	for _, part := range []struct {
		name string
		b    []byte
	}{
		{"windows", encode(o.Windows)}, {"nowcasts", nowcasts}, {"pools", encode(o.Pools)}, {"producers", encode(o.Producers)},
		{"alerts", encode(o.Alerts)},
	} {
		line += " " + part.name + " " + digest(part.b)[:12]
	}
	return line
}

// TestExactOnMixedLog: on a mixedLog, a pipeline that is stored and restored many times has the same outputs and the
// same state as one that runs without a restart.
func TestExactOnMixedLog(t *testing.T) {
	for _, clock := range []Clock{WallClock, EventClock} {
		t.Run(string(clock), func(t *testing.T) {
			cfg, log := mixedConfig(t, clock), mixedLog(7, 40)
			var want []string
			whole := New(cfg)
			nowcasts := 0
			apply(whole, log, func(o *Output) {
				want = append(want, encoded(o))
				checkUnsettled(t, o, whole.Unsettled())
				for i := range o.Windows {
					nowcasts += len(o.Windows[i].Nowcast)
				}
			})
			if nowcasts == 0 {
				t.Error("the log has no nowcast")
			}
			var got []string
			p := New(cfg)
			for part := range slices.Chunk(log, 1009) {
				apply(p, part, func(o *Output) { got = append(got, encoded(o)) })
				p = restarted(t, cfg, p)
			}
			for i := range want {
				if i >= len(got) || want[i] != got[i] {
					t.Fatalf("the outputs differ from here on:\n%s\n%s", want[i:], got[i:])
				}
			}
			if !bytes.Equal(saved(t, whole), saved(t, p)) || whole.Omissions() != p.Omissions() {
				t.Error("the final state differs")
			}
			checkLogIsMixed(t, whole)
		})
	}
}

// restarted stores a pipeline and restores it.
func restarted(t *testing.T, cfg Config, p *Pipeline) *Pipeline {
	t.Helper()
	snapshot := saved(t, p)
	q, err := Restore(cfg, bytes.NewReader(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(snapshot, saved(t, q)) {
		t.Fatal("the snapshot of a restored pipeline is not the one that it was restored from")
	}
	return q
}

// checkUnsettled compares the windows of a tick with what [Pipeline.Unsettled] says after it.
func checkUnsettled(t *testing.T, o *Output, unsettled []features.Window) {
	t.Helper()
	for i := range o.Windows {
		w := &o.Windows[i]
		at := slices.IndexFunc(unsettled, func(x features.Window) bool { return x.Key == w.Key && x.Start.Equal(w.Start) })
		if w.Settled != (at < 0) || at >= 0 && fmt.Sprint(w.Expected()) != fmt.Sprint(unsettled[at].Expected()) {
			t.Fatalf("%s: the window of %s at %s is not the same (found at %d)", o.Tick, w.Key, w.Start, at)
		}
	}
}

// checkLogIsMixed checks that the log had refusals and arrivals, so that the test covers them.
func checkLogIsMixed(t *testing.T, p *Pipeline) {
	t.Helper()
	c := p.Counters()
	for _, reason := range []ingest.Reason{ingest.ReasonDuplicate, ingest.ReasonLate, ingest.ReasonFuture, ingest.ReasonUnknownPool} {
		if c.Refused[reason] == 0 {
			t.Errorf("nothing was refused as %s", reason)
		}
	}
	if !p.state.Calls.Adopted || !p.state.Calls.Arrivals {
		t.Errorf("%+v", p.state.Calls)
	}
}
