// Package network is a small quantile network that forecasts any series from its first minutes on. One set of weights
// serves all series. It is trained beforehand on public traces (forecaster/network/train/train.py), so a new series
// gets forecast errors like those of similar histories: cross-learning (Montero-Manso and Hyndman 2021,
// doi:10.1016/j.ijforecast.2021.03.004).
//
// The package is pure: no clock, no log, no I/O, no state. A forecast is a function of a model.History. Features do not
// depend on the unit of the series, on absolute time or on the size of the load.
package network

import (
	_ "embed" // the weights are part of the program
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
)

// Span is the mean of one minute ahead (From == To), or the largest minute of several. Minutes are counted from 1.
type Span struct{ From, To int }

// Spans are what the network forecasts.
var Spans = [...]Span{
	{1, 1}, {2, 2}, {3, 3}, {5, 5}, {8, 8}, {11, 11}, {15, 15}, {18, 18}, {22, 22}, {26, 26}, {30, 30}, {40, 40},
	{50, 50}, {60, 60}, {15, 30},
}

// Dimensions of the output.
const (
	Targets   = len(Spans)
	NumLevels = 9
	Middle    = 3 // index of the median
)

// The shape of the network: features, two hidden layers, outputs.
const (
	hidden1 = 96
	hidden2 = 64
	outputs = Targets * NumLevels
)

// Net is a multilayer perceptron with two hidden layers. For each target it gives the median and the distances from
// each quantile to the next, so quantiles never cross. Medians are relative to the level. All outputs are in units of the
// spread, on the square-root scale, so outputs near zero are already a forecast. Of each layer the weights of input j to
// all units are weights[j*len(bias):][:len(bias)].
type Net struct {
	Mean       [NumFeatures]float32 // of the features
	InverseStd [NumFeatures]float32 // the inverses of their standard deviations
	Bias1      [hidden1]float32
	Weights1   [NumFeatures * hidden1]float32
	Bias2      [hidden2]float32
	Weights2   [hidden1 * hidden2]float32
	Bias3      [outputs]float32
	Weights3   [hidden2 * outputs]float32
}

// maxFeature bounds features, in standard deviations from their mean over all training series.
const maxFeature = 4

// Quantiles are a forecast on the square-root scale; negative values mean zero.
type Quantiles [Targets][NumLevels]float32

// Forecast computes the quantiles of all targets. O(weights).
func (n *Net) Forecast(in *Input, q *Quantiles) {
	x, a, b, o := in.X, n.Bias1, n.Bias2, n.Bias3
	for j, v := range x {
		x[j] = max(-maxFeature, min(maxFeature, float32((v-n.Mean[j])*n.InverseStd[j])))
	}
	addInputs(a[:], x[:], n.Weights1[:])
	activate(a[:])
	addInputs(b[:], a[:], n.Weights2[:])
	activate(b[:])
	addInputs(o[:], b[:], n.Weights3[:])
	level, spread := float32(in.Level), float32(in.Spread)
	for k := range q {
		ascend((*[NumLevels]float32)(o[k*NumLevels:]), &q[k])
		for i := range q[k] {
			q[k][i] = level + float32(spread*q[k][i])
		}
	}
}

// Without returns a network that sees a group of features at their means.
func (n *Net) Without(g Group) *Net {
	out := *n
	clear(out.Weights1[g.from*hidden1 : g.to*hidden1])
	return &out
}

// addInputs adds the inputs x of a layer to its biases in out. Products are rounded before they are added, so every
// processor gives the same sums. It is not instrumented by the race detector: it shares no memory, and tests would
// spend most of their time in it.
//
//go:norace
func addInputs(out, x, w []float32) {
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

// activate applies x·(1 + x/√(1+x²))/2 to each unit: the sigmoid-weighted linear unit (Elfwing, Uchibe and Doya 2018,
// doi:10.1016/j.neunet.2017.12.012) with an algebraic sigmoid. It takes one root and rounds alike everywhere.
func activate(x []float32) {
	for i, v := range x {
		x[i] = v * (1 + v/root(1+float32(v*v))) / 2
	}
}

// ascend turns the outputs of a target into ascending quantiles: the median, then the distances from it, each (o +
// √(o²+1))/2.
func ascend(o, q *[NumLevels]float32) {
	q[Middle] = o[Middle]
	for i := Middle + 1; i < NumLevels; i++ {
		q[i] = q[i-1] + positive(o[i])
	}
	for i := Middle - 1; i >= 0; i-- {
		q[i] = q[i+1] - positive(o[i])
	}
}

func positive(x float32) float32 { return (x + root(float32(x*x)+1)) / 2 }

func root(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// magic begins a file of weights; its digit changes with the features or the shape of the network.
const magic = "forewarm net 2\n"

// Decode reads a file of weights: magic, those of Net in their order as little-endian float32, and the CRC-32 of both.
func Decode(b []byte) (*Net, error) {
	n := &Net{}
	end := len(magic) + binary.Size(n)
	switch {
	case len(b) != end+4 || string(b[:len(magic)]) != magic:
		return nil, fmt.Errorf("network: %d bytes are no weights of this version, which take %d", len(b), end+4)
	case crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]):
		return nil, fmt.Errorf("network: weights are damaged")
	}
	_, err := binary.Decode(b[len(magic):end], binary.LittleEndian, n)
	return n, err
}

//go:embed weights.bin
var fitted []byte

// Fitted returns the embedded network. It panics if the embedded file is of another version: train it again.
var Fitted = sync.OnceValue(func() *Net {
	n, err := Decode(fitted)
	if err != nil {
		panic(err)
	}
	return n
})
