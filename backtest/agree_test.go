package backtest

import (
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// On the same traffic and replicas, up to a tenth of the minutes saturated, a pool in which work flows and one that serves
// each request agree: on the minutes that are saturated to a twenty-fifth of all, on what is met of the objectives to 0.03,
// and on the mean use of the KV cache to 0.05. Deeper in saturation they do not: with three replicas 64 and 95 of 238
// minutes are, for the queue's order, its timeouts and the clients' retries do not flow.
func TestFluidAgreesWithRequests(t *testing.T) {
	sizes := []int{5, 6, 8, 10}
	type pair struct {
		pools [2]simulated
		use   [2]float64
	}
	r, err := newRunner(t.Context(), RunConfig{Traces: []string{writeTrace(t, 4*time.Hour)}, Simulate: Requests, PeakReplicas: 10})
	if err != nil {
		t.Fatal(err)
	}
	var pairs []pair
	for _, n := range sizes {
		r.pool.Replicas.Initial = n
		requests, err := r.simulate(r.pool, r.cfg.Seed)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair{pools: [2]simulated{NewFluidPool(r.pool, r.demand.Start, r.cfg.Seed), requests}})
	}
	err = r.read("run", func(source eventLog, _ bool) error {
		var batch ingest.Batch
		for {
			if err := source.Next(&batch); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			for i := range pairs {
				for k, p := range pairs[i].pools {
					for j := range batch.Requests {
						p.Submit(&batch.Requests[j])
					}
					if batch.Watermark != nil {
						p.Step(r.demand.At(batch.Watermark.At.Add(-time.Minute)))
						pairs[i].use[k] += p.Observe().KVUse
					}
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pairs {
		a, b := pairs[i].pools[0].Account(), pairs[i].pools[1].Account()
		minutes := float64(a.Minutes)
		if off := math.Abs(float64(a.Saturated - b.Saturated)); a.Minutes != b.Minutes || off > minutes/25 {
			t.Errorf("%d replicas: %d of %d minutes are saturated where work flows, %d of %d where requests are served", sizes[i], a.Saturated, a.Minutes, b.Saturated, b.Minutes)
		}
		met := [2]float64{share(a.Met, a.Asked), share(b.Met, b.Asked)}
		if math.Abs(met[0]-met[1]) > .03 {
			t.Errorf("%d replicas: %.3f met where work flows, %.3f where requests are served", sizes[i], met[0], met[1])
		}
		if use := [2]float64{pairs[i].use[0] / minutes, pairs[i].use[1] / minutes}; math.Abs(use[0]-use[1]) > .05 {
			t.Errorf("%d replicas: KV use %.3f where work flows, %.3f where requests are served", sizes[i], use[0], use[1])
		}
	}
	if a, b := pairs[0].pools[0].Account(), pairs[len(pairs)-1].pools[0].Account(); a.Saturated == 0 || b.Saturated > 0 {
		t.Errorf("%d replicas are saturated for %d minutes, %d for %d: nothing to compare", sizes[0], a.Saturated, sizes[len(sizes)-1], b.Saturated)
	}
}
