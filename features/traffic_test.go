package features

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/internal/value"
)

func TestTrafficOf(t *testing.T) {
	nan := value.Unknown
	flat := slices.Repeat([]float64{2}, 60)
	// An hour at 1 with a burst of 15 minutes and one of 5, each at 10. In split an unknown minute divides the longer
	// one.
	bursty := slices.Repeat([]float64{1}, 60)
	for m := range 15 {
		bursty[10+m] = 10
	}
	for m := range 5 {
		bursty[40+m] = 10
	}
	split := slices.Clone(bursty)
	split[15] = math.NaN()
	const mean, splitMean = 240. / 60, 230. / 59
	levels := func(p50, p90, p95, p99 value.Number) map[string]value.Number {
		return map[string]value.Number{"0.5": p50, "0.9": p90, "0.95": p95, "0.99": p99}
	}
	bursts := func(p50, p90, most value.Number) map[string]value.Number {
		return map[string]value.Number{"p50": p50, "p90": p90, "max": most}
	}
	for _, c := range []struct {
		name   string
		values []float64
		want   Traffic
	}{
		{"flat", flat, Traffic{Minutes: 60, Mean: 2, Peak1: 1, Peak15: 1, Quantiles: levels(2, 2, 2, 2), BurstMinutes: bursts(nan, nan, nan)}},
		{"bursts", bursty, Traffic{Minutes: 60, Mean: mean, Peak1: 10 / mean, Peak15: 10 / mean, Quantiles: levels(1, 10, 10, 10),
			Bursts: 2, BurstMinutes: bursts(10, 14, 15)}},
		{"a gap", split, Traffic{Minutes: 59, Mean: splitMean, Peak1: 10 / splitMean, Peak15: (9*10 + 6) / 15. / splitMean, Quantiles: levels(1, 10, 10, 10),
			Bursts: 3, BurstMinutes: bursts(5, 8.2, 9)}},
		{"too short for fifteen", []float64{1, 3}, Traffic{Minutes: 2, Mean: 2, Peak1: 1.5, Peak15: nan, Quantiles: levels(2, 2.8, 2.9, 2.98), BurstMinutes: bursts(nan, nan, nan)}},
		{"silence", []float64{0, 0}, Traffic{Minutes: 2, Peak1: nan, Peak15: nan, Quantiles: levels(0, 0, 0, 0), BurstMinutes: bursts(nan, nan, nan)}},
		{"unknown", []float64{math.NaN()}, Traffic{Mean: nan, Peak1: nan, Peak15: nan, Quantiles: levels(nan, nan, nan, nan), BurstMinutes: bursts(nan, nan, nan)}},
	} {
		got := TrafficOf(Key{}, "", c.values)
		if diff := cmp.Diff(c.want, got, cmp.Transformer("", func(n value.Number) float64 { return float64(n) }), cmpopts.EquateApprox(1e-12, 1e-12), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if text, err := json.Marshal(got); err != nil || strings.Contains(string(text), "NaN") {
			t.Errorf("%s: %s, %v", c.name, text, err)
		}
	}
}
