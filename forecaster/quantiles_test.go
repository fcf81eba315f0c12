package forecaster

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func drawQuantiles(t *rapid.T) Quantiles {
	var q Quantiles
	for i := range q {
		q[i] = rapid.Float64Range(0, 1e6).Draw(t, "q")
	}
	q.Sort()
	return q
}

func TestCDFOfAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuantiles(t)
		for i := 1; i < NumLevels; i++ {
			if q[i]-q[i-1] < 1e-3 || q[0] < 1e-3 {
				return // equal quantiles have no inverse
			}
		}
		tau := rapid.Float64Range(0.001, 0.999).Draw(t, "tau")
		if got := q.CDF(q.At(tau)); math.Abs(got-tau) > 1e-6 {
			t.Fatalf("CDF(At(%v)) = %v for %v", tau, got, q)
		}
	})
}

func TestAtIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuantiles(t)
		a := rapid.Float64Range(0, 1).Draw(t, "a")
		b := rapid.Float64Range(a, 1).Draw(t, "b")
		if q.At(a) > q.At(b) {
			t.Fatalf("At(%v) = %v > At(%v) = %v", a, q.At(a), b, q.At(b))
		}
	})
}

func TestCDFOfEqualQuantiles(t *testing.T) {
	zero := Quantiles{} // a class that is always silent
	if got := zero.CDF(0); math.Abs(got-.495) > 1e-9 {
		t.Errorf("CDF(0) of a class that is always silent = %v, want .495", got)
	}
	if got := zero.CDF(1); got != 0.9999 {
		t.Errorf("CDF above all quantiles = %v, want 0.9999", got)
	}
	half := Quantiles{0, 0, 0, 0, 5, 6, 7, 8, 9} // silent half of the time
	if got := half.CDF(0); got != .25 {
		t.Errorf("CDF(0) of a class that is silent half of the time = %v, want .25", got)
	}
}

func TestSortQuantiles(t *testing.T) {
	q := Quantiles{3, -1, math.NaN(), 2, 5, 4, 6, 8, 7}
	q.Sort()
	for i := range q {
		if q[i] < 0 || math.IsNaN(q[i]) || i > 0 && q[i] < q[i-1] {
			t.Fatalf("not sorted and non-negative: %v", q)
		}
	}
}
