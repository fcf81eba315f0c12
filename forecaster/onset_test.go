package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster/model"
)

func TestOnset(t *testing.T) {
	const first, last = 1000, 1070
	noise := rand.New(rand.NewPCG(1, 2))
	for name, x := range map[string]struct {
		at   func(m int64) float64
		want int64 // 0: none
		off  int64 // minutes by which it may be off
	}{
		"a step":         {func(m int64) float64 { return step(m, 1050, 100, 210) }, 1050, 0},
		"a noisy step":   {func(m int64) float64 { return step(m, 1050, 100, 210) * math.Exp(.15*noise.NormFloat64()) }, 1050, 2},
		"from nothing":   {func(m int64) float64 { return step(m, 1066, 0, 5) }, 1066, 0},
		"with a hole":    {func(m int64) float64 { return hole(m, 1045, 1055, step(m, 1050, 100, 210)) }, 1056, 0},
		"a drop":         {func(m int64) float64 { return step(m, 1050, 210, 100) }, 0, 0},
		"flat":           {func(int64) float64 { return 100 }, 0, 0},
		"only noise":     {func(int64) float64 { return 100 * math.Exp(.3*noise.NormFloat64()) }, 0, 0},
		"one minute":     {func(m int64) float64 { return step(m, 1070, 100, 1000) }, 0, 0},
		"nothing":        {func(int64) float64 { return 0 }, 0, 0},
		"nothing known":  {func(int64) float64 { return math.NaN() }, 0, 0},
		"a ramp":         {func(m int64) float64 { z := 10 + .1*float64(m-first); return z * z }, 0, 0},
		"up, down again": {func(m int64) float64 { return step(m, 1030, 100, 200) - step(m, 1050, 0, 100) }, 0, 0},
	} {
		h := model.NewHistory()
		for m := int64(first); m <= last; m++ {
			h.Push(m, x.at(m))
		}
		got := onset(h, first, last)
		if x.want == 0 {
			if !got.IsZero() {
				t.Errorf("%s: since minute %d, want none", name, got.Unix()/60)
			}
			continue
		}
		if off := got.Sub(time.Unix(60*x.want, 0)).Abs(); off > time.Duration(x.off)*time.Minute {
			t.Errorf("%s: since minute %d, want %d", name, got.Unix()/60, x.want)
		}
	}
}

func step(m, at int64, before, after float64) float64 {
	if m < at {
		return before
	}
	return after
}

func hole(m, from, to int64, y float64) float64 {
	if m >= from && m <= to {
		return math.NaN()
	}
	return y
}
