package pipeline

import (
	"bytes"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

// encoded is the whole output of a tick, byte for byte.
func encoded(o *Output) string {
	encode := func(v any) []byte {
		b, err := encoder.Marshal(v)
		if err != nil {
			panic(err)
		}
		return b
	}
	var nowcasts []byte // which windows leave out
	for i := range o.Windows {
		nowcasts = append(nowcasts, encode(o.Windows[i].Nowcast)...)
	}
	line := o.Tick.Format("15:04")
	for _, part := range []struct {
		name string
		b    []byte
	}{
		{"windows", encode(o.Windows)}, {"nowcasts", nowcasts}, {"pools", encode(o.Pools)}, {"producers", encode(o.Producers)},
		{"forecasts", encode(o.Forecasts)}, {"projections", encode(o.Projections)},
		{"decisions", encode(o.Decisions)}, {"alerts", encode(o.Alerts)},
	} {
		line += " " + part.name + " " + digest(part.b)[:12]
	}
	return line
}

// TestMixedLogIsExact: on a log in which everything happens, a pipeline that is saved and restored again and again has
// the same outputs and the same state as one that runs through.
func TestMixedLogIsExact(t *testing.T) {
	for _, clock := range []Clock{WallClock, EventClock} {
		t.Run(string(clock), func(t *testing.T) {
			cfg, log := mixedConfig(t, clock), mixedLog(7, 40)
			var want []string
			whole := New(cfg)
			nowcasts := 0
			apply(whole, log, func(o *Output) {
				want = append(want, encoded(o))
				for i := range o.Windows {
					nowcasts += len(o.Windows[i].Nowcast)
				}
			})
			if nowcasts == 0 {
				t.Error("nothing was nowcast")
			}
			var got []string
			p := New(cfg)
			for part := range slices.Chunk(log, 1009) {
				apply(p, part, func(o *Output) { got = append(got, encoded(o)) })
				p = reborn(t, cfg, p)
			}
			for i := range want {
				if i >= len(got) || want[i] != got[i] {
					t.Fatalf("from here on it says something else:\n%s\n%s", want[i:], got[i:])
				}
			}
			if !bytes.Equal(saved(t, whole), saved(t, p)) || whole.Omissions() != p.Omissions() {
				t.Error("the final state differs")
			}
			everythingHappened(t, whole)
		})
	}
}

func reborn(t *testing.T, cfg Config, p *Pipeline) *Pipeline {
	t.Helper()
	snapshot := saved(t, p)
	q, err := Restore(cfg, bytes.NewReader(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(snapshot, saved(t, q)) {
		t.Fatal("a snapshot is another once it was restored")
	}
	return q
}

// everythingHappened makes sure that the log led to all the state there is.
func everythingHappened(t *testing.T, p *Pipeline) {
	t.Helper()
	c, o := p.Counters(), p.Omissions()
	for _, reason := range []ingest.Reason{ingest.ReasonDuplicate, ingest.ReasonLate, ingest.ReasonFuture, ingest.ReasonUnknownPool} {
		if c.Refused[reason] == 0 {
			t.Errorf("nothing was refused as %s", reason)
		}
	}
	if o.Features.Amended == 0 || !p.state.Calls.Adopted || !p.state.Calls.Arrivals {
		t.Errorf("%d amended, %+v", o.Features.Amended, p.state.Calls)
	}
}
