package alerting

import (
	"math"
	"testing"

	"github.com/forewarm/forewarm/forecaster"
)

// even are the quantiles of a demand that is uniform from 0 to 100, times by.
func even(by float64) (q forecaster.Quantiles) {
	for i, level := range forecaster.Levels {
		q[i] = 100 * level * by
	}
	return q
}

func TestProvision(t *testing.T) {
	fill := func(at func(h int) forecaster.Quantiles) *forecaster.Forecast {
		f := &forecaster.Forecast{}
		for h := range f.Minute {
			f.Minute[h] = at(h)
		}
		return f
	}
	nan := forecaster.Quantiles{}
	for i := range nan {
		nan[i] = math.NaN()
	}
	for name, tt := range map[string]struct {
		f    *forecaster.Forecast
		tau  float64
		want float64
		ok   bool
	}{
		"equal minutes: their quantile":           {fill(func(int) forecaster.Quantiles { return even(1) }), .8, 80, true},
		"at 85 % one of ten minutes may be short": {fill(func(h int) forecaster.Quantiles { return even([]float64{1e-3, 1}[h/9%2]) }), .85, .0944, true},
		"at 90 % half of each of two minutes may": {fill(func(h int) forecaster.Quantiles { return even([]float64{1e-3, 1}[h/8%2]) }), .9, 50, true},
		"unknown minutes do not count": {fill(func(h int) forecaster.Quantiles {
			return map[bool]forecaster.Quantiles{true: nan, false: even(1)}[h < 5]
		}), .8, 80, true},
		"unknown":   {fill(func(int) forecaster.Quantiles { return nan }), .8, 0, false},
		"no demand": {fill(func(int) forecaster.Quantiles { return even(0) }), .95, 0, true},
	} {
		got, ok := provision(tt.f, tt.tau, 10)
		if ok != tt.ok || math.Abs(got-tt.want) > .01*tt.want {
			t.Errorf("%s: %g, %t; want %g, %t", name, got, ok, tt.want, tt.ok)
		}
	}
}
