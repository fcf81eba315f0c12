package pipeline

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// TestTelemetryOfAnOutageCounts: while no daemon runs the stream gets records and no watermark. All of them count,
// every minute is learned, and no advice is given for what is past.
func TestTelemetryOfAnOutageCounts(t *testing.T) {
	const minutes, from, to = 300, 20, 250
	for name, first := range map[string]int{"in between": 0, "before the first start": from} {
		t.Run(name, func(t *testing.T) {
			cfg := eventConfig(t, "p")
			cfg.Clock = WallClock
			p := New(cfg)
			var newest, ticks, advised int
			emit := func(o *Output) {
				ticks++
				if len(o.Decisions) > 0 {
					advised++
					newest = int(o.Tick.Sub(midnight) / time.Minute)
					if newest > from && newest < to {
						t.Errorf("advice for minute %d, which had passed", newest)
					}
				}
			}
			for m := first; m < minutes; m++ {
				at := midnight.Add(time.Duration(m) * time.Minute)
				p.Apply(&ingest.Batch{ReceivedAt: at.Add(time.Second), Requests: oneRequest(at)}, emit)
				if m < from || m >= to {
					p.Apply(&ingest.Batch{ReceivedAt: at.Add(time.Second), Watermark: &ingest.Watermark{At: at}}, emit)
				}
			}
			if c := p.Counters(); c.Records != uint64(minutes-first) || len(c.Refused) != 0 {
				t.Errorf("counters %+v, want all %d records", c, minutes-first)
			}
			if ticks < minutes-first-1 || newest != minutes-1 || advised < minutes-to {
				t.Errorf("%d ticks, %d with advice, the newest at minute %d", ticks, advised, newest)
			}
		})
	}
}

// TestPastLoadedIntoAnEmptyStateCounts: records of hours that arrive at once before the first watermark are all
// learned, each minute once, without advice.
func TestPastLoadedIntoAnEmptyStateCounts(t *testing.T) {
	const minutes = 180
	cfg := eventConfig(t, "p")
	cfg.Clock, cfg.Features.Lateness = WallClock, 10*time.Second
	p := New(cfg)
	learned, advised := map[time.Time]float64{}, 0
	emit := func(o *Output) {
		advised += len(o.Decisions)
		for i := range o.Windows {
			learned[o.Windows[i].Start] = o.Windows[i].Requests
		}
	}
	now := midnight.Add(minutes * time.Minute)
	for m := range minutes {
		p.Apply(&ingest.Batch{ReceivedAt: now, Requests: oneRequest(midnight.Add(time.Duration(m) * time.Minute))}, emit)
	}
	if advised != 0 {
		t.Errorf("%d decisions for what has passed", advised)
	}
	p.Apply(&ingest.Batch{ReceivedAt: now.Add(cfg.Features.Lateness), Watermark: &ingest.Watermark{At: now}}, emit)
	if c := p.Counters(); c.Records != minutes || len(c.Refused) != 0 || advised != 1 {
		t.Errorf("counters %+v, %d decisions", c, advised)
	}
	for m := range minutes {
		if at := midnight.Add(time.Duration(m) * time.Minute); learned[at] != 1 {
			t.Errorf("minute %s has %g requests, want 1", at, learned[at])
		}
	}
}

// TestHolesAreJumpedOver: a century of silence is not ticked through, and what came before it settles all the same.
func TestHolesAreJumpedOver(t *testing.T) {
	cfg := eventConfig(t, "p")
	cfg.Every = time.Hour // what is decided does not matter here
	p := New(cfg)
	apply(p, mixedLog(5, 10), func(*Output) {})
	end := midnight.AddDate(100, 0, 0)
	settled, ticks := map[time.Time]bool{}, 0
	emit := func(o *Output) {
		ticks++
		for i := range o.Windows {
			if w := &o.Windows[i]; w.Settled {
				settled[w.Start] = true
			}
		}
	}
	for range leapConfirm {
		b := ingest.Batch{Requests: oneRequest(end)}
		p.Apply(&b, emit)
	}
	if most := int((maxCatchUp + 2*cfg.Features.Revise) / time.Minute); !p.LastTick().Equal(end) || ticks > most {
		t.Errorf("%d ticks up to %s, want at most %d up to %s", ticks, p.LastTick(), most, end)
	}
	for m := range 10 {
		if at := midnight.Add(time.Duration(m) * time.Minute); !settled[at] {
			t.Errorf("minute %s never settled", at)
		}
	}
}

// TestHolesForgetNothing: telemetry that was away for three days comes back to what had been learned of each class and
// of the pool, whichever clock found the hole.
func TestHolesForgetNothing(t *testing.T) {
	const before, after, hole = 230, 10, 3 * 24 * time.Hour
	for _, clock := range []Clock{EventClock, WallClock} {
		t.Run(string(clock), func(t *testing.T) {
			cfg := eventConfig(t, "p")
			cfg.Clock, cfg.Every = clock, time.Hour
			cfg.Classify = features.ClassifyConfig{}
			p := New(cfg)
			known := map[string]int{}
			emit := func(o *Output) {
				for i := range o.Forecasts {
					clear(known)
					for _, f := range append(o.Forecasts[i].Classes, o.Forecasts[i].Total...) {
						if f.Dimension == features.DimPrefill {
							known[f.Class] = f.Known
						}
					}
				}
			}
			for m := range before + after {
				at := midnight.Add(time.Duration(m) * time.Minute)
				if m >= before {
					at = at.Add(hole)
				}
				b := ingest.Batch{ReceivedAt: at.Add(time.Minute), Watermark: &ingest.Watermark{At: at.Add(time.Minute)}}
				for i := range 2 * leapConfirm {
					b.Requests = append(b.Requests, ingest.Request{
						Pool: "p", Class: []string{"full", "light"}[i%2], ArrivedAt: at.Add(time.Duration(i) * time.Second),
						PromptTokens: int64(2000 - 1000*(i%2)), CachedTokens: ingest.Unknown, OutputTokens: 10, MaxOutputTokens: ingest.Unknown,
					})
				}
				p.Apply(&b, emit)
			}
			for _, class := range []string{"full", "light", features.TotalClass} {
				if known[class] < before {
					t.Errorf("class %s is forecast from %d known minutes, want those before the hole, %d", class, known[class], before)
				}
			}
		})
	}
}

// TestOfflineTicksReplay: ticks that the daemon took while its stream refused the watermarks are made again, with the
// same advice and state, by who reads the stream once these watermarks were stored in it, late.
func TestOfflineTicksReplay(t *testing.T) {
	const full, free, minutes = 30, 40, 50
	cfg := eventConfig(t, "p")
	cfg.Clock = WallClock
	at := func(m int) time.Time { return midnight.Add(time.Duration(m) * time.Minute) }
	record := func(m int) *ingest.Batch {
		return &ingest.Batch{ReceivedAt: at(m).Add(time.Second), Sequence: uint64(m + 1), Requests: oneRequest(at(m))}
	}
	mark := func(m int, stored time.Time) *ingest.Batch {
		return &ingest.Batch{ReceivedAt: stored, Watermark: &ingest.Watermark{At: at(m)}}
	}
	run := func(replay bool) (advised []time.Time, state []byte) {
		p := New(cfg)
		apply := func(b *ingest.Batch) {
			p.Apply(b, func(o *Output) {
				for range o.Decisions {
					advised = append(advised, o.Tick)
				}
			})
		}
		for m := range minutes {
			if m == free { // the watermarks of the minutes before are stored
				for k := full; k < free; k++ {
					apply(mark(k, at(m)))
				}
			}
			switch {
			case m < full || m >= free:
				apply(record(m))
				apply(mark(m, at(m).Add(time.Second)))
			case !replay:
				apply(mark(m, at(m).Add(5*time.Second)))
			}
		}
		return advised, saved(t, p)
	}
	lived, state := run(false)
	again, replayed := run(true)
	if diff := cmp.Diff(lived, again); diff != "" || len(lived) < minutes-1 {
		t.Errorf("advice at %d ticks (-lived +replayed):\n%s", len(lived), diff)
	}
	if !bytes.Equal(state, replayed) {
		t.Error("the states differ")
	}
}
