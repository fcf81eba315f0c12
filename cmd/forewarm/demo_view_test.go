package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// The demo compares demand with what was forecast of the same dimension, though another one was binding then.
func TestDemoComparesOneDimension(t *testing.T) {
	var out bytes.Buffer
	l := demoLines{w: &out, d: &demoRun{reactive: &backtest.FluidPool{}}}
	l.phase("")
	tick := func(m int, binding string) {
		x := demoTick{at: time.Unix(int64(m)*60, 0).UTC()}
		x.projection.Binding = binding
		for name, y := range map[string]float64{features.DimPrefill: 18_000, features.DimKV: 430_000} {
			f := forecaster.Forecast{Last: y}
			f.Dimension = name
			for i := range f.Minute {
				for level := range f.Minute[i] {
					f.Minute[i][level] = y
				}
			}
			x.forecast.Total = append(x.forecast.Total, f)
		}
		l.minute(&x)
	}
	tick(10, features.DimKV)
	tick(30, features.DimPrefill)
	if want := "forecast 20 min ago " + "18k "; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in %q", want, out.String())
	}
}
