package server

import (
	"math"

	"github.com/forewarm/forewarm/internal/draw"
)

// si writes v with three digits and a metric prefix; "unknown" for NaN.
func si(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	return draw.Short(v)
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
