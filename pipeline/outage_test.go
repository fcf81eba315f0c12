package pipeline

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// TestRecordsOfOutage: while no daemon runs the stream gets records but no watermarks. All records count, there is a
// tick for every minute, and no decision for the past.
func TestRecordsOfOutage(t *testing.T) {
	const minutes, from, to = 300, 20, 250
	for name, first := range map[string]int{"in between": 0, "before the first start": from} {
		t.Run(name, func(t *testing.T) {
			cfg := eventConfig(t, "p")
			cfg.Clock = WallClock
			p := New(cfg)
			var newest, ticks, decided int
			emit := func(o *Output) {
				ticks++
				if len(o.Decisions()) > 0 {
					decided++
					newest = int(o.Tick.Sub(midnight) / time.Minute)
					if newest > from && newest < to {
						t.Errorf("a decision for minute %d, which is in the past", newest)
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
			if ticks < minutes-first-1 || newest != minutes-1 || decided < minutes-to {
				t.Errorf("%d ticks, %d with decisions, the newest at minute %d", ticks, decided, newest)
			}
		})
	}
}

// TestRecordsBeforeFirstWatermark: records of three hours that arrive at once before the first watermark are all
// counted, each minute once, without a decision.
func TestRecordsBeforeFirstWatermark(t *testing.T) {
	const minutes = 180
	cfg := eventConfig(t, "p")
	cfg.Clock, cfg.Features.Lateness = WallClock, 10*time.Second
	p := New(cfg)
	requests, decisions := map[time.Time]float64{}, 0
	emit := func(o *Output) {
		decisions += len(o.Decisions())
		for i := range o.Windows {
			requests[o.Windows[i].Start] = o.Windows[i].Requests
		}
	}
	now := midnight.Add(minutes * time.Minute)
	for m := range minutes {
		p.Apply(&ingest.Batch{ReceivedAt: now, Requests: oneRequest(midnight.Add(time.Duration(m) * time.Minute))}, emit)
	}
	if decisions != 0 {
		t.Errorf("%d decisions for the past", decisions)
	}
	p.Apply(&ingest.Batch{ReceivedAt: now.Add(cfg.Features.Lateness), Watermark: &ingest.Watermark{At: now}}, emit)
	if c := p.Counters(); c.Records != minutes || len(c.Refused) != 0 || decisions != 1 {
		t.Errorf("counters %+v, %d decisions", c, decisions)
	}
	for m := range minutes {
		if at := midnight.Add(time.Duration(m) * time.Minute); requests[at] != 1 {
			t.Errorf("minute %s has %g requests, want 1", at, requests[at])
		}
	}
}

// TestTicksInLongGap: a gap of a century has few ticks. The minutes before it settle.
func TestTicksInLongGap(t *testing.T) {
	cfg := eventConfig(t, "p")
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
			t.Errorf("minute %s did not settle", at)
		}
	}
}

// TestForecastAfterGap: after a gap of three days, forecasts of classes and of the pool use the minutes before it, with
// both clocks.
func TestForecastAfterGap(t *testing.T) {
	const before, after, gap = 230, 10, 3 * 24 * time.Hour
	for _, clock := range []Clock{EventClock, WallClock} {
		t.Run(string(clock), func(t *testing.T) {
			cfg := eventConfig(t, "p")
			cfg.Clock = clock
			cfg.Classify = features.ClassifyConfig{}
			p := New(cfg)
			known := map[string]int{}
			emit := func(o *Output) {
				for i := range o.Pools {
					clear(known)
					for _, f := range append(o.Pools[i].Forecast.Classes, o.Pools[i].Forecast.Total...) {
						if f.Dimension == features.DimPrefill {
							known[f.Class] = f.Known
						}
					}
				}
			}
			for m := range before + after {
				at := midnight.Add(time.Duration(m) * time.Minute)
				if m >= before {
					at = at.Add(gap)
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
					t.Errorf("the forecast of class %s is from %d known minutes, want at least %d", class, known[class], before)
				}
			}
		})
	}
}

// TestReplayOfLateWatermarks: while the stream refuses watermarks, a daemon ticks without them. When they are stored
// later, a replay of the stream makes the same decisions and ends in the same state.
func TestReplayOfLateWatermarks(t *testing.T) {
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
	run := func(replay bool) (decided []time.Time, state []byte) {
		p := New(cfg)
		apply := func(b *ingest.Batch) {
			p.Apply(b, func(o *Output) {
				for range o.Decisions() {
					decided = append(decided, o.Tick)
				}
			})
		}
		for m := range minutes {
			if m == free { // the watermarks of the refused minutes are stored
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
		return decided, saved(t, p)
	}
	live, state := run(false)
	replayed, replayedState := run(true)
	if diff := cmp.Diff(live, replayed); diff != "" || len(live) < minutes-1 {
		t.Errorf("decisions at %d ticks (-live +replayed):\n%s", len(live), diff)
	}
	if !bytes.Equal(state, replayedState) {
		t.Error("the states differ")
	}
}
