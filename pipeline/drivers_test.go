package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// stream is one class of a workload.
type stream struct {
	rate           float64 // requests per second
	prompt, output float64 // medians of log-normal lengths
	hit            float64 // share of the prompt that is in the cache
	retried        float64 // share of calls whose first attempt fails and is retried
	heavyTenant    float64 // share of requests of the tenant "t0"; the others have equal shares
	heavyFeature   float64
}

// flatTraffic is three classes with four requests per second in total.
func flatTraffic() map[string]stream {
	return map[string]stream{
		"chat":  {rate: 2, prompt: 800, output: 200, hit: .5, heavyTenant: .15, heavyFeature: .4},
		"agent": {rate: 1, prompt: 3000, output: 300, hit: .7, heavyTenant: .15, heavyFeature: .4},
		"rag":   {rate: 1, prompt: 2000, output: 150, hit: .3, heavyTenant: .15, heavyFeature: .4},
	}
}

// planted makes the records of one minute. Rates vary by about 10 % from minute to minute.
func planted(rng *rand.Rand, minute int, classes map[string]stream) ingest.Batch {
	start := midnight.Add(time.Duration(minute) * time.Minute)
	b := ingest.Batch{Watermark: &ingest.Watermark{At: start.Add(time.Minute)}}
	named := func(kind string, heavy float64) string {
		if rng.Float64() < heavy {
			return kind + "0"
		}
		return fmt.Sprint(kind, 1+rng.IntN(7))
	}
	for _, class := range []string{"chat", "agent", "rag", "new"} {
		c, ok := classes[class]
		if !ok {
			continue
		}
		mean := 60 * c.rate * math.Exp(.1*rng.NormFloat64())
		for n := range int(mean + math.Sqrt(mean)*rng.NormFloat64()) {
			at := start.Add(time.Duration(rng.Float64() * float64(time.Minute)))
			prompt := min(int64(c.prompt*math.Exp(.8*rng.NormFloat64())), 60_000)
			r := ingest.Request{
				ID: fmt.Sprint(class, minute, "-", n), Pool: "p", Class: class, Attempt: 1,
				Tenant: named("t", c.heavyTenant), Feature: named("f", c.heavyFeature), ArrivedAt: at, FirstTokenAt: at.Add(300 * time.Millisecond),
				PromptTokens: prompt, CachedTokens: int64(float64(prompt) * min(max(c.hit+.1*rng.NormFloat64(), 0), 1)),
				OutputTokens: min(int64(c.output*math.Exp(.8*rng.NormFloat64())), 20_000), MaxOutputTokens: ingest.Unknown,
			}
			r.FinishedAt = r.FirstTokenAt.Add(time.Duration(r.OutputTokens) * 20 * time.Millisecond)
			if rng.Float64() < c.retried {
				failed := r
				failed.Status, failed.OutputTokens, failed.FinishedAt = ingest.StatusError, 0, at.Add(time.Second)
				b.Requests = append(b.Requests, failed)
				r.Attempt, r.ArrivedAt, r.FirstTokenAt, r.FinishedAt = 2, at.Add(2*time.Second), r.FirstTokenAt.Add(2*time.Second), r.FinishedAt.Add(2*time.Second)
			}
			b.Requests = append(b.Requests, r)
		}
	}
	slices.SortFunc(b.Requests, func(a, b ingest.Request) int { return a.ArrivedAt.Compare(b.ArrivedAt) })
	return b
}

// driversOf applies a workload, and returns the drivers that its decisions name, by minute.
func driversOf(t *testing.T, seed uint64, rates capacity.Config, minutes int, at func(minute int) map[string]stream) map[int][]forecaster.Driver {
	rates.Name, rates.Replicas = "p", capacity.Replicas{Min: 1, Max: 30, Initial: 3}
	pool, err := capacity.New(rates, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Clock, cfg.Features.Lateness, cfg.Pools = EventClock, 0, []capacity.Pool{pool}
	p, rng, out := New(cfg), rand.New(rand.NewPCG(seed, 7)), map[int][]forecaster.Driver{}
	for m := range minutes {
		classes := at(m)
		if classes == nil { // no telemetry
			continue
		}
		b := planted(rng, m, classes)
		p.Apply(&b, func(o *Output) {
			for _, d := range o.Decisions() {
				out[int(o.Tick.Sub(midnight)/time.Minute)] = slices.Clone(d.Drivers)
			}
		})
	}
	return out
}

// TestDrivers plants one change of one class in noisy traffic of three. 10, 15 and 25 minutes later the first driver
// must be that change, in 90 % of the cases.
func TestDrivers(t *testing.T) {
	prefill := capacity.Config{PrefillTokensPerS: 5000}
	decode := capacity.Config{DecodeTokensPerS: 800}
	kv := capacity.Config{KVCapacityTokens: 40_000}
	tests := []struct {
		name   string
		pool   capacity.Config
		change func(map[string]stream, string) // of a class
		want   func(d *forecaster.Driver, class string) bool
	}{
		{"rate", decode, changeOf(func(s *stream) { s.rate *= 2 }), causeIs(forecaster.CauseRate)},
		{"mix", prefill, func(c map[string]stream, class string) {
			s, total := c[class], 4.
			for name, other := range c {
				other.rate *= (total - 1.8*s.rate) / (total - s.rate)
				c[name] = other
			}
			s.rate *= 1.8
			c[class] = s
		}, causeIs(forecaster.CauseMix)},
		{"new class", decode, func(c map[string]stream, _ string) {
			c["new"] = stream{rate: 1.5, prompt: 1000, output: 300}
		}, func(d *forecaster.Driver, _ string) bool { return d.Class == "new" && d.Cause == forecaster.CauseMix }},
		{"prompt length", prefill, changeOf(func(s *stream) { s.prompt *= 1.8 }), causeIs(forecaster.CausePrompt)},
		{"prompt length, KV binds", kv, changeOf(func(s *stream) { s.prompt *= 1.8 }), causeIs(forecaster.CausePrompt)},
		{"output length", decode, changeOf(func(s *stream) { s.output *= 1.8 }), causeIs(forecaster.CauseOutput)},
		{"cache", prefill, changeOf(func(s *stream) { s.hit = .1 }), causeIs(forecaster.CauseCache)},
		{"retries", prefill, changeOf(func(s *stream) { s.retried = .4 }), causeIs(forecaster.CauseRetries)},
		{"tenant", decode, changeOf(func(s *stream) { s.rate, s.heavyTenant = s.rate*1.6, (s.heavyTenant+.6)/1.6 }), func(d *forecaster.Driver, class string) bool {
			return d.Class == class && d.Tenant == "t0" && d.TenantRise > 0 && d.Cause == forecaster.CauseRate
		}},
		{"feature", prefill, changeOf(func(s *stream) { s.rate, s.heavyFeature = s.rate*1.6, (s.heavyFeature+.6)/1.6 }), func(d *forecaster.Driver, class string) bool {
			return d.Class == class && d.Feature == "f0" && d.FeatureRise > 0 && d.Cause == forecaster.CauseRate
		}},
	}
	seeds := 6
	if testing.Short() {
		seeds = 1
	}
	const onset = 95
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			right, cases := 0, 0
			for seed := range seeds {
				class := []string{"chat", "agent", "rag"}[seed%3]
				if tt.name == "cache" {
					class = "agent"
				}
				changed := flatTraffic()
				tt.change(changed, class)
				got := driversOf(t, uint64(seed), tt.pool, onset+26, func(m int) map[string]stream {
					if m >= onset {
						return changed
					}
					return flatTraffic()
				})
				for _, after := range []int{10, 15, 25} {
					cases++
					if d := got[onset+after]; len(d) > 0 && tt.want(&d[0], class) {
						right++
					} else if len(d) > 0 {
						t.Logf("seed %d, %s, %d minutes later: %s %s %.2f %s %.2f %s %.2f", seed, class, after, d[0].Class, d[0].Cause, d[0].Factor, d[0].Tenant, d[0].TenantRise, d[0].Feature, d[0].FeatureRise)
					}
				}
			}
			t.Logf("named first in %d of %d", right, cases)
			if cases > 4 && float64(right) < .9*float64(cases) {
				t.Errorf("named first in %d of %d cases", right, cases)
			}
		})
	}
}

// changeOf is a change of one class.
func changeOf(change func(*stream)) func(map[string]stream, string) {
	return func(c map[string]stream, class string) {
		s := c[class]
		change(&s)
		c[class] = s
	}
}

func causeIs(cause string) func(*forecaster.Driver, string) bool {
	return func(d *forecaster.Driver, class string) bool { return d.Class == class && d.Cause == cause }
}

// TestNoDriverOfFlatTraffic: noise and gaps in telemetry are not named as a cause.
func TestNoDriverOfFlatTraffic(t *testing.T) {
	for name, reported := range map[string]func(minute int) bool{
		"always":        func(int) bool { return true },
		"after a gap":   func(m int) bool { return m < 40 || m >= 48 },
		"after an hour": func(m int) bool { return m < 40 || m >= 100 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			minutes := 0
			for seed := range uint64(3) {
				for m, drivers := range driversOf(t, seed, capacity.Config{PrefillTokensPerS: 5000}, 180, func(m int) map[string]stream {
					if !reported(m) {
						return nil
					}
					return flatTraffic()
				}) {
					minutes++
					for _, d := range drivers {
						if d.Cause != "" || d.TenantRise != 0 || d.FeatureRise != 0 {
							t.Errorf("seed %d, minute %d: %s %s %.2f %.2f %.2f", seed, m, d.Class, d.Cause, d.Factor, d.TenantRise, d.FeatureRise)
						}
					}
				}
			}
			t.Logf("%d decisions", minutes)
		})
	}
}

// TestDriverOfStep: two minutes after a step, the class that became the largest has the largest share.
func TestDriverOfStep(t *testing.T) {
	const seeds, step, later = 10, 100, 2
	named := 0
	for seed := range uint64(seeds) {
		drivers := driversOf(t, seed, capacity.Config{DecodeTokensPerS: 800}, step+later+1, func(m int) map[string]stream {
			classes := flatTraffic()
			if m >= step {
				changeOf(func(s *stream) { s.rate *= 3 })(classes, "agent")
			}
			return classes
		})[step+later]
		byShare := func(a, b forecaster.Driver) int { return cmp.Compare(a.Share, b.Share) }
		if len(drivers) > 0 && slices.MaxFunc(drivers, byShare).Class == "agent" {
			named++
		}
	}
	if named < 9 {
		t.Errorf("named after %d of %d steps", named, seeds)
	}
}
