package network

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/forecaster/model"
)

// Spans of the history that features are computed from.
const (
	nearMinutes  = 1500 // single minutes
	sortMinutes  = 60   // quantiles of minutes
	noiseMinutes = 120  // noise of minutes
	dayMinutes   = 1440
	binMinutes   = 10
	dayBins      = dayMinutes / binMinutes
)

// Input is what the network reads. Features and outputs are distances from Level in units of Spread, on the square-root
// scale. So they do not depend on the unit of the series. Level is the root of the mean of the last ten minutes. Spread
// combines the noise of single minutes and the usual change of the level within 15 to 30 minutes.
type Input struct {
	Level, Spread float64
	X             [NumFeatures]float32
}

// Group is a named range of features.
type Group struct {
	Name     string
	from, to int
}

// Groups are all features, in their order.
var Groups = [...]Group{
	{"level", 0, 34},
	{"single_minutes", 34, 50},
	{"variability", 50, 59},
	{"silence", 59, 67},
	{"earlier_days", 67, 96},
	{"recent_changes", 96, 116},
	{"age", 116, NumFeatures},
}

// NumFeatures is the length of Input.X.
const NumFeatures = 127

// NewInput computes the input of the network. ok is false when no minute of the last two hours is known, or the series
// has been flat, or zero for a day. O(nearMinutes).
func NewInput(h *model.History) (in Input, ok bool) {
	var v view
	if !v.read(h) {
		return in, false
	}
	in.Level, in.Spread = v.level, v.spread
	f := filler{v: &v, x: &in.X}
	// Calls, and no table of methods, so that v with its 108 KiB stays on the stack.
	f.levels()
	f.minutes()
	f.spreads()
	f.silence()
	f.seasons()
	f.moves()
	f.age()
	return in, true
}

// sums are over the known ones of the newest minutes: of minutes, roots, their squares, minutes without demand, and
// distances of the roots of pairs of neighbours.
type sums struct{ count, sum, roots, squares, zeros, steps, pairs float64 }

// view is a history on the square-root scale.
type view struct {
	h    *model.History
	y, z [nearMinutes]float64 // minutes and their roots, newest first; NaN if unknown
	near [nearMinutes + 1]sums

	bins [dayBins + 1]struct{ sum, count float64 } // of known minutes, newest first

	level, spread, size float64    // size is the root of a mean over hours
	move                float64    // usual change of the level within 15 to 30 minutes
	noise               [3]float64 // of minutes about the level before them, over 30 and over 110 minutes; about the mean of their bin
	step, empty, known  float64    // mean difference of neighbouring bins; share of zero bins; number of known ones
}

// The prior of a young series: moves and noise are priorMove of its size. It weighs as much as priorMoves observed moves,
// or priorMinutes known minutes.
const (
	priorMove    = 0.3
	priorMoves   = 20
	priorMinutes = 10
	minMove      = 0.015 // of the size
	minNoise     = 1e-3  // of minMove
	flat         = 1e-3  // of the size; a series with a smaller spread is flat
)

// noiseWeight is the weight of the noise in the spread; moves have the rest. The logarithms are averaged. Noise alone is
// worse on M365 and on bins of ten minutes (2 %), moves alone on World Cup (5 %).
const noiseWeight = 0.75

// moveWeights are the weights of the time scales of moves.
var moveWeights = [model.NumMoves]float64{0, .3, .5, .2}

func (v *view) read(h *model.History) bool {
	v.h = h
	if h.Known == 0 {
		return false
	}
	v.readMinutes()
	if v.near[noiseMinutes].count == 0 || v.near[dayMinutes].sum == 0 {
		return false
	}
	far := max(0, h.Level(model.Level1d))
	size, weight := .05*far, .05
	for _, part := range [...]struct {
		minutes int
		weight  float64
	}{{60, .5}, {15, .3}, {240, .15}} {
		if y := v.mean(part.minutes); !math.IsNaN(y) {
			size, weight = size+part.weight*y, weight+part.weight
		}
	}
	v.size = math.Sqrt(size/weight + 1e-3*far)
	if v.level = math.Sqrt(v.mean(10)); math.IsNaN(v.level) {
		v.level = math.Sqrt(max(0, h.Level(model.Level10m)))
	}
	return v.readSpread()
}

// readMinutes reads the newest minutes. It is not instrumented by the race detector, as addInputs.
//
//go:norace
func (v *view) readMinutes() {
	last, s := math.NaN(), sums{}
	newest := v.h.Newest / binMinutes
	for i := range v.y {
		m := v.h.Newest - int64(i)
		y := v.h.At(m)
		z := math.Sqrt(y)
		v.y[i], v.z[i] = y, z
		if !math.IsNaN(y) {
			s.count++
			s.sum += y
			if b := newest - m/binMinutes; b <= dayBins {
				v.bins[b].sum += y
				v.bins[b].count++
			}
			s.roots += z
			s.squares += z * z
			if y == 0 {
				s.zeros++
			}
			if !math.IsNaN(last) {
				s.steps += math.Abs(last - z)
				s.pairs++
			}
		}
		last, v.near[i+1] = z, s
	}
}

// readSpread reports false for a flat series.
func (v *view) readSpread() bool {
	size := max(v.size, v.level)
	square := 0.0
	for i, share := range moveWeights {
		m := v.h.Move(i).Size
		square += share * m * m
	}
	w := priorWeight(priorMoves, v.h.Moves())
	v.move = math.Sqrt((1-w)*square + w*priorMove*priorMove*size*size)

	v.readNoise()
	far := math.Sqrt(max(0, v.h.Level(model.Level1d)))
	noise := .4*v.noise[0] + .3*v.noise[1] + .15*(v.noise[2]+v.step) + .1*v.empty*far
	w = priorWeight(priorMinutes, float64(v.h.Known))
	noise = w*priorMove*max(v.level, far) + (1-w)*noise
	if v.move <= flat*size && noise <= flat*size {
		return false
	}
	v.move = max(v.move, minMove*size)
	v.spread = math.Pow(max(noise, minNoise*minMove*size), noiseWeight) * math.Pow(v.move, 1-noiseWeight)
	return v.spread > 0
}

// priorWeight is the weight of a prior that is worth that many observations, after seen of them.
func priorWeight(worth, seen float64) float64 {
	if seen > 20*worth {
		return 0
	}
	return worth / (worth + seen)
}

// readNoise measures the mean distance of minutes from the ten-minute level before them, over 30 and 110 minutes; of
// single minutes of a day from their ten-minute bin; and of neighbouring bins from each other.
func (v *view) readNoise() {
	var n [3]float64
	near, seen := 0.0, 0.0
	for i := noiseMinutes - 1; i >= 0; i-- {
		y := v.y[i]
		if math.IsNaN(y) {
			continue
		}
		if seen > 0 {
			d := math.Abs(v.z[i] - math.Sqrt(near))
			for k, span := range [2]int{30, 110} {
				if i < span {
					v.noise[k] += d
					n[k]++
				}
			}
		}
		seen++
		near += max(1.0/10, 1/seen) * (y - near)
	}
	last, steps := math.NaN(), 0.0
	for i := range v.bins {
		b := math.Sqrt(v.bins[i].sum / v.bins[i].count)
		if !math.IsNaN(b) {
			v.known++
			if b == 0 {
				v.empty++
			}
			if !math.IsNaN(last) {
				v.step += math.Abs(last - b)
				steps++
			}
			if z := v.z[binMinutes*i]; i > 0 && !math.IsNaN(z) {
				v.noise[2] += math.Abs(z - b)
				n[2]++
			}
		}
		last = b
	}
	for k := range n {
		v.noise[k] /= max(n[k], 1)
	}
	v.step /= max(steps, 1)
	v.empty /= max(v.known, 1)
}

// mean is that of the known ones of the newest n minutes; NaN if there is none.
func (v *view) mean(n int) float64 {
	if n < nearMinutes {
		return v.near[n].sum / v.near[n].count
	}
	return v.h.LongMean(n / 30)
}

// deviation is the standard deviation of the roots of the newest n minutes.
func (v *view) deviation(n int) float64 {
	s := &v.near[n]
	if s.count == 0 {
		return 0
	}
	mean := s.roots / s.count
	return math.Sqrt(max(0, s.squares/s.count-mean*mean))
}

// rootMean is the root of the mean of the known minutes [from, to) ago.
func (v *view) rootMean(from, to int) float64 {
	return math.Sqrt((v.near[to].sum - v.near[from].sum) / (v.near[to].count - v.near[from].count))
}

func (v *view) extremes(n int) (lo, hi float64) {
	lo, hi = math.NaN(), math.NaN()
	for _, z := range v.z[:n] {
		if math.IsNaN(z) {
			continue
		}
		if !(z >= lo) {
			lo = z
		}
		if !(z <= hi) {
			hi = z
		}
	}
	return lo, hi
}

type filler struct {
	v *view
	x *[NumFeatures]float32
	n int
}

// put appends a feature, limited to ±10; NaN becomes 0.
func (f *filler) put(x float64) {
	if math.IsNaN(x) {
		x = 0
	}
	f.x[f.n] = float32(max(-10, min(10, x)))
	f.n++
}

// putRoot appends the distance of a root from the level.
func (f *filler) putRoot(z float64) { f.putDifference(z - f.v.level) }

// putDifference appends a difference of roots, in units of the spread, compressed to ±10.
func (f *filler) putDifference(d float64) {
	d /= f.v.spread
	f.put(d / (1 + math.Abs(d)/10))
}

// putRatio appends the logarithm of a size in units of the spread.
func (f *filler) putRatio(s float64) { f.put(max(-3, min(3, math.Log(s/f.v.spread+1e-9)))) }

func (f *filler) levels() {
	v := f.v
	for _, n := range [...]int{1, 2, 3, 5, 8, 12, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440, 2880, 10080} {
		f.putRoot(math.Sqrt(v.mean(n)))
	}
	for _, n := range [...]int{5, 15, 30, 60, 240, 1440} {
		f.putRoot(v.near[n].roots / v.near[n].count)
	}
	for i := range 5 {
		f.putRoot(v.z[i])
	}
	f.putDifference(v.rootMean(0, 5) - v.rootMean(5, 15))
	f.putDifference(v.rootMean(0, 15) - v.rootMean(15, 30))
	f.putDifference(v.rootMean(0, 30) - v.rootMean(30, 60))
}

func (f *filler) minutes() {
	v := f.v
	for _, n := range [...]int{5, 15, 60, 240, 1440} {
		lo, hi := v.extremes(n)
		f.putRoot(hi)
		if n <= sortMinutes {
			f.putRoot(lo)
		}
	}
	f.quantiles(60, .1, .25, .5, .75, .9)
	f.quantiles(20, .2, .5, .8)
}

func (f *filler) quantiles(n int, taus ...float64) {
	var buf [sortMinutes]float64
	known := buf[:0]
	for _, z := range f.v.z[:n] {
		if !math.IsNaN(z) {
			known = append(known, z)
		}
	}
	slices.Sort(known)
	for _, tau := range taus {
		if len(known) == 0 {
			f.put(0)
			continue
		}
		f.putRoot(known[int(tau*float64(len(known)-1)+.5)])
	}
}

func (f *filler) spreads() {
	v := f.v
	for _, n := range [...]int{10, 30, 60, 240, 1440} {
		f.putDifference(v.deviation(n))
	}
	for _, n := range [...]int{15, 60, 240, 1440} {
		f.putDifference(v.near[n].steps / max(1, v.near[n].pairs))
	}
}

func (f *filler) silence() {
	v := f.v
	for _, n := range [...]int{10, 30, 60, 240, 1440} {
		f.put(v.near[n].zeros / max(1, v.near[n].count))
	}
	same, run := 0.0, 0
	for i := range 60 {
		if v.y[i] == v.y[i+1] {
			same++
		}
	}
	for run < 20 && v.y[run+1] == v.y[run] {
		run++
	}
	f.put(same / 60)
	f.put(float64(run) / 10)
	since := 0
	for since < nearMinutes && !(v.y[since] > 0) {
		since++
	}
	f.put(math.Log1p(float64(since)) / 4)
}

// seasons appends what followed the same local time one day, two days and a week ago, and the mean over up to seven
// days.
func (f *filler) seasons() {
	v, h := f.v, f.v.h
	root := func(from, to int64) float64 { return math.Sqrt(h.Mean(from, to)) }
	then := h.DaysBefore(h.Newest, 1)
	level, ahead := root(then-14, then), root(then+15, then+30)
	f.putKnown(level)
	f.putDifference(ahead - level)
	f.putDifference(ahead - root(then-59, then))
	f.putDifference(root(then+1, then+10) - level)
	f.putDifference(root(then+45, then+60) - level)
	f.putDifference(math.Sqrt(h.Max(then+15, then+30)) - level)
	f.putRoot(ahead)

	for _, days := range [...]int{2, 7} {
		then := h.DaysBefore(h.Newest, days)
		level, ahead := math.Sqrt(h.Around(then-7)), math.Sqrt(h.Around(then+22))
		f.putKnown(level)
		f.putDifference(ahead - level)
		f.putDifference(math.Sqrt(h.Around(then+52)) - level)
		f.putRoot(ahead)
	}
	for i := range model.NumRepeats {
		for _, season := range [...]int{model.DayAgo, model.WeekAgo} {
			slope, correlation := h.Repeat(i, season)
			f.put(slope)
			f.put(correlation)
		}
	}

	var sum, square [2]float64
	days, mean := 0.0, 0.0
	for k := 1; k <= 7; k++ {
		then := h.DaysBefore(h.Newest, k)
		level := math.Sqrt(h.Around(then - 7))
		d := [2]float64{math.Sqrt(h.Around(then+22)) - level, math.Sqrt(h.Around(then+52)) - level}
		if math.IsNaN(d[0] + d[1]) {
			continue
		}
		days++
		mean += level
		for i := range d {
			sum[i] += d[i]
			square[i] += d[i] * d[i]
		}
	}
	f.put(days / 7)
	days = max(days, 1)
	f.putDifference(mean/days - v.level)
	for i := range sum {
		f.putDifference(sum[i] / days)
		f.putDifference(math.Sqrt(square[i] / days))
	}
}

// putKnown appends 1 if the level of a season is known, else 0.
func (f *filler) putKnown(z float64) {
	if math.IsNaN(z) {
		f.put(0)
		return
	}
	f.put(1)
}

// moves appends the size and direction of recent moves over 15 to 30 minutes.
func (f *filler) moves() {
	for i := range model.NumMoves {
		m := f.v.h.Move(i)
		f.putDifference(m.Size)
		f.putDifference(m.Up)
		f.putDifference(m.Down)
		f.putDifference(m.Peak)
		f.putDifference(m.PeakSD)
	}
}

func (f *filler) age() {
	v := f.v
	f.put(math.Log1p(float64(v.h.Known)) / 5)
	f.put(v.near[noiseMinutes].count / noiseMinutes)
	f.put(v.known / (dayBins + 1))
	f.put(math.Log(v.spread / v.size))
	f.put(math.Log(v.move / v.spread))
	for _, d := range v.noise {
		f.putRatio(d)
	}
	f.putRatio(v.step)
	f.put(v.level / v.size)
	f.put(math.Log((math.Sqrt(max(0, v.h.Level(model.Level1d))) + 1e-6*v.size) / v.size))
}
