package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/forewarm/forewarm/forecaster/net"
)

// TestGradient holds the gradient against differences of the loss.
func TestGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	n := start(r)
	for i := range n.Weights {
		n.Weights[i] += .05 * float32(r.NormFloat64())
	}
	s := sample{weight: 1e-3}
	s.in.Level, s.in.Spread = 3, 1
	for i := range s.in.X {
		s.in.X[i] = float32(r.NormFloat64())
	}
	for k := range s.y {
		s.y[k] = float32(9 + 3*r.NormFloat64())
	}
	s.y[4] = float32(math.NaN())
	var b back
	var g net.Net
	b.add(n, &s, &g)
	loss := func(i int, d float32) float64 {
		was := n.Weights[i]
		n.Weights[i] += d
		defer func() { n.Weights[i] = was }()
		var none net.Net
		return b.add(n, &s, &none)
	}
	checked := 0
	for range 300 {
		i := r.IntN(net.NumWeights)
		const d = 2e-2
		want := (loss(i, d) - loss(i, -d)) / (2 * d)
		got := float64(g.Weights[i])
		if math.Abs(got-want) > 2e-4+.1*math.Abs(want) {
			t.Errorf("weight %d: gradient %v, differences say %v", i, got, want)
		}
		if math.Abs(want) > 1e-3 {
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("only %d weights matter", checked)
	}
}
