package backtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

// shape is what requests are like: so many a second, with lognormal lengths.
type shape struct{ perSecond, prompt, output float64 }

// TestDiagnosesTheSimulatedPool: a simulated pool is given, after forty quiet minutes, what fills one of its resources, and the
// decisions name that one within ten minutes, from its telemetry alone; before, they name none.
func TestDiagnosesTheSimulatedPool(t *testing.T) {
	const quiet, end = 40 * time.Minute, 55 * time.Minute
	usual := shape{2, 800, 150}
	for _, x := range []struct {
		name   string
		change func(*ClusterConfig)
		then   shape
		want   alerting.Bottleneck
	}{
		{"prompts are longer", func(*ClusterConfig) {}, shape{2, 5000, 60}, alerting.BottleneckPrefill},
		{"answers are longer", func(c *ClusterConfig) { c.KVCapacityTokens, c.MaxNumSeqs = 1<<20, 256 }, shape{2, 800, 1800}, alerting.BottleneckDecode},
		{"the cache is full", func(c *ClusterConfig) { c.KVCapacityTokens, c.PrefillTokensPerS = 60_000, 40_000 }, shape{3, 4000, 900}, alerting.BottleneckKV},
		{"the slots are taken", func(c *ClusterConfig) {
			c.KVCapacityTokens, c.MaxNumSeqs, c.ITL.PerSequence = 1<<20, 24, time.Millisecond
		}, shape{4, 800, 600}, alerting.BottleneckSlots},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := DefaultClusterConfig()
			cfg.Pool, cfg.Initial, cfg.Min, cfg.Max, cfg.QueueTimeout = "sim", 2, 2, 2, 5*time.Minute
			x.change(&cfg)
			rng := rand.New(rand.NewPCG(3, 4))
			length := func(median float64) int64 { return int64(math.Ceil(median * math.Exp(.4*rng.NormFloat64()))) }
			var arrivals []Arrival
			for at, now := time.Duration(0), usual; at < end; {
				if at > quiet {
					now = x.then
				}
				at += time.Duration(rng.ExpFloat64() / now.perSecond * float64(time.Second))
				arrivals = append(arrivals, Arrival{
					ID: uint64(len(arrivals) + 1), At: DefaultStart.Add(at), Class: "chat", PromptTokens: length(now.prompt), OutputTokens: length(now.output),
				})
			}
			pool, err := capacity.New(cfg.Capacity(1000), nil)
			if err != nil {
				t.Fatal(err)
			}
			pc := pipeline.DefaultConfig()
			pc.Clock, pc.Pools, pc.Decision.Mode = pipeline.EventClock, []capacity.Pool{pool}, alerting.Active
			p := pipeline.New(pc)
			named := map[alerting.Bottleneck]int{}
			var batch ingest.Batch
			served(t, cfg, arrivals, end, func(now time.Time, rs []ingest.Request, replicas []ingest.Replica) {
				batch.Requests, batch.Replicas = append(batch.Requests, rs...), append(batch.Replicas, replicas...)
				if !now.Equal(now.Truncate(features.Minute)) {
					return
				}
				batch.Watermark = &ingest.Watermark{Pool: cfg.Pool, At: now}
				p.Apply(&batch, func(out *pipeline.Output) {
					for i := range out.Decisions {
						d := &out.Decisions[i]
						switch after := d.Tick.Sub(DefaultStart.Add(quiet)); {
						case after <= 0 && d.Diagnosis != alerting.BottleneckNone:
							t.Errorf("minute %s: %q while nothing has changed", d.Tick.Sub(DefaultStart), d.Diagnosis)
						case after > 0:
							t.Logf("minute %s: %q", after, d.Diagnosis)
							named[d.Diagnosis]++
						}
					}
				})
				batch = ingest.Batch{}
			})
			for other, n := range named {
				if other != alerting.BottleneckNone && n > named[x.want] {
					t.Errorf("%q is named in %d minutes, %q in %d", other, n, x.want, named[x.want])
				}
			}
			if named[x.want] < 3 {
				t.Errorf("%q is named in %d minutes", x.want, named[x.want])
			}
		})
	}
}
