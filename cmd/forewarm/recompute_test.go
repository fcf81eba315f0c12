package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage"
)

// simulation is a pool with traffic, scaled as its decisions say. Its results go to a data directory.
type simulation struct {
	start   time.Time
	minutes int
	classes []func(m int) traffic     // of a minute, by class
	lost    func(m int) bool          // no telemetry comes
	held    func(m int) bool          // records come 25 minutes late
	lag     func(m int) time.Duration // of a replica's start

	rng      *rand.Rand
	replicas []simulatedReplica
	named    int
}

// traffic is the traffic of a class in a minute.
type traffic struct {
	requests, prompt, cached, output float64 // means; cached is a share of the prompt
	again                            float64 // the share of requests with a second attempt
}

type simulatedReplica struct {
	name  string
	ready time.Time
}

// run runs the pipeline over the traffic, and stores its outputs.
func (s *simulation) run(t *testing.T, pool capacity.Config, h *simulatedHistory) {
	t.Helper()
	p, err := capacity.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := pipeline.DefaultConfig()
	cfg.Clock, cfg.Pools = pipeline.EventClock, []capacity.Pool{p}
	cfg.Decision.Mode = alerting.Active
	pipe := pipeline.New(cfg)
	s.rng = rand.New(rand.NewPCG(7, 7))
	s.scale(pool.Replicas.Initial, s.start.Add(-time.Hour), 0)
	emit := func(out *pipeline.Output) {
		for _, d := range out.Decisions() {
			h.add(t, d)
			m := int(out.Tick.Sub(s.start) / time.Minute)
			s.scale(d.Desired, out.Tick, m)
		}
		if err := h.store.Append(out); err != nil {
			t.Fatal(err)
		}
	}
	later := map[int][]ingest.Request{} // by the minute they end in
	for m := range s.minutes {
		now := s.start.Add(time.Duration(m) * time.Minute)
		for c, class := range s.classes {
			s.arrive(later, m, fmt.Sprint("c", c), class(m))
		}
		b := ingest.Batch{Watermark: &ingest.Watermark{At: now.Add(time.Minute)}}
		switch {
		case s.lost != nil && s.lost(m):
			delete(later, m)
			pipe.Apply(&b, emit)
			continue
		case s.held != nil && s.held(m):
			later[m+25] = append(later[m+25], later[m]...)
		default:
			b.Requests = later[m]
		}
		delete(later, m)
		for i := range s.replicas {
			r := ingest.Replica{Pool: pool.Name, Name: s.replicas[i].name, At: now.Add(50 * time.Second), KVCapacityTokens: int64(pool.KVCapacityTokens), KVUsedTokens: ingest.Unknown,
				KVUsedRatio: math.NaN(), Running: ingest.Unknown, Waiting: 0, PreemptionsTotal: ingest.Unknown, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown, StartupSeconds: math.NaN()}
			if r.At.Before(s.replicas[i].ready) {
				r.State = ingest.ReplicaLoading
			}
			b.Replicas = append(b.Replicas, r)
		}
		pipe.Apply(&b, emit)
	}
}

// scale starts or stops replicas.
func (s *simulation) scale(desired int, now time.Time, m int) {
	for len(s.replicas) < desired {
		lag := 6 * time.Minute
		if s.lag != nil {
			lag = s.lag(m)
		}
		s.named++
		s.replicas = append(s.replicas, simulatedReplica{fmt.Sprint("r", s.named), now.Add(lag + time.Duration(s.rng.IntN(60))*time.Second)})
	}
	s.replicas = s.replicas[:desired]
}

// arrive adds the requests of a class in minute m to later, by the minute in which they end.
func (s *simulation) arrive(later map[int][]ingest.Request, m int, class string, a traffic) {
	n := int(a.requests + s.rng.Float64() + math.Sqrt(a.requests)*s.rng.NormFloat64())
	for i := range n {
		at := s.start.Add(time.Duration(m)*time.Minute + time.Duration(s.rng.IntN(60000))*time.Millisecond)
		vary := func(mean float64) int64 { return int64(mean * (.5 + s.rng.Float64())) }
		r := ingest.Request{ID: fmt.Sprint(class, "-", m, "-", i), Pool: "p", Class: class, Attempt: 1, ArrivedAt: at, PromptTokens: vary(a.prompt), OutputTokens: vary(a.output), MaxOutputTokens: ingest.Unknown}
		r.CachedTokens = int64(float64(r.PromptTokens) * a.cached)
		r.FirstTokenAt = at.Add(500 * time.Millisecond)
		r.FinishedAt = r.FirstTokenAt.Add(time.Duration(r.OutputTokens) * 20 * time.Millisecond)
		ends := int(r.FinishedAt.Sub(s.start) / time.Minute)
		later[ends] = append(later[ends], r)
		if s.rng.Float64() < a.again {
			r.Attempt = 2
			later[ends] = append(later[ends], r)
		}
	}
}

func diurnal(m int) float64 { return 1 + .5*math.Sin(2*math.Pi*float64(m)/1440) }

// eventful returns a day with so many times the usual requests, and these events:
//   - 10:00 to 11:00: prompts of class c1 are longer times as long;
//   - 12:00 to 12:15: telemetry comes too late to count;
//   - 14:00 to 14:25: no telemetry comes;
//   - 16:00 to 16:40: the prefix cache is empty;
//   - 20:00 to 23:00: replicas take 20 minutes to start, and requests double.
func eventful(longer, requests float64) *simulation {
	within := func(m, from, minutes int) bool { return m >= from*60 && m < from*60+minutes }
	f := &simulation{start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), minutes: 26 * 60}
	f.classes = []func(int) traffic{
		func(m int) traffic {
			a := traffic{requests: requests * 40 * diurnal(m), prompt: 1200, cached: .75, output: 250, again: .05}
			if within(m, 20, 180) {
				a.requests *= 2
			}
			if within(m, 16, 40) {
				a.cached = 0
			}
			return a
		},
		func(m int) traffic {
			a := traffic{requests: requests * 12 * diurnal(m+200), prompt: 4000, cached: .3, output: 350}
			if within(m, 10, 60) {
				a.prompt *= longer
			}
			if within(m, 16, 40) {
				a.cached = 0
			}
			return a
		},
	}
	f.lost = func(m int) bool { return within(m, 14, 25) }
	f.held = func(m int) bool { return within(m, 12, 15) }
	f.lag = func(m int) time.Duration {
		if within(m, 20, 180) {
			return 20 * time.Minute
		}
		return 6 * time.Minute
	}
	return f
}

var usualPool = capacity.Config{
	Name: "p", KVCapacityTokens: 40_000, PrefillTokensPerS: 300, PrefillTarget: 1, DecodeTokensPerS: 110, MaxNumSeqs: 64, GPU: capacity.GPU{PerReplica: 2}, GPUHourUSD: 3, SLOViolationMinuteUSD: 2,
	Warmup: capacity.Lag{P50: 5 * time.Minute, P90: 8 * time.Minute}, Replicas: capacity.Replicas{Min: 1, Initial: 4, Max: 12},
	Reserves: capacity.Reserves{Failure: 1},
}

// TestReportRecomputed computes the main numbers of a report from the stored data, by brute force and with other code
// than the report: for a pool with one role, and for a disaggregated one.
func TestReportRecomputed(t *testing.T) {
	disaggregated := usualPool
	disaggregated.Disaggregated.PrefillReplicas = capacity.Replicas{Min: 1, Initial: 3, Max: 20}
	disaggregated.Replicas = capacity.Replicas{Min: 1, Initial: 3, Max: 3} // too few in the morning
	disaggregated.KVCapacityTokens, disaggregated.PrefillTokensPerS, disaggregated.DecodeTokensPerS = 120_000, 900, 330
	for name, c := range map[string]struct {
		*simulation
		pool capacity.Config
	}{
		"one role": {eventful(3, 1), usualPool}, "disaggregated": {eventful(2, 3), disaggregated},
	} {
		t.Run(name, func(t *testing.T) {
			sc := storage.DefaultConfig()
			sc.Dir = t.TempDir()
			store, err := storage.OpenStore(sc, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}()
			h := &simulatedHistory{History: storage.History{Series: store}, store: store}
			c.run(t, c.pool, h)
			from, to := c.start.Add(7*time.Hour), c.start.Add(25*time.Hour)
			r, err := report.Reconcile(t.Context(), h, report.Span{From: from, To: to, Zone: time.UTC})
			if err != nil {
				t.Fatal(err)
			}
			x := &recomputed{T: t, raw: readRaw(t, h), from: from.Unix() / 60, to: to.Unix() / 60}
			x.raw.end = x.to
			p := &r.Pools[0]
			x.accuracy(p)
			x.totals(p)
			x.saturation(p)
			x.decisions(p)
		})
	}
}

// simulatedHistory has decisions in memory, in place of the log.
type simulatedHistory struct {
	store *storage.Store
	storage.History
	all []alerting.Decision
}

// add adds a copy of d, encoded and decoded as in the log.
func (l *simulatedHistory) add(t *testing.T, d *alerting.Decision) {
	t.Helper()
	var x alerting.Decision
	if err := cbor.Unmarshal(must(cbor.Marshal(d)), &x); err != nil {
		t.Fatal(err)
	}
	l.all = append(l.all, x)
}

func (l *simulatedHistory) Decisions(_ context.Context, from, to time.Time, fn func(*alerting.Decision) error) error {
	for i := range l.all {
		if d := &l.all[i]; !d.Tick.Before(from) && d.Tick.Before(to) {
			if err := fn(d); err != nil {
				return err
			}
		}
	}
	return nil
}
