package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/forewarm/forewarm/forecaster/net"
)

// Training: Adam (Kingma and Ba 2015, arXiv:1412.6980) with decoupled decay of weights (Loshchilov and Hutter 2019,
// arXiv:1711.05101) and a rate that rises for warmSteps and falls along a half cosine.
const (
	epochs    = 6
	batch     = 1024
	shards    = 8 // of a batch, summed in order: the same sums on any number of processors
	rate      = 2e-3
	warmSteps = 200
	decay     = 1e-5
	clip      = 5   // norm of the gradient
	bend      = 300 // loss of a sample from which on it counts less
	maxWeight = 50  // of a sample within its series
)

// targetWeight and levelWeight say what counts: minutes 15 to 30 and their maximum, and the levels that are scored.
var (
	targetWeight = [net.Targets]float32{.15, .15, .15, .15, .2, .3, 1, 1, 1, 1, 1, .3, .2, .2, 3}
	levelWeight  = [net.NumLevels]float32{.3, .3, .3, 1, .3, 1, 1, 1, 1}
)

// train fits a network to samples.
func train(samples []sample, log io.Writer) *net.Net {
	r := rand.New(rand.NewPCG(1, 2))
	mean, deviation := moments(samples)
	for i := range samples {
		for j := range samples[i].in.X {
			samples[i].in.X[j] = (samples[i].in.X[j] - mean[j]) / deviation[j]
		}
	}
	n := start(r)
	var m, v [net.NumWeights]float32
	parts := make([]part, shards)
	order := make([]int, len(samples))
	for i := range order {
		order[i] = i
	}
	steps := epochs * (len(samples) / batch)
	step := 0
	for epoch := range epochs {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		loss := 0.0
		for at := 0; at+batch <= len(order); at += batch {
			loss += gradient(n, samples, order[at:at+batch], parts)
			step++
			eta := rate * min(1, float64(step)/warmSteps) * (1 + math.Cos(math.Pi*float64(step)/float64(steps))) / 2
			adam(&n.Weights, &parts[0].gradient.Weights, &m, &v, step, eta)
		}
		fmt.Fprintf(log, "epoch %d: loss %.4f\n", epoch+1, loss/float64(len(order)/batch*batch))
	}
	fold(n, &mean, &deviation)
	return n
}

// moments are the mean and the standard deviation of the features.
func moments(samples []sample) (mean, deviation [net.NumFeatures]float32) {
	for j := range mean {
		s1, s2 := 0.0, 0.0
		for i := range samples {
			x := float64(samples[i].in.X[j])
			s1 += x
			s2 += x * x
		}
		s1 /= float64(len(samples))
		mean[j] = float32(s1)
		deviation[j] = float32(math.Sqrt(max(0, s2/float64(len(samples))-s1*s1)) + 1e-3)
	}
	return mean, deviation
}

// start draws first weights (He et al. 2015, arXiv:1502.01852); the last layer's are near zero.
func start(r *rand.Rand) *net.Net {
	n := &net.Net{}
	for i, fan := range [...]int{net.NumFeatures, net.Hidden1, net.Hidden2} {
		_, w := n.Layer(i)
		scale := math.Sqrt(2 / float64(fan))
		if i == 2 {
			scale *= .05
		}
		for j := range w {
			w[j] = float32(scale * r.NormFloat64())
		}
	}
	return n
}

// fold moves the standardisation of features into the first layer.
func fold(n *net.Net, mean, deviation *[net.NumFeatures]float32) {
	bias, w := n.Layer(0)
	for j := range mean {
		row := w[j*len(bias):][:len(bias)]
		for u := range row {
			row[u] /= deviation[j]
			bias[u] -= row[u] * mean[j]
		}
	}
}

// part is what one shard of a batch adds up.
type part struct {
	gradient net.Net
	loss     float64
}

// gradient leaves the mean gradient over the samples in parts[0], and returns the sum of their losses.
func gradient(n *net.Net, samples []sample, which []int, parts []part) float64 {
	var wait sync.WaitGroup
	for s := range parts {
		wait.Add(1)
		go func() {
			defer wait.Done()
			p := &parts[s]
			clear(p.gradient.Weights[:])
			p.loss = 0
			var b back
			for _, i := range which[s*len(which)/shards : (s+1)*len(which)/shards] {
				p.loss += b.add(n, &samples[i], &p.gradient)
			}
		}()
	}
	wait.Wait()
	g, loss := &parts[0].gradient.Weights, 0.0
	for s := range parts {
		loss += parts[s].loss
		if s > 0 {
			for i, x := range parts[s].gradient.Weights {
				g[i] += x
			}
		}
	}
	norm := 0.0
	for i := range g {
		g[i] /= float32(len(which))
		norm += float64(g[i]) * float64(g[i])
	}
	if norm = math.Sqrt(norm); norm > clip {
		for i := range g {
			g[i] *= float32(clip / norm)
		}
	}
	return loss
}

// adam is one step.
func adam(w, g, m, v *[net.NumWeights]float32, step int, eta float64) {
	const b1, b2 = .9, .999
	c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
	for i := range w {
		m[i] = b1*m[i] + (1-b1)*g[i]
		v[i] = b2*v[i] + (1-b2)*g[i]*g[i]
		w[i] -= float32(eta * (float64(m[i])/c1/(math.Sqrt(float64(v[i])/c2)+1e-8) + decay*float64(w[i])))
	}
}
