package capacity

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestCheapestMix holds the search against trying every number of every type.
func TestCheapestMix(t *testing.T) {
	demand := map[string]float64{KV: 1e6, Prefill: 1e5, Decode: 1e4}
	rapid.Check(t, func(t *rapid.T) {
		const most = 6
		types := make([]Type, rapid.IntRange(1, 3).Draw(t, "types"))
		for i := range types {
			types[i] = Type{
				Name: "t", HourUSD: rapid.Float64Range(1, 20).Draw(t, "price"), Max: most,
				KVCapacityTokens: rapid.Float64Range(1e5, 1e6).Draw(t, "kv"), PrefillTokensPerS: rapid.Float64Range(1e4, 1e5).Draw(t, "prefill"),
				DecodeTokensPerS: rapid.Float64Range(1e3, 1e4).Draw(t, "decode"),
			}
		}
		failure := rapid.IntRange(0, 2).Draw(t, "failure")
		best := math.Inf(1)
		counts := make([]int, len(types))
		var try func(i int)
		try = func(i int) {
			if i < len(types) {
				for counts[i] = 0; counts[i] <= most; counts[i]++ {
					try(i + 1)
				}
				counts[i] = 0
				return
			}
			price, shares := 0.0, []float64{}
			for j := range types {
				price += float64(counts[j]) * types[j].HourUSD
				share, _ := types[j].Share(demand)
				for range counts[j] {
					shares = append(shares, share)
				}
			}
			for range failure { // the largest are lost
				at := -1
				for j, x := range shares {
					if at < 0 || x > shares[at] {
						at = j
					}
				}
				if at >= 0 {
					shares[at] = 0
				}
			}
			sum := 0.0
			for _, x := range shares {
				sum += x
			}
			if sum >= 1-1e-9 {
				best = min(best, price)
			}
		}
		try(0)
		got, ok := CheapestMix(types, demand, failure)
		if ok != !math.IsInf(best, 1) || ok && !near(got.HourUSD, best, 1e-9) {
			t.Fatalf("%+v costs %g (found: %t), the best %g", got.Replicas, got.HourUSD, ok, best)
		}
	})
}

func TestShareOfType(t *testing.T) {
	x := Type{KVCapacityTokens: 100, PrefillTokensPerS: 50, DecodeTokensPerS: 10}
	if share, binding := x.Share(map[string]float64{KV: 170, Prefill: 140, Decode: 30}); share != .25 || binding != Prefill {
		t.Errorf("%g bound by %s", share, binding)
	}
	if share, binding := x.Share(nil); share != 0 || binding != "" {
		t.Errorf("%g of nothing, bound by %q", share, binding)
	}
}
