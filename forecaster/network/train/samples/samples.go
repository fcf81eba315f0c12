package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/forecaster/network"
)

// sample is one origin of one series: the input of the network, and the outcomes.
type sample struct {
	in    network.Input
	scale [2]float64               // in.Spread² over the mean distance of minutes, and of window maxima, from the level
	y     [network.Targets]float32 // in units of in.Spread squared
}

// row is what the trainer reads.
func (s *sample) row() []float32 {
	row := append(slices.Clone(s.in.X[:]), float32(s.in.Level/s.in.Spread), float32(s.scale[0]), float32(s.scale[1]))
	return append(row, s.y[:]...)
}

// startMinute is the first minute of histories: a midnight.
const startMinute = 28_396_800

// draw makes samples of a series by streaming it through a history, several times: whole, and in altered copies.
func draw(s *timeSeries, all []timeSeries) (out []sample) {
	r := rand.New(rand.NewPCG(1, hash(s.name)))
	n := len(s.y) - s.first
	if n < 40 {
		return nil
	}
	origins := int(60 * math.Sqrt(float64(n)/100) * share(s, all))
	out = stream(s.y[s.first:], origins, int64(s.first), r)
	for range 3 {
		y := alter(s, all, r)
		from := r.IntN(len(y))
		if len(y)-from < 40 {
			continue
		}
		span := int(math.Exp(r.Float64()*math.Log(3000))) + 70
		y = y[from:min(len(y), from+span)]
		out = append(out, stream(y, origins/4, int64(r.IntN(1440)), r)...)
	}
	return append(out, stream(alter(s, all, r), origins/2, int64(r.IntN(1440)), r)...)
}

// share is the factor on the number of samples: more for a series of a small group, so that services with many classes
// do not dominate those with one.
func share(s *timeSeries, all []timeSeries) float64 {
	if s.group == "made" {
		return 1
	}
	alike := 0
	for i := range all {
		if all[i].group == s.group {
			alike++
		}
	}
	return max(1, min(8, math.Sqrt(200/float64(alike))))
}

// alter makes a copy of a series that differs from it as another series might.
func alter(s *timeSeries, all []timeSeries, r *rand.Rand) []float64 {
	y := slices.Clone(s.y[s.first:])
	if r.Float64() < .4 { // with another of its kind, at another time
		o := &all[r.IntN(len(all))]
		if o.group == s.group && len(o.y)-o.first > 200 {
			a, b := mean(y), mean(o.y[o.first:])
			if a > 0 && b > 0 {
				f := a / b * math.Exp(2*r.NormFloat64()-1)
				z := o.y[o.first:]
				shift := r.IntN(len(z))
				for i := range y {
					y[i] += f * z[(i+shift)%len(z)]
				}
			}
		}
	}
	if r.Float64() < .2 { // a level shift
		f := math.Exp(r.NormFloat64())
		for i := r.IntN(len(y)); i < len(y); i++ {
			y[i] *= f
		}
	}
	if r.Float64() < .1 { // by ten minutes
		for i := 0; i+10 <= len(y); i += 10 {
			m := mean(y[i : i+10])
			for j := range 10 {
				y[i+j] = m
			}
		}
	}
	if r.Float64() < .15 { // faster
		f := 2 + r.IntN(3)
		var fast []float64
		for i := 0; i+f <= len(y); i += f {
			fast = append(fast, mean(y[i:i+f]))
		}
		if len(fast) > 200 {
			y = fast
		}
	}
	if r.Float64() < .25 { // of fewer requests, down to one in some hours
		y = thin(y, math.Exp(r.Float64()*math.Log(40/.01))*.01, r)
	}
	if r.Float64() < .1 { // an outage
		from := r.IntN(len(y))
		clear(y[from:min(len(y), from+10+r.IntN(140))])
	}
	if r.Float64() < .1 { // slower
		y = slow(y, r)
	}
	if r.Float64() < .15 { // with gaps
		for range 1 + r.IntN(5) {
			from := r.IntN(len(y))
			for i := from; i < min(len(y), from+1+r.IntN(100)); i++ {
				y[i] = math.NaN()
			}
		}
	}
	return y
}

// thin makes traffic of about perMinute requests a minute, of sizes that differ.
func thin(y []float64, perMinute float64, r *rand.Rand) []float64 {
	m := mean(y)
	if m == 0 {
		return y
	}
	shape := .3 * math.Exp(r.Float64()*math.Log(4/.3))
	out := make([]float64, len(y))
	for i := range out {
		if n := (distuv.Poisson{Lambda: min(1e5, y[i]/m*perMinute) + 1e-12, Src: r}).Rand(); n > 0 {
			out[i] = (distuv.Gamma{Alpha: n * shape, Beta: shape, Src: r}).Rand()
		}
	}
	return out
}

// slow stretches half of the series to its whole length, with noise of its own.
func slow(y []float64, r *rand.Rand) []float64 {
	from := r.IntN(len(y)/2 + 1)
	out := make([]float64, len(y)/2*2)
	for i := range out {
		out[i] = y[from+i/2] * (distuv.Gamma{Alpha: 3, Beta: 3, Src: r}).Rand()
	}
	return out
}

func mean(y []float64) float64 {
	s := 0.0
	for _, x := range y {
		s += x
	}
	return s / float64(len(y))
}

// stream takes samples at about count random origins of a series; its first minute is that of startMinute + offset.
func stream(y []float64, count int, offset int64, r *rand.Rand) (out []sample) {
	h := model.NewHistory()
	ends := len(y) - 60
	if ends <= 3 {
		ends = len(y) - 31
	}
	take := map[int]bool{}
	for range count {
		if ends > 3 {
			take[3+r.IntN(ends-3)] = true
		}
	}
	// Young histories are over-represented.
	for range count / 8 {
		if ends > 3 {
			take[3+int(math.Exp(r.Float64()*math.Log(float64(min(ends-3, 700)))))-1] = true
		}
	}
	var size [2]float64
	num := 0.0
	for i, v := range y {
		h.Push(startMinute+offset+int64(i), v)
		h.Settle(h.Newest)
		if !take[i+1] {
			continue
		}
		in, ok := network.NewInput(h)
		if !ok {
			continue
		}
		sm := sample{in: in}
		unit := in.Spread * in.Spread
		for k, t := range network.Spans {
			best := math.Inf(-1)
			for lead := t[0]; lead <= t[1]; lead++ {
				if i+lead >= len(y) || math.IsNaN(y[i+lead]) {
					best = math.NaN()
					break
				}
				best = max(best, y[i+lead])
			}
			sm.y[k] = float32(best / unit)
		}
		if minute, largest := float64(sm.y[halfHour]), float64(sm.y[window]); !math.IsNaN(minute + largest) {
			ref := in.Level * in.Level
			size[0] += math.Abs(minute*unit-ref) + .05*ref
			size[1] += math.Abs(largest*unit-ref) + .05*ref
			num++
		}
		out = append(out, sm)
	}
	if num == 0 || size[0] == 0 {
		return nil
	}
	for i := range out {
		unit := out[i].in.Spread * out[i].in.Spread
		out[i].scale = [2]float64{unit * num / size[0], unit * num / size[1]}
	}
	return out
}

// Places of targets.
const (
	halfHour = 10
	window   = network.Targets - 1
)
