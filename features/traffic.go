package features

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/forewarm/forewarm/internal/value"
)

// TrafficLevels are the quantiles of per-minute demand in [Traffic].
var TrafficLevels = [...]float64{.5, .9, .95, .99}

const (
	// peakMinutes is the wider of the two windows of Traffic's peaks.
	peakMinutes = 15
	// burstFactor is the smallest ratio of a burst's minutes to the mean.
	burstFactor = 2
)

// Traffic is the shape of the demand of one class ([TotalClass] is the pool) in one dimension, over a span of whole
// minutes. Only known minutes count; values that they do not determine are NaN.
type Traffic struct {
	Key
	Dimension string
	Minutes   int     // known ones
	Mean      float64 // of the known minutes, in the dimension's unit

	// Peak1 is the largest minute over Mean, Peak15 the largest mean of 15 consecutive known minutes over Mean.
	Peak1, Peak15 float64
	Quantiles     [len(TrafficLevels)]float64 // of the minutes at TrafficLevels, in the dimension's unit

	// A burst is a run of consecutive minutes with more than twice Mean. A minute that is not known ends it.
	Bursts                       int
	BurstP50, BurstP90, BurstMax float64 // lengths of bursts in minutes; NaN without any
}

// TrafficOf describes values, one for each minute, NaN where demand is unknown. O(n log n).
func TrafficOf(key Key, dimension string, values []float64) Traffic {
	nan := math.NaN()
	t := Traffic{Key: key, Dimension: dimension, Mean: nan, Peak1: nan, Peak15: nan, BurstP50: nan, BurstP90: nan, BurstMax: nan}
	known := make([]float64, 0, len(values))
	sum, wide, run := 0.0, nan, 0
	for i, v := range values {
		if math.IsNaN(v) {
			run = 0
			continue
		}
		known, sum, run = append(known, v), sum+v, run+1
		if run >= peakMinutes {
			window := 0.0
			for _, x := range values[i-peakMinutes+1 : i+1] {
				window += x / peakMinutes
			}
			if !(wide >= window) {
				wide = window
			}
		}
	}
	t.Minutes = len(known)
	if t.Minutes == 0 {
		for i := range t.Quantiles {
			t.Quantiles[i] = nan
		}
		return t
	}
	t.Mean = sum / float64(t.Minutes)
	slices.Sort(known)
	for i, level := range TrafficLevels {
		t.Quantiles[i] = QuantileOf(known, level)
	}
	if t.Mean > 0 {
		t.Peak1, t.Peak15 = known[len(known)-1]/t.Mean, wide/t.Mean
	}
	var bursts []float64
	length := 0
	for i := 0; i <= len(values); i++ {
		if i < len(values) && values[i] > burstFactor*t.Mean {
			length++
		} else if length > 0 {
			bursts, length = append(bursts, float64(length)), 0
		}
	}
	if t.Bursts = len(bursts); t.Bursts > 0 {
		slices.Sort(bursts)
		t.BurstP50, t.BurstP90, t.BurstMax = QuantileOf(bursts, .5), QuantileOf(bursts, .9), bursts[len(bursts)-1]
	}
	return t
}

// QuantileOf is the quantile p of at least one ascending value, with linear interpolation (Hyndman and Fan 1996,
// doi:10.2307/2684934, definition 7).
func QuantileOf(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	low := int(at)
	return sorted[low] + (at-float64(low))*(sorted[min(low+1, len(sorted)-1)]-sorted[low])
}

// MarshalJSON writes unknown values as null.
func (t Traffic) MarshalJSON() ([]byte, error) {
	quantiles := map[string]value.Number{}
	for i, level := range TrafficLevels {
		quantiles[strconv.FormatFloat(level, 'g', -1, 64)] = value.Number(t.Quantiles[i])
	}
	d, _ := DimensionByName(t.Dimension)
	return json.Marshal(map[string]any{
		"class": t.Class, "dimension": t.Dimension, "unit": d.Unit, "known_minutes": t.Minutes, "mean": value.Number(t.Mean),
		"peak_to_mean_1m": value.Number(t.Peak1), "peak_to_mean_15m": value.Number(t.Peak15), "quantiles": quantiles,
		"bursts": t.Bursts, "burst_minutes": map[string]value.Number{"p50": value.Number(t.BurstP50), "p90": value.Number(t.BurstP90), "max": value.Number(t.BurstMax)},
	})
}
