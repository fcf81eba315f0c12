package pipeline

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// sender is a producer of one request per second.
type sender struct {
	name        string
	ahead       time.Duration // error of its clock
	every       int           // seconds between messages
	from, until int           // seconds
}

// send applies the messages of senders on the wall clock and returns the last output with decisions.
func send(t *testing.T, cfg Config, minutes int, senders ...sender) (last Output, p *Pipeline) {
	t.Helper()
	p = New(cfg)
	emit := func(o *Output) {
		if len(o.Decisions()) > 0 {
			last = *o
		}
	}
	held := make([][]ingest.Request, len(senders))
	for s := range minutes * 60 {
		now := midnight.Add(time.Duration(s) * time.Second)
		for i, x := range senders {
			if s < x.from || x.until > 0 && s >= x.until {
				continue
			}
			end := now.Add(x.ahead)
			held[i] = append(held[i], ingest.Request{
				ID: fmt.Sprint(x.name, s), Pool: "p", Class: "chat", Attempt: 1, ArrivedAt: end.Add(-2 * time.Second), FinishedAt: end,
				PromptTokens: 100, CachedTokens: ingest.Unknown, OutputTokens: 10, MaxOutputTokens: ingest.Unknown,
			})
			if s%x.every == x.every-1 {
				p.Apply(&ingest.Batch{Sequence: p.state.Sequence + 1, ReceivedAt: now.Add(40 * time.Millisecond), Source: x.name, Requests: held[i]}, emit)
				held[i] = nil
			}
		}
		if s%60 == 10 {
			p.Apply(&ingest.Batch{Sequence: p.state.Sequence + 1, ReceivedAt: now, Watermark: &ingest.Watermark{At: now.Truncate(time.Minute)}}, emit)
		}
	}
	return last, p
}

func wallConfig(t *testing.T) Config {
	cfg := eventConfig(t, "p")
	cfg.Clock, cfg.Features.Lateness, cfg.Features.FutureBound = WallClock, 10*time.Second, 2*time.Minute
	return cfg
}

// TestClocksOfProducers: the errors of clocks that are ahead and behind are measured, and a decision warns of them. A
// producer that sends in batches is not warned of.
func TestClocksOfProducers(t *testing.T) {
	senders := []sender{
		{name: "ahead", ahead: 90 * time.Second, every: 1},
		{name: "batches", every: 60},
		{name: "behind", ahead: -5 * time.Minute, every: 1},
		{name: "right", every: 1},
		{name: "second", every: 2},
	}
	out, _ := send(t, wallConfig(t), 30, senders...)
	skew := map[string]float64{"ahead": 89.96, "batches": 0, "behind": -300, "right": 0, "second": 0}
	for _, x := range out.Producers {
		if want := skew[x.Name]; math.Abs(float64(x.Skew)-want) > .2 {
			t.Errorf("the clock of %s is off by %.2f s, want %.2f", x.Name, x.Skew, want)
		}
	}
	if len(out.Producers) != len(senders) {
		t.Errorf("%d producers, want %d", len(out.Producers), len(senders))
	}
	for _, x := range out.Producers {
		if late := out.Tick.Sub(*x.Watermark); x.Name == "behind" && (late < 4*time.Minute || late > 6*time.Minute) {
			t.Errorf("the watermark of %s is %s behind the tick, want 5m", x.Name, late)
		}
	}
	var faults []string
	for _, f := range out.Pools[0].Forecast.Minute.Faults {
		faults = append(faults, f.Producer+" "+string(f.Kind))
	}
	if diff := cmp.Diff([]string{"ahead clock_ahead", "behind clock_behind"}, faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	warnings := strings.Join(out.Pools[0].Decision.Warnings, "\n")
	for _, part := range []string{"producer ahead is about 90 s ahead", "producer behind come about 5 min late"} {
		if !strings.Contains(warnings, part) {
			t.Errorf("no warning has %q:\n%s", part, warnings)
		}
	}
}

// TestFutureRecordsByProducer: with a future_bound below the error of a clock, records are refused and counted by
// producer.
func TestFutureRecordsByProducer(t *testing.T) {
	cfg := wallConfig(t)
	cfg.Features.FutureBound = time.Minute
	out, p := send(t, cfg, 20, sender{name: "ahead", ahead: 90 * time.Second, every: 1}, sender{name: "right", every: 1})
	ahead := out.Producers[0]
	if n := p.Counters().Refused[ingest.ReasonFuture]; n != 20*60 || ahead.Records != ahead.Future || ahead.Future < 1100 || out.Producers[1].Future != 0 {
		t.Errorf("%d records refused, by the last tick %d of the %d from the producer ahead", n, ahead.Future, ahead.Records)
	}
	if w := strings.Join(out.Pools[0].Decision.Warnings, "\n"); !strings.Contains(w, fmt.Sprintf("or are refused (%d so far)", ahead.Future)) {
		t.Errorf("the decision does not warn of them:\n%s", w)
	}
	if len(out.Pools[0].Forecast.Minute.Faults) != 1 {
		t.Errorf("faults %v, want one", out.Pools[0].Forecast.Minute.Faults)
	}
}

// TestSilentProducer: it is a fault if one of two gateways becomes silent. It is not if both do, nor for a producer
// that sends rarely or sent only briefly.
func TestSilentProducer(t *testing.T) {
	const stops = 15 * 60
	for name, x := range map[string]struct {
		senders []sender
		want    int
	}{
		"one of two": {[]sender{{name: "a", every: 1}, {name: "b", every: 1, until: stops}}, 1},
		"both":       {[]sender{{name: "a", every: 1, until: stops}, {name: "b", every: 1, until: stops}}, 0},
		"one, brief": {[]sender{{name: "a", every: 1}, {name: "b", every: 1, from: stops - 100, until: stops}}, 0},
		"one, rare":  {[]sender{{name: "a", every: 1}, {name: "b", every: 240}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := wallConfig(t)
			cfg.Features.StaleAfter = 3 * time.Minute
			out, _ := send(t, cfg, 30, x.senders...)
			var silent []features.ProducerFault
			for _, f := range out.Pools[0].Forecast.Minute.Faults {
				if f.Kind == features.FaultSilent {
					silent = append(silent, f)
				}
			}
			if len(silent) != x.want {
				t.Fatalf("faults %v, want %d", out.Pools[0].Forecast.Minute.Faults, x.want)
			}
			if x.want > 0 && (silent[0].Producer != "b" || silent[0].Since.Sub(midnight).Round(time.Minute) != stops*time.Second) {
				t.Errorf("fault %v, want b since it stopped", silent[0])
			}
			if w := strings.Join(out.Pools[0].Decision.Warnings, "\n"); strings.Contains(w, "Producer b has sent nothing since 00:14 UTC") != (x.want > 0) {
				t.Errorf("the decision warns:\n%s", w)
			}
		})
	}
}

// TestProducersOnTheEventClock: the state does not depend on when the stream stored the records.
func TestProducersOnTheEventClock(t *testing.T) {
	run := func(stored time.Duration) (string, Output) {
		p := New(eventConfig(t, "p"))
		var last Output
		for i, b := range mixedLog(3, 30) {
			b.Source, b.ReceivedAt = fmt.Sprint("gateway", i%2), midnight.Add(time.Duration(i)*stored)
			p.Apply(&b, func(o *Output) { last = *o })
		}
		s := saved(t, p)
		return digest(s), last
	}
	one, out := run(time.Second)
	if two, _ := run(time.Hour); one != two {
		t.Error("the state depends on when the stream stored the records")
	}
	if len(out.Producers) != 2 || out.Producers[0].Records == 0 || out.Producers[0].Skew.Known() {
		t.Errorf("producers %+v of %+v", out.Producers, out.Pools[0])
	}
}
