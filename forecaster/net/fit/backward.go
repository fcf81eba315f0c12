package main

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/forecaster/net"
)

// back is the memory of one pass forward and back.
type back struct {
	a, da [net.Hidden1]float32 // before activation, and the gradient there
	x     [net.Hidden1]float32 // after it
	b, db [net.Hidden2]float32
	y     [net.Hidden2]float32
	o, do [net.Outputs]float32
}

// add adds the gradient of one sample's loss to g and returns the loss: the sum of weighted pinball losses on the scale of
// the series itself, in units of the series' usual error.
func (b *back) add(n *net.Net, s *sample, g *net.Net) float64 {
	n.Pass(0, s.in.X[:], b.a[:])
	b.x = b.a
	net.Activate(b.x[:])
	n.Pass(1, b.x[:], b.b[:])
	b.y = b.b
	net.Activate(b.y[:])
	n.Pass(2, b.y[:], b.o[:])
	loss := b.output(s)

	b.through(n, g, 2, b.y[:], b.do[:], b.db[:])
	slopes(b.b[:], b.db[:])
	b.through(n, g, 1, b.x[:], b.db[:], b.da[:])
	slopes(b.a[:], b.da[:])
	b.through(n, g, 0, s.in.X[:], b.da[:], nil)
	return loss
}

// output sets the gradient at the outputs and returns the loss.
func (b *back) output(s *sample) float64 {
	level := float32(s.in.Level / s.in.Spread)
	loss := float32(0)
	for k := range net.Targets {
		o := (*[net.NumLevels]float32)(b.o[k*net.NumLevels:])
		do := b.do[k*net.NumLevels:][:net.NumLevels]
		clear(do)
		y := s.y[k]
		if y != y {
			continue
		}
		var q, dq [net.NumLevels]float32
		net.Spread(o, &q)
		for i := range q {
			z := max(0, level+q[i])
			w := s.weight * targetWeight[k] * levelWeight[i]
			tau := float32(model.Levels[i])
			if e := y - z*z; e > 0 {
				loss += w * tau * e
				dq[i] = -w * tau * 2 * z
			} else {
				loss -= w * (1 - tau) * e
				dq[i] = w * (1 - tau) * 2 * z
			}
		}
		// Each distance moves all quantiles beyond it.
		sum := float32(0)
		for i := net.NumLevels - 1; i > net.Middle; i-- {
			sum += dq[i]
			do[i] = sum * steepness(o[i])
		}
		do[net.Middle] = sum + dq[net.Middle]
		sum = 0
		for i := range net.Middle {
			sum += dq[i]
			do[i] = -sum * steepness(o[i])
		}
		do[net.Middle] += sum
	}
	damp := 1 / (1 + loss/bend)
	for i := range b.do {
		b.do[i] *= damp
	}
	return float64(loss)
}

// steepness is the derivative of net.Positive.
func steepness(x float32) float32 {
	return (1 + x/float32(math.Sqrt(float64(x*x+1)))) / 2
}

// through takes gradient d at the units of a layer to its weights, and to its input x unless dx is nil.
func (b *back) through(n, g *net.Net, layer int, x, d, dx []float32) {
	_, w := n.Layer(layer)
	gb, gw := g.Layer(layer)
	for u, v := range d {
		gb[u] += v
	}
	for j, v := range x {
		row, grow := w[j*len(d):][:len(d)], gw[j*len(d):][:len(d)]
		var s0, s1 float32
		if dx == nil {
			for u, e := range d {
				grow[u] += v * e
			}
			continue
		}
		u := 0
		for ; u+1 < len(d); u += 2 {
			e, f := d[u], d[u+1]
			grow[u] += v * e
			grow[u+1] += v * f
			s0 += row[u] * e
			s1 += row[u+1] * f
		}
		for ; u < len(d); u++ {
			grow[u] += v * d[u]
			s0 += row[u] * d[u]
		}
		dx[j] = s0 + s1
	}
}

// slopes multiplies gradients after activation by the derivative of net.Activate at x.
func slopes(x, d []float32) {
	for i, v := range x {
		r := float32(math.Sqrt(float64(1 + v*v)))
		d[i] *= (1 + v/r + v/(r*r*r)) / 2
	}
}
