package features

import (
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
	Pool      string       `json:"-"`
	Class     string       `json:"class"`
	Dimension string       `json:"dimension"`
	Unit      string       `json:"unit"`
	Minutes   int          `json:"known_minutes"`
	Mean      value.Number `json:"mean"` // of the known minutes, in the dimension's unit

	Peak1     value.Number            `json:"peak_to_mean_1m"`  // largest minute over the mean
	Peak15    value.Number            `json:"peak_to_mean_15m"` // largest mean of 15 known minutes in a row over the mean
	Quantiles map[string]value.Number `json:"quantiles"`        // of the minutes at TrafficLevels, in the dimension's unit

	// A burst is a run of consecutive minutes with more than twice the mean. A minute that is not known ends it.
	Bursts       int                     `json:"bursts"`
	BurstMinutes map[string]value.Number `json:"burst_minutes"` // p50, p90 and max of their lengths
}

// TrafficOf describes values, one for each minute, NaN where demand is unknown. O(n log n).
func TrafficOf(key Key, dimension string, values []float64) Traffic {
	var known, wide, bursts []float64
	sum, run := 0.0, 0
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
			wide = append(wide, window)
		}
	}
	mean, length := sum/float64(len(known)), 0
	for i := 0; i <= len(values); i++ {
		if i < len(values) && values[i] > burstFactor*mean {
			length++
		} else if length > 0 {
			bursts, length = append(bursts, float64(length)), 0
		}
	}
	quantile := func(v []float64, q float64) value.Number { return value.Number(QuantileOf(v, q)) }
	for _, v := range [][]float64{known, wide, bursts} {
		slices.Sort(v)
	}
	d, _ := DimensionByName(dimension)
	t := Traffic{
		Pool: key.Pool, Class: key.Class, Dimension: dimension, Unit: d.Unit, Minutes: len(known), Mean: value.Number(mean),
		Peak1: quantile(known, 1) / value.Number(mean), Peak15: quantile(wide, 1) / value.Number(mean), Quantiles: map[string]value.Number{},
		Bursts: len(bursts), BurstMinutes: map[string]value.Number{"p50": quantile(bursts, .5), "p90": quantile(bursts, .9), "max": quantile(bursts, 1)},
	}
	for _, level := range TrafficLevels {
		t.Quantiles[strconv.FormatFloat(level, 'g', -1, 64)] = quantile(known, level)
	}
	return t
}

// QuantileOf is the quantile p of ascending values, with linear interpolation (Hyndman and Fan 1996,
// doi:10.2307/2684934, definition 7); NaN without any.
func QuantileOf(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := p * float64(len(sorted)-1)
	low := int(at)
	return sorted[low] + (at-float64(low))*(sorted[min(low+1, len(sorted)-1)]-sorted[low])
}
