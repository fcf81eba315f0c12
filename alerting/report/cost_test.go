package report

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	rates "github.com/forewarm/forewarm/forecaster/capacity"
)

// ledger is a history of random demand and decisions.
type ledger struct {
	past
	values map[ledgerKey][]float64
}

type ledgerKey struct {
	features.Key
	dimension string
}

func (l *ledger) Observed(_ context.Context, from, to time.Time, fn func(features.Key, string, []float64) error) error {
	for k, of := range l.values {
		var values []float64
		for t := from; t.Before(to); t = t.Add(time.Minute) {
			values = append(values, at(of, int(t.Sub(start)/time.Minute)))
		}
		if err := fn(k.Key, k.dimension, values); err != nil {
			return err
		}
	}
	return nil
}

func drawLedger(t *rapid.T) *ledger {
	l := &ledger{values: map[ledgerKey][]float64{}}
	minutes := rapid.IntRange(1, 8).Draw(t, "minutes")
	classes := rapid.SampledFrom([]int{1, 2, 3, 22}).Draw(t, "classes")
	for c := range classes {
		key := features.Key{Pool: "p", Class: strconv.Itoa(c)}
		for _, d := range features.Dimensions {
			if d.Name != features.DimRequests && rapid.IntRange(0, 5).Draw(t, "missing") == 0 {
				continue // the class does not report it
			}
			of, all := ledgerKey{key, d.Name}, ledgerKey{features.Key{Pool: "p", Class: features.TotalClass}, d.Name}
			for m := range minutes {
				v := float64(rapid.IntRange(0, 1_000_000).Draw(t, d.Name)) / 1000 // rounding of tiny demands would add up to more
				l.values[of] = append(l.values[of], v)
				if len(l.values[all]) <= m {
					l.values[all] = append(l.values[all], 0)
				}
				l.values[all][m] += v
			}
		}
	}
	for m := range minutes {
		n := func(name string) int { return rapid.IntRange(0, 4).Draw(t, name) }
		d := alerting.Decision{Pool: "p", Tick: minute(m), Ready: n("ready"), Pending: n("pending"), Desired: 1, Lead: 12 * time.Minute, Basis: &alerting.Basis{Least: n("least"), ReplicaHourUSD: 6, GPUsPerReplica: 2},
			Reserves: rates.Reserves{Failure: n("failure"), Rollout: n("rollout"), Maintenance: n("maintenance"), Warm: n("warm")}}
		for _, dim := range []string{features.DimPrefill, features.DimDecode, features.DimKV} {
			if n(dim) > 0 {
				d.Resources = append(d.Resources, alerting.ResourceEvidence{Dimension: dim, PerReplica: 3000})
			}
		}
		l.decisions = append(l.decisions, d)
	}
	return l
}

// TestSumOfCostShares: the shares of classes add up to one.
func TestSumOfCostShares(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sum := 0.
		for _, x := range reconcile(t, drawLedger(r), 0, 30).Pools[0].Totals {
			switch share := float64(x.CostShare); {
			case math.IsNaN(share):
				return // the cost is unknown
			case x.Class == features.TotalClass && math.Abs(share-1) > 1e-9:
				r.Errorf("the share of the pool is %g, want 1", share)
			case x.Class != features.TotalClass:
				sum += share
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			r.Errorf("classes add up to %g", sum)
		}
	})
}

// TestCostByHand: an hour of four replicas at $3, and two classes. One has only prompts, the other only outputs.
func TestCostByHand(t *testing.T) {
	l := &ledger{values: map[ledgerKey][]float64{}}
	for dimension, byClass := range map[string][2]float64{ // reader, writer
		features.DimRequests: {1, 1}, features.DimServed: {.5, 1}, features.DimPrefill: {1500, 0}, features.DimDecode: {0, 300}, features.DimWastedPrefill: {450, 0},
	} {
		for range 60 {
			for class, v := range map[string]float64{"reader": byClass[0], "writer": byClass[1], features.TotalClass: byClass[0] + byClass[1]} {
				k := ledgerKey{features.Key{Pool: "p", Class: class}, dimension}
				l.values[k] = append(l.values[k], v)
			}
		}
	}
	for m := range 60 {
		l.decisions = append(l.decisions, alerting.Decision{Pool: "p", Tick: minute(m), Ready: 4, Desired: 4, Lead: 12 * time.Minute,
			Basis: &alerting.Basis{ReplicaHourUSD: 3}, Reserves: rates.Reserves{Maintenance: 1},
			Resources: []alerting.ResourceEvidence{{Dimension: features.DimPrefill, PerReplica: 750}, {Dimension: features.DimDecode, PerReplica: 300}}})
	}
	for i, want := range []struct{ share, served float64 }{
		// Prefill takes two replicas and decode one: the reader pays two thirds of $12.
		{1, 12. / 5400}, {2. / 3, 8. / 1800}, {1. / 3, 4. / 3600},
	} {
		x := reconcile(t, l, 0, 60).Pools[0].Totals[i]
		if math.Abs(float64(x.CostShare)-want.share) > 1e-9 || math.Abs(float64(x.ServedUSD)-want.served) > 1e-9 {
			t.Errorf("%s has a share of %g, $%g a served request; want %+v", x.Class, x.CostShare, x.ServedUSD, want)
		}
	}
}
