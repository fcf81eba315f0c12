package server

import (
	"math"
	"strconv"
)

// niceCeil is the least of 1, 2, 2.5, 5, 10 times a power of ten that is not below v; 1 for zero.
func niceCeil(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}

// si writes v with three digits and a metric prefix; "unknown" for NaN.
func si(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	for _, p := range []struct {
		scale  float64
		symbol string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= p.scale {
			return strconv.FormatFloat(v/p.scale, 'g', 3, 64) + p.symbol
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
