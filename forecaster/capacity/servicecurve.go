package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Point is one measured load of one replica.
type Point struct {
	Concurrency       float64 // requests at once; 0 unknown
	RequestsPerS      float64
	Prompt, Output    float64 // mean tokens of a request
	PrefillTokensPerS float64
	DecodeTokensPerS  float64
	TTFT, ITL         Percentiles
}

// load is the sort key of points.
func (p *Point) load() float64 {
	if p.Concurrency > 0 {
		return p.Concurrency
	}
	return p.RequestsPerS
}

// length of a request in tokens; points of similar length form a group.
func (p *Point) length() float64 { return p.Prompt + p.Output }

// Curve is a benchmark of one replica: the same requests at rising load, for one or several lengths.
type Curve struct {
	Format string // of the file
	Groups []Group
}

// Group has the points of requests of one length, by rising load.
type Group struct {
	Length float64 // tokens, prompt and output
	Points []Point
}

// Bounds on a curve file.
const (
	maxCurveBytes  = 64 << 20
	maxCurvePoints = 10_000
	maxRate        = 1e12 // of tokens or requests a second
)

// newCurve groups points whose lengths are within a tenth of each other.
func newCurve(format string, points []Point) (Curve, error) {
	if len(points) == 0 {
		return Curve{}, errors.New("there is no measurement with requests that were served")
	}
	if len(points) > maxCurvePoints {
		return Curve{}, fmt.Errorf("%d measurements are above %d", len(points), maxCurvePoints)
	}
	for i := range points {
		if err := points[i].check(); err != nil {
			return Curve{}, fmt.Errorf("measurement %d: %w", i+1, err)
		}
	}
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.length(), b.length()) })
	c := Curve{Format: format}
	for _, p := range points {
		if n := len(c.Groups); n == 0 || p.length() > 1.1*c.Groups[n-1].Length {
			c.Groups = append(c.Groups, Group{Length: p.length()})
		}
		g := &c.Groups[len(c.Groups)-1]
		g.Points = append(g.Points, p)
	}
	for i := range c.Groups {
		slices.SortStableFunc(c.Groups[i].Points, func(a, b Point) int { return cmp.Compare(a.load(), b.load()) })
	}
	return c, nil
}

func (p *Point) check() error {
	for _, v := range []struct {
		name string
		v    float64
	}{
		{"concurrency", p.Concurrency}, {"requests/s", p.RequestsPerS}, {"prompt tokens", p.Prompt}, {"output tokens", p.Output},
		{"prefill tokens/s", p.PrefillTokensPerS}, {"decode tokens/s", p.DecodeTokensPerS},
		{"TTFT", max(p.TTFT.P50, p.TTFT.P90, p.TTFT.P99)}, {"ITL", max(p.ITL.P50, p.ITL.P90, p.ITL.P99)},
	} {
		if !(v.v >= 0 && v.v <= maxRate) {
			return fmt.Errorf("%s is %g: it must be a number from 0", v.name, v.v)
		}
	}
	if p.load() == 0 {
		return errors.New("neither concurrency nor requests/s is known")
	}
	if p.PrefillTokensPerS == 0 && p.DecodeTokensPerS == 0 {
		return errors.New("no throughput is known")
	}
	return nil
}

// Goodput is the maximum throughput of a replica within its objective.
type Goodput struct {
	PrefillTokensPerS float64 // 0 unknown
	DecodeTokensPerS  float64
	// Open reports that the objective held at the highest measured load, so the goodput may be larger.
	Open bool
}

// Goodput reads the curve at its knee: prefill where TTFT exceeds the objective, decode where ITL does, with linear
// interpolation. With several lengths it is the smallest. It is an error if the lowest load already misses the
// objective.
func (c *Curve) Goodput(slo SLO) (Goodput, error) {
	least := Goodput{PrefillTokensPerS: math.Inf(1), DecodeTokensPerS: math.Inf(1)}
	for i := range c.Groups {
		g, err := c.Groups[i].goodput(slo)
		if err != nil {
			return Goodput{}, err
		}
		least.PrefillTokensPerS = min(least.PrefillTokensPerS, g.PrefillTokensPerS)
		least.DecodeTokensPerS = min(least.DecodeTokensPerS, g.DecodeTokensPerS)
		least.Open = least.Open || g.Open
	}
	return least, nil
}

func (g *Group) goodput(slo SLO) (out Goodput, err error) {
	open := [2]bool{}
	for i, x := range []struct {
		name      string
		objective float64
		latency   func(p *Point) float64
		rate      func(p *Point) float64
		into      *float64
	}{
		{"TTFT", slo.TTFT.Seconds(), func(p *Point) float64 { return p.TTFT.at(slo.Percentile) }, func(p *Point) float64 { return p.PrefillTokensPerS }, &out.PrefillTokensPerS},
		{"ITL", slo.ITL.Seconds(), func(p *Point) float64 { return p.ITL.at(slo.Percentile) }, func(p *Point) float64 { return p.DecodeTokensPerS }, &out.DecodeTokensPerS},
	} {
		var ok bool
		*x.into, open[i], ok = g.knee(x.objective, x.latency, x.rate)
		if !ok {
			return Goodput{}, fmt.Errorf("at the lowest load measured, %s is %.4g s and the objective %.4g s: no load meets it", x.name, x.latency(&g.Points[0]), x.objective)
		}
	}
	out.Open = open[0] || open[1]
	return out, nil
}

// knee is the rate at which latency exceeds the objective; 0 is no objective. open reports that no load exceeds it; ok
// is false when the lowest load does.
func (g *Group) knee(objective float64, latency, rate func(*Point) float64) (at float64, open, ok bool) {
	for i := range g.Points {
		p := &g.Points[i]
		if here := latency(p); objective <= 0 || here <= objective {
			at = max(at, rate(p)) // throughput may fall beyond its peak before latency exceeds the objective
			continue
		}
		if i == 0 {
			return 0, false, false
		}
		before := &g.Points[i-1]
		s := (objective - latency(before)) / (latency(p) - latency(before))
		return max(at, rate(before)+s*(rate(p)-rate(before))), false, true
	}
	return at, true, true
}

// ServiceCurve is the time per output token of one replica by throughput.
type ServiceCurve struct {
	Source    Source  // Given by a benchmark, or Learned
	Points    []Load  // by rising load
	Knee      float64 // assumed tokens/s within the objective
	Objective float64 // seconds per token; 0 without one
}

// Load is one point of a ServiceCurve: output tokens a second, and seconds from one token of a request to its next.
type Load struct{ TokensPerS, ITL float64 }

const (
	curvePoints = 24  // of a learned curve
	curveBeyond = 1.5 // end of a learned curve as a multiple of the objective and the knee
	curveMost   = 4096
)

// ServiceCurve is the benchmark's curve behind the pool's rate, else the learned curve; nil without either.
func (p *Pool) ServiceCurve(s *Service, t *Trusted) *ServiceCurve {
	c := &ServiceCurve{Source: Learned, Knee: t.Rates.Decode(), Objective: p.SLO.ITL.Seconds()}
	if p.Curve != nil {
		c.Source = Given
		nearest := math.Inf(1)
		for i := range p.Curve.Groups {
			g := &p.Curve.Groups[i]
			if good, err := g.goodput(p.SLO); err == nil && math.Abs(good.DecodeTokensPerS-c.Knee) < nearest {
				nearest, c.Points = math.Abs(good.DecodeTokensPerS-c.Knee), c.Points[:0]
				for j := range g.Points {
					c.Points = append(c.Points, Load{g.Points[j].DecodeTokensPerS, g.Points[j].ITL.at(p.SLO.Percentile)})
				}
			}
		}
		return c
	}
	for i := range curvePoints {
		b := int(math.Round(math.Pow(curveMost, float64(i)/(curvePoints-1))))
		rate, ok := s.Decode(b, 0, math.MaxFloat32) // of b requests at once, without limits of objective and cache
		itl := float64(b) / rate.Value
		if !ok || c.Objective > 0 && itl > curveBeyond*c.Objective || len(c.Points) > 1 && rate.Value > curveBeyond*max(c.Knee, c.Points[1].TokensPerS) {
			break
		}
		c.Points = append(c.Points, Load{rate.Value, itl})
	}
	if len(c.Points) < 2 {
		return nil
	}
	return c
}
