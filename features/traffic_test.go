package features

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTrafficOf(t *testing.T) {
	nan := math.NaN()
	flat := slices.Repeat([]float64{2}, 60)
	// An hour at 1, in it a burst of 15 minutes and one of 5, each at 10, and an unknown minute that splits the longer.
	bursty := slices.Repeat([]float64{1}, 60)
	for m := range 15 {
		bursty[10+m] = 10
	}
	for m := range 5 {
		bursty[40+m] = 10
	}
	split := slices.Clone(bursty)
	split[15] = nan
	mean, splitMean := 240./60, 230./59
	for _, c := range []struct {
		name   string
		values []float64
		want   Traffic
	}{
		{"flat", flat, Traffic{Minutes: 60, Mean: 2, Peak1: 1, Peak15: 1, Quantiles: [4]float64{2, 2, 2, 2}, BurstP50: nan, BurstP90: nan, BurstMax: nan}},
		{"bursts", bursty, Traffic{Minutes: 60, Mean: mean, Peak1: 10 / mean, Peak15: 10 / mean, Quantiles: [4]float64{1, 10, 10, 10},
			Bursts: 2, BurstP50: 10, BurstP90: 14, BurstMax: 15}},
		{"a hole", split, Traffic{Minutes: 59, Mean: splitMean, Peak1: 10 / splitMean, Peak15: (9*10 + 6) / 15. / splitMean, Quantiles: [4]float64{1, 10, 10, 10},
			Bursts: 3, BurstP50: 5, BurstP90: 8.2, BurstMax: 9}},
		{"too short for fifteen", []float64{1, 3}, Traffic{Minutes: 2, Mean: 2, Peak1: 1.5, Peak15: nan, Quantiles: [4]float64{2, 2.8, 2.9, 2.98}, BurstP50: nan, BurstP90: nan, BurstMax: nan}},
		{"silence", []float64{0, 0}, Traffic{Minutes: 2, Peak1: nan, Peak15: nan, BurstP50: nan, BurstP90: nan, BurstMax: nan}},
		{"nothing known", []float64{nan}, Traffic{Mean: nan, Peak1: nan, Peak15: nan, Quantiles: [4]float64{nan, nan, nan, nan}, BurstP50: nan, BurstP90: nan, BurstMax: nan}},
	} {
		got := TrafficOf(Key{}, "", c.values)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(1e-12, 1e-12), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if text, err := json.Marshal(got); err != nil || strings.Contains(string(text), "NaN") {
			t.Errorf("%s: %s, %v", c.name, text, err)
		}
	}
}
