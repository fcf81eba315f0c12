package capacity

import (
	"math"

	"github.com/forewarm/forewarm/internal/value"
)

// ServiceCurve is the time per output token of one replica by throughput.
type ServiceCurve struct {
	Source    Source       `json:"source"`                     // Given by a benchmark, or Learned
	Points    []Load       `json:"points"`                     // by rising load
	Knee      value.Number `json:"knee_tokens_per_s,omitzero"` // assumed tokens/s within the objective
	Objective float64      `json:"objective_seconds,omitzero"` // seconds per token; 0 without one
}

// Load is one point of a ServiceCurve: output tokens a second, and seconds from one token of a request to its next.
type Load struct {
	TokensPerS float64 `json:"tokens_per_s"`
	ITL        float64 `json:"itl_seconds"`
}

const (
	curvePoints = 24  // of a learned curve
	curveBeyond = 1.5 // end of a learned curve as a multiple of the objective and the knee
	curveMost   = 4096
)

// ServiceCurve is the benchmark's curve behind the pool's rate, else the learned curve; nil without either.
func (p *Pool) ServiceCurve(s *Service, t *Trusted) *ServiceCurve {
	c := &ServiceCurve{Source: Learned, Knee: value.Number(t.Rates.DecodeTokensPerS), Objective: p.itlObjective().Seconds()}
	if p.Curve != nil {
		c.Source = Given
		for i := range p.Curve {
			if x := (Load{p.Curve[i].DecodeTokensPerS, p.Curve[i].ITL.objective()}); x.TokensPerS > 0 && x.ITL > 0 {
				c.Points = append(c.Points, x)
			}
		}
		return c
	}
	for i := range curvePoints {
		b := int(math.Round(math.Pow(curveMost, float64(i)/(curvePoints-1))))
		rate, ok := s.Decode(b, 0, math.MaxFloat32) // of b requests at once, without limits of objective and cache
		itl := float64(b) / rate.Value
		if !ok || c.Objective > 0 && itl > curveBeyond*c.Objective || len(c.Points) > 1 && rate.Value > curveBeyond*max(float64(c.Knee), c.Points[1].TokensPerS) {
			break
		}
		c.Points = append(c.Points, Load{rate.Value, itl})
	}
	if len(c.Points) < 2 {
		return nil
	}
	return c
}
