package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// edgeTraffic is what gateways report of a synthetic workload, minute by minute, each request when it ends.
func edgeTraffic(minutes int) [][]ingest.Request {
	w := NewWorkload(WorkloadConfig{Rate: 0.2}, 11)
	random := rand.New(rand.NewPCG(5, 5))
	out := make([][]ingest.Request, minutes)
	for {
		a := w.Next()
		if a.At.Sub(DefaultStart) >= time.Duration(minutes)*time.Minute {
			return out
		}
		first := a.At.Add(time.Duration(100+random.IntN(2000)) * time.Millisecond)
		end := first.Add(time.Duration(a.OutputTokens) * 25 * time.Millisecond)
		r := ingest.Request{
			ID: fmt.Sprint(a.ID), Pool: DefaultPool, Class: a.Class, Tenant: a.Tenant, Session: a.Session, Attempt: 1,
			ArrivedAt: a.At, StartedAt: a.At.Add(time.Duration(random.IntN(100)) * time.Millisecond), FirstTokenAt: first, FinishedAt: end,
			PromptTokens: a.PromptTokens, CachedTokens: a.CachedTokens, OutputTokens: a.OutputTokens, MaxOutputTokens: a.MaxOutputTokens,
		}
		if a.ID%50 == 0 {
			r.Attempt = 2
			retried := r
			retried.Attempt = 1
			put(out, retried)
		}
		put(out, r)
	}
}

func put(out [][]ingest.Request, r ingest.Request) {
	if m := int(r.FinishedAt.Sub(DefaultStart) / time.Minute); m < len(out) {
		out[m] = append(out[m], r)
	}
}

func edgeConfig(t testing.TB, agent string) forewarm.Config {
	t.Helper()
	pool, err := capacity.New(capacity.Config{
		Name: DefaultPool, KVCapacityTokens: 400_000, PrefillTokensPerS: 8000, DecodeTokensPerS: 2000, Replicas: capacity.Replicas{Min: 1, Max: 30, Initial: 3},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := forewarm.DefaultConfig()
	c.Clock, c.Features.Lateness, c.Agent, c.Pools = forewarm.EventClock, 0, agent, []capacity.Pool{pool}
	return c
}

// site is two edges and the one that adds up what they publish.
type site struct {
	t       testing.TB
	edges   [2]*forewarm.Pipeline
	central *forewarm.Pipeline
	out     forewarm.Output // of the newest tick
	largest int             // bytes a window, of the largest message
}

func newSite(t testing.TB) *site {
	s := &site{t: t, central: forewarm.New(edgeConfig(t, ""))}
	for i := range s.edges {
		s.edges[i] = forewarm.New(edgeConfig(t, fmt.Sprint("edge-", i)))
	}
	return s
}

// minute hands each edge its share of a minute's records, and what they publish to the central one by way of the wire.
func (s *site) minute(m int, requests []ingest.Request) {
	end := DefaultStart.Add(time.Duration(m+1) * time.Minute)
	for i, e := range s.edges {
		b := ingest.Batch{Sequence: uint64(m + 2), Watermark: &ingest.Watermark{Pool: DefaultPool, At: end}}
		for _, r := range requests {
			if int(r.Session%2) == i {
				b.Requests = append(b.Requests, r)
			}
		}
		e.Apply(&b, func(o *forewarm.Output) {
			for j := range o.Parts {
				s.deliver(&o.Parts[j])
			}
		})
	}
	s.central.Apply(&ingest.Batch{Watermark: &ingest.Watermark{Pool: DefaultPool, At: end}}, func(o *forewarm.Output) { s.out = *o })
}

func (s *site) deliver(part *ingest.Batch) {
	s.t.Helper()
	data := ingest.AppendProtobuf(nil, part)
	if n := len(part.Windows); n > 0 {
		s.largest = max(s.largest, len(data)/n)
	}
	var b ingest.Batch
	meta, _ := ingest.ParseSubject("f", ingest.WindowSubject("f", part.Source))
	ingest.Decode(meta, data, ingest.DefaultLimits(), &b)
	if len(b.Refused) > 0 {
		s.t.Fatal(b.Refused)
	}
	s.central.Apply(&b, func(o *forewarm.Output) { s.out = *o })
}

var almost = cmp.Options{
	cmpopts.EquateApprox(1e-9, 1e-6), cmpopts.EquateNaNs(), cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(features.PoolMinute{}, "Producers", "Complete"), // edges are producers, too
	cmpopts.IgnoreFields(alerting.Decision{}, "Sequence"),
	cmp.Comparer(func(a, b *sketch.Quantile) bool {
		if a.Count() != b.Count() || math.Abs(a.Sum()-b.Sum()) > 1e-9*a.Sum() {
			return false
		}
		for q := 0.0; q <= 1 && a.Count() > 0; q += 1.0 / 64 {
			if a.Quantile(q) != b.Quantile(q) {
				return false
			}
		}
		return true
	}),
}

// TestEdgesGiveWhatRawRequestsGive: two edges that share the traffic, and publish windows, lead to the same windows,
// forecasts and decisions as the requests themselves.
func TestEdgesGiveWhatRawRequestsGive(t *testing.T) {
	const minutes = 150
	traffic := edgeTraffic(minutes)
	raw, s := forewarm.New(edgeConfig(t, "")), newSite(t)
	var want forewarm.Output
	for m := -1; m < minutes; m++ {
		var requests []ingest.Request
		if m >= 0 { // before, edges make themselves known: the first part that comes ends a minute that nobody else is waited for in
			requests = traffic[m]
		}
		end := DefaultStart.Add(time.Duration(m+1) * time.Minute)
		b := ingest.Batch{Requests: append([]ingest.Request(nil), requests...), Watermark: &ingest.Watermark{Pool: DefaultPool, At: end}}
		raw.Apply(&b, func(o *forewarm.Output) { want = *o })
		s.minute(m, requests)
		if diff := cmp.Diff(want.Windows, s.out.Windows, almost); diff != "" {
			t.Fatalf("windows at %s (-raw +edges):\n%s", want.Tick, diff)
		}
		if m%50 != 49 {
			continue // comparing takes longer than the rest
		}
		if diff := cmp.Diff(want.Forecasts, s.out.Forecasts, almost, cmpopts.IgnoreFields(forecaster.PoolForecast{}, "Paths")); diff != "" {
			t.Fatalf("forecasts at %s (-raw +edges):\n%s", want.Tick, diff)
		}
		if diff := cmp.Diff(want.Decisions, s.out.Decisions, almost); diff != "" {
			t.Fatalf("decisions at %s (-raw +edges):\n%s", want.Tick, diff)
		}
	}
	t.Logf("largest window %d bytes", s.largest)
}
