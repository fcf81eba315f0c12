package capacity

import (
	"math"
	"testing"
	"time"
)

func TestServiceCurve(t *testing.T) {
	slo := SLO{ITL: 50 * time.Millisecond}
	t.Run("benchmark", func(t *testing.T) {
		c := Curve{
			{Concurrency: 1, Prompt: 1000, Output: 100, DecodeTokensPerS: 50, ITL: Percentiles{P50: .02}},
			{Concurrency: 40, Prompt: 1000, Output: 100, DecodeTokensPerS: 1000, ITL: Percentiles{P50: .04}},
			{Concurrency: 80, Prompt: 1000, Output: 100, DecodeTokensPerS: 1300, ITL: Percentiles{P50: .06}},
		}
		p := Pool{Curve: c, Config: Config{SLO: slo}}
		got := p.ServiceCurve(&Service{}, &Trusted{Rates: Rates{DecodeTokensPerS: 1150}})
		if got == nil || got.Source != Given || got.Knee != 1150 || len(got.Points) != 3 || got.Points[1] != (Load{1000, .04}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("learned", func(t *testing.T) {
		// ITL = 20 ms + 0.25 ms for each sequence.
		var s Service
		for m := range 600 {
			b := 20 + 40*math.Abs(math.Sin(float64(m)/50))
			s.Observe(ServiceMinute{Replicas: 2, Decoding: b, KV: b * 1000, Context: 1000, ITL: .02 + .00025*b})
		}
		p := Pool{Config: Config{SLO: slo}}
		got := p.ServiceCurve(&s, &Trusted{Rates: Rates{DecodeTokensPerS: 2000}})
		if got == nil || got.Source != Learned || len(got.Points) < 8 {
			t.Fatalf("%+v", got)
		}
		for _, x := range got.Points {
			if b := x.TokensPerS * x.ITL; math.Abs(x.ITL-(.02+.00025*b))/x.ITL > .05 {
				t.Errorf("%.0f tokens/s take %.4f s a token, want %.4f", x.TokensPerS, x.ITL, .02+.00025*b)
			}
		}
		if last := got.Points[len(got.Points)-1].ITL; last < .04 || last > .075 {
			t.Errorf("the last point is at %.3f s", last)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		p := Pool{Config: Config{SLO: slo}}
		if got := p.ServiceCurve(&Service{}, &Trusted{}); got != nil {
			t.Errorf("%+v", got)
		}
	})
}
