package network

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/model"
)

// Spans are the forecast minutes ahead, first and last: the mean of one minute, or the largest of several.
var Spans = [...][2]int{
	{1, 1}, {2, 2}, {3, 3}, {5, 5}, {8, 8}, {11, 11}, {15, 15}, {18, 18}, {22, 22}, {26, 26}, {30, 30}, {40, 40},
	{50, 50}, {60, 60}, {15, 30},
}

// Dimensions of the output.
const (
	Targets   = len(Spans)
	NumLevels = model.NumLevels
	Middle    = 3 // index of the median
)

// The shape of the network: features, two hidden layers, outputs.
const (
	Hidden1    = 96
	Hidden2    = 64
	Outputs    = Targets * NumLevels
	NumWeights = 2*NumFeatures + (NumFeatures+1)*Hidden1 + (Hidden1+1)*Hidden2 + (Hidden2+1)*Outputs
)

// Net is a multilayer perceptron with two hidden layers. For each target it gives the median and the distances from
// each quantile to the next, relative to the level, in units of the spread, on the square-root scale. So quantiles
// never cross, and outputs near zero are already a forecast.
type Net struct {
	// Weights are the means of the features, the inverses of their standard deviations, and the three layers. Of each
	// layer the biases come first, then for every input the weights to all units.
	Weights [NumWeights]float32
}

// Layer returns the biases and the weights of layer i, 0 to 2; weights of input j are w[j*len(bias):][:len(bias)].
func (n *Net) Layer(i int) (bias, w []float32) {
	sizes := [...]int{NumFeatures, Hidden1, Hidden2, Outputs}
	at := 2 * NumFeatures
	for k := range i {
		at += (sizes[k] + 1) * sizes[k+1]
	}
	units := sizes[i+1]
	return n.Weights[at : at+units], n.Weights[at+units : at+units*(sizes[i]+1)]
}

// maxFeature bounds features, in standard deviations from their mean over all training series.
const maxFeature = 4

// Quantiles are a forecast on the square-root scale; negative values mean zero.
type Quantiles [Targets][NumLevels]float32

// Forecast computes the quantiles of all targets. O(NumWeights).
func (n *Net) Forecast(in *Input, q *Quantiles) {
	var a [Hidden1]float32
	var b [Hidden2]float32
	var o [Outputs]float32
	var x [NumFeatures]float32
	for j, v := range in.X {
		x[j] = max(-maxFeature, min(maxFeature, float32((v-n.Weights[j])*n.Weights[NumFeatures+j])))
	}
	n.Pass(0, x[:], a[:])
	Activate(a[:])
	n.Pass(1, a[:], b[:])
	Activate(b[:])
	n.Pass(2, b[:], o[:])
	level, spread := float32(in.Level), float32(in.Spread)
	for k := range q {
		Spread((*[NumLevels]float32)(o[k*NumLevels:]), &q[k])
		for i := range q[k] {
			q[k][i] = level + float32(spread*q[k][i])
		}
	}
}

// Without returns a network that sees a group of features at their means.
func (n *Net) Without(g Group) *Net {
	out := *n
	_, w := out.Layer(0)
	clear(w[g.from*Hidden1 : g.to*Hidden1])
	return &out
}

// Pass computes layer i for input x, before activation. Products are rounded before they are added, so every processor
// gives the same sums. Pass is not instrumented by the race detector: it shares no memory, and tests would spend most
// of their time in it.
//
//go:norace
func (n *Net) Pass(i int, x, out []float32) {
	bias, w := n.Layer(i)
	copy(out, bias)
	row := func(j int) []float32 { return w[j*len(out):][:len(out)] }
	j := 0
	for ; j+4 <= len(x); j += 4 { // four inputs at once: half the time
		a, b, c, d := row(j), row(j+1), row(j+2), row(j+3)
		xa, xb, xc, xd := x[j], x[j+1], x[j+2], x[j+3]
		for u, sum := range out {
			out[u] = sum + float32(a[u]*xa) + float32(b[u]*xb) + float32(c[u]*xc) + float32(d[u]*xd)
		}
	}
	for ; j < len(x); j++ {
		for u, v := range row(j) {
			out[u] += float32(v * x[j])
		}
	}
}

// Activate applies x·(1 + x/√(1+x²))/2 to each unit: the sigmoid-weighted linear unit (Elfwing, Uchibe and Doya 2018,
// doi:10.1016/j.neunet.2017.12.012) with an algebraic sigmoid. It takes one root and rounds alike everywhere.
func Activate(x []float32) {
	for i, v := range x {
		x[i] = v * (1 + v/root(1+float32(v*v))) / 2
	}
}

// Spread turns the outputs of a target into ascending quantiles: the median, then the distances from it, each (o +
// √(o²+1))/2.
func Spread(o, q *[NumLevels]float32) {
	q[Middle] = o[Middle]
	for i := Middle + 1; i < NumLevels; i++ {
		q[i] = q[i-1] + Positive(o[i])
	}
	for i := Middle - 1; i >= 0; i-- {
		q[i] = q[i+1] - Positive(o[i])
	}
}

// Positive is (x + √(x²+1))/2.
func Positive(x float32) float32 { return (x + root(float32(x*x)+1)) / 2 }

func root(x float32) float32 { return float32(math.Sqrt(float64(x))) }
