package backtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

// surge is Poisson traffic of three classes. Between from and to it has factor times its usual rate.
type surge struct {
	from, to, end time.Duration
	factor        float64
}

func (s surge) arrivals(seed uint64) (out []Arrival) {
	classes := []struct {
		name                  string
		perSecond             float64
		median, sigma         float64
		cached, output, limit float64
	}{
		{"chat", 1.5, 900, .8, .5, 260, 2000},
		{"rag", .5, 4000, .4, .1, 220, 1000},
		{"agent", .4, 7000, .6, .85, 180, 4000},
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	total := 0.0
	for _, c := range classes {
		total += c.perSecond
	}
	for at := 0.0; at < s.end.Seconds(); {
		rate := total
		if at >= s.from.Seconds() && at < s.to.Seconds() {
			rate *= s.factor
		}
		at += rng.ExpFloat64() / rate
		x, i := rng.Float64()*total, 0
		for x > classes[i].perSecond {
			x -= classes[i].perSecond
			i++
		}
		c := classes[i]
		prompt := math.Ceil(min(c.median*math.Exp(c.sigma*rng.NormFloat64()), 60_000))
		out = append(out, Arrival{
			ID: uint64(len(out) + 1), At: DefaultStart.Add(time.Duration(at * 1e9)), Class: c.name, Tenant: "t", Session: 1,
			PromptTokens: int64(prompt), CachedTokens: int64(prompt * c.cached * rng.Float64() * 2 / (1 + c.cached)),
			OutputTokens: int64(min(1+rng.ExpFloat64()*c.output, c.limit)), MaxOutputTokens: int64(c.limit),
		})
	}
	return out
}

// served runs arrivals through a pool, and passes its telemetry to each, second by second.
func served(t *testing.T, cfg ClusterConfig, arrivals []Arrival, end time.Duration, each func(now time.Time, rs []ingest.Request, replicas []ingest.Replica)) Metrics {
	c := NewCluster(cfg)
	for at := DefaultStart; at.Before(DefaultStart.Add(end)); {
		at = at.Add(time.Second)
		for len(arrivals) > 0 && !arrivals[0].At.After(at) {
			c.Submit(arrivals[0])
			arrivals = arrivals[1:]
		}
		c.Advance(at)
		requests, replicas := c.Drain()
		each(at, requests, replicas)
	}
	return c.Metrics()
}

// TestDemandOfASaturatedPool: for twenty minutes, clients ask for several times what a pool can serve. Its queue grows,
// requests time out, clients cancel, and all of them retry. In a shorter surge, all wait until they are served. The
// demand that is computed from telemetry is what was asked for, within 5 %. Throughput and KV use are limited by the
// capacity.
func TestDemandOfASaturatedPool(t *testing.T) {
	long := surge{from: 30 * time.Minute, to: 50 * time.Minute, end: 65 * time.Minute, factor: 10}
	short := surge{from: 30 * time.Minute, to: 36 * time.Minute, end: 60 * time.Minute, factor: 10}
	for name, s := range map[string]struct {
		surge
		change  func(*ClusterConfig)
		unknown bool // when requests leave the queue, as with records of a gateway
	}{
		"records at the end":     {long, func(*ClusterConfig) {}, false},
		"records at arrival too": {long, func(c *ClusterConfig) { c.ReportArrivals = true }, false},
		"no timeouts":            {short, func(c *ClusterConfig) { c.QueueTimeout, c.Patience, c.MaxQueue = time.Hour, 0, 1<<20 }, false},
		"starts are unknown":     {long, func(*ClusterConfig) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			arrivals := s.arrivals(7)
			cfg := DefaultClusterConfig()
			cfg.Replicas = 2
			cfg.PrefillTokensPerS = 15_000
			cfg.QueueTimeout, cfg.Patience = 40*time.Second, 50*time.Second
			truth := offered(t, cfg, s.surge, arrivals)
			s.change(&cfg)
			got, generated, held := aggregated(t, cfg, s.surge, arrivals, s.unknown)
			for _, d := range []string{features.DimRequests, features.DimPrefill, features.DimDecode, features.DimKV} {
				if math.Abs(got[d]/truth[d]-1) > .05 {
					t.Errorf("%s: the demand is computed as %.1f, want %.1f", d, got[d], truth[d])
				}
			}
			// Without its start, a request seems to hold its prompt while it waits.
			if generated > .8*truth[features.DimDecode] || held > .9*truth[features.DimKV] && !s.unknown {
				t.Error("throughput is not limited: the pool was not saturated")
			}
		})
	}
}

// offered returns the mean demand during the surge. KV is what the requests hold when they are spread over so many
// pools that each has its usual load.
func offered(t *testing.T, cfg ClusterConfig, load surge, arrivals []Arrival) map[string]float64 {
	from, to := DefaultStart.Add(load.from), DefaultStart.Add(load.to)
	span := to.Sub(from).Seconds()
	truth := map[string]float64{}
	for _, a := range arrivals {
		if a.At.Before(from) || !a.At.Before(to) {
			continue
		}
		truth[features.DimRequests] += 1 / span
		truth[features.DimPrefill] += float64(a.PromptTokens-a.CachedTokens) / span
		truth[features.DimDecode] += float64(a.OutputTokens) / span
	}
	cfg.Patience = 0
	var all []ingest.Request
	collect := func(_ time.Time, rs []ingest.Request, _ []ingest.Replica) { all = append(all, rs...) }
	shares := make([][]Arrival, int(load.factor))
	rng := rand.New(rand.NewPCG(1, 2))
	for _, a := range arrivals {
		i := rng.IntN(len(shares))
		shares[i] = append(shares[i], a)
	}
	for _, share := range shares {
		if m := served(t, cfg, share, load.end, collect); m.Rejected > 0 {
			t.Fatalf("pools with enough capacity rejected %d requests", m.Rejected)
		}
	}
	kv := counted(all, DefaultStart, int(load.end/time.Minute))[load.from/time.Minute : load.to/time.Minute]
	truth[features.DimKV] = floats.Sum(kv) / float64(len(kv))
	return truth
}

// aggregated returns the mean demand during the surge by the pipeline, and the tokens generated and held.
func aggregated(t *testing.T, cfg ClusterConfig, load surge, arrivals []Arrival, unknown bool) (mean map[string]float64, generated, held float64) {
	pool, err := capacity.New(cfg.Capacity(3000), nil)
	if err != nil {
		t.Fatal(err)
	}
	config := pipeline.DefaultConfig()
	config.Clock, config.Pools = pipeline.EventClock, []capacity.Pool{pool}
	p := pipeline.New(config)
	newest := map[features.Key]map[time.Time]features.Window{}
	emit := func(out *pipeline.Output) {
		for _, w := range out.Windows {
			if newest[w.Key] == nil {
				newest[w.Key] = map[time.Time]features.Window{}
			}
			newest[w.Key][w.Start] = w
		}
	}
	m := served(t, cfg, arrivals, load.end, func(now time.Time, rs []ingest.Request, replicas []ingest.Replica) {
		for i := range rs {
			if unknown {
				rs[i].StartedAt = time.Time{}
			}
		}
		b := ingest.Batch{Requests: rs, Replicas: replicas}
		if now.Equal(now.Truncate(time.Minute)) {
			b.Watermark = &ingest.Watermark{Pool: cfg.Pool, At: now}
		}
		p.Apply(&b, emit)
		if len(b.Refused) > 0 {
			t.Fatalf("refused: %+v", b.Refused[0])
		}
	})
	if want := cfg.Patience > 0; (m.Rejected > 0) != want || (m.Cancelled > 0) != want || (m.Retries > 0) != want {
		t.Fatalf("rejections, cancellations and retries: %v, want %v: %+v", !want, want, m)
	}

	mean = map[string]float64{}
	minutes := (load.to - load.from).Minutes()
	from, to := DefaultStart.Add(load.from), DefaultStart.Add(load.to)
	for _, d := range features.Dimensions {
		for _, windows := range newest {
			for start, w := range windows {
				if v, ok := d.Value(&w); ok && !start.Before(from) && start.Before(to) {
					mean[d.Name] += v / minutes
				}
			}
		}
	}
	for _, windows := range newest {
		for start, w := range windows {
			if inside := !start.Before(from) && start.Before(to); inside {
				generated += w.OutputTokens / 60 / minutes
				held += w.KVTokenSeconds / 60 / minutes
			}
			if saturated := start.After(from.Add(time.Minute)) && start.Before(to); saturated && !w.Censored {
				t.Errorf("%s at %s is not marked as censored", w.Key, start.Format("15:04"))
			}
			if start.Before(from) && w.Censored {
				t.Errorf("%s at %s is marked as censored", w.Key, start.Format("15:04"))
			}
		}
	}
	return mean, generated, held
}
