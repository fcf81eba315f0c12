package net

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/forecaster/model"
)

// What the network sees of a history.
const (
	nearMinutes = 120 // read minute by minute
	dayBins     = 144 // read by ten minutes
)

// Input is what the network goes by: a level and a spread on the square-root scale, and features in units of the two, so
// that a series in another unit has the same features. NumFeatures values of order one.
type Input struct {
	Level, Spread float64
	X             [NumFeatures]float32
}

// NumFeatures is the length of Input.X.
const NumFeatures = 78

// Look computes the input from a history; false when there is nothing to go by: no minute of the last two hours is
// known, or the series has been flat, or silent for a day. O(nearMinutes + dayBins).
func Look(h *model.History) (in Input, ok bool) {
	var v view
	if !v.read(h) {
		return in, false
	}
	in.Level, in.Spread = v.level, v.spread
	f := filler{v: &v, x: &in.X}
	f.levels()
	f.slopes()
	f.spreads()
	f.silence()
	f.dayShape()
	f.seasons()
	f.age()
	if f.n != NumFeatures {
		panic("net: features are not as many as NumFeatures")
	}
	return in, true
}

// view is a history on the square-root scale.
type view struct {
	h     *model.History
	y     [nearMinutes]float64 // minutes, newest first; NaN unknown
	z     [nearMinutes]float64 // their roots
	bin   [dayBins + 1]float64 // roots of ten-minute means, newest first; the newest is not full
	known int                  // of y

	level, spread         float64
	dev                   [4]float64 // mean absolute deviations: of minutes over 15, 30 and 110 min, and over a day
	step                  [3]float64 // mean absolute change of bins over 10, 30 and 60 min
	rise, worst           float64    // root mean square and largest change of bins over 30 min
	binMean, binSD        float64
	binMax, binMin, below float64
	zeros                 float64 // share of empty bins
	bins                  int
}

// weights of the level: exponential with a time constant of ten minutes.
var levelWeights = func() (w [60]float64) {
	for i := range w {
		w[i] = math.Exp(-float64(i) / 10)
	}
	return w
}()

func (v *view) read(h *model.History) bool {
	v.h = h
	if h.Known == 0 {
		return false
	}
	sum, weight := 0.0, 0.0
	for i := range v.y {
		y := h.At(h.Newest - int64(i))
		v.y[i], v.z[i] = y, math.Sqrt(y)
		if math.IsNaN(y) {
			continue
		}
		v.known++
		if i < len(levelWeights) {
			sum += levelWeights[i] * y
			weight += levelWeights[i]
		}
	}
	if v.known == 0 {
		return false
	}
	if weight == 0 {
		sum, weight = h.Level(model.Level10m), 1
	}
	v.level = math.Sqrt(sum / weight)
	v.readBins()
	v.readDeviations()
	return v.binMax > 0 && v.readSpread()
}

func (v *view) readBins() {
	newest := v.h.Newest
	var moves [3]int
	lags := [3]int{1, 3, 6}
	v.binMin, v.binMax = math.Inf(1), 0
	s1, s2 := 0.0, 0.0
	for i := range v.bin {
		b := math.Sqrt(v.h.Bin(newest - int64(10*i)))
		v.bin[i] = b
		if math.IsNaN(b) {
			continue
		}
		v.bins++
		s1 += b
		s2 += b * b
		v.binMin, v.binMax = min(v.binMin, b), max(v.binMax, b)
		if b < v.level {
			v.below++
		}
		if b == 0 {
			v.zeros++
		}
		for k, lag := range lags {
			if i < lag || math.IsNaN(v.bin[i-lag]) {
				continue
			}
			d := v.bin[i-lag] - b
			v.step[k] += math.Abs(d)
			moves[k]++
			if k == 1 {
				v.rise += d * d
				v.worst = max(v.worst, d)
			}
		}
	}
	n := float64(max(v.bins, 1))
	v.binMean = s1 / n
	v.binSD = math.Sqrt(max(0, s2/n-v.binMean*v.binMean))
	v.below /= n
	v.zeros /= n
	v.rise = math.Sqrt(v.rise / float64(max(moves[1], 1)))
	for k := range moves {
		v.step[k] /= float64(max(moves[k], 1))
	}
}

// readDeviations measures how far minutes stray from the ten-minute level that stood when they came.
func (v *view) readDeviations() {
	var n [4]int
	near, seen := 0.0, 0.0
	for i := nearMinutes - 1; i >= 0; i-- {
		y := v.y[i]
		if math.IsNaN(y) {
			continue
		}
		if seen > 0 {
			d := math.Abs(v.z[i] - math.Sqrt(near))
			for k, span := range [3]int{15, 30, 110} {
				if i < span {
					v.dev[k] += d
					n[k]++
				}
			}
		}
		seen++
		near += max(1.0/10, 1/seen) * (y - near)
	}
	for i := 1; i <= dayBins; i++ {
		m := v.h.Newest - int64(10*i)
		if z := math.Sqrt(v.h.At(m)); !math.IsNaN(z) && !math.IsNaN(v.bin[i]) {
			v.dev[3] += math.Abs(z - v.bin[i])
			n[3]++
		}
	}
	for k := range n {
		v.dev[k] /= float64(max(n[k], 1))
	}
}

// A series that has shown little is taken to stray by priorDeviation of its level, a belief worth priorMinutes minutes.
const (
	priorDeviation = 0.3
	priorMinutes   = 10
	flat           = 1e-3 // a spread below this part of the level is none
)

func (v *view) readSpread() bool {
	own := .4*v.dev[1] + .3*v.dev[2] + .15*(v.dev[3]+v.step[0])
	far := math.Sqrt(max(0, v.h.Level(model.Level1d)))
	own += .1 * v.zeros * far
	w := priorMinutes / (priorMinutes + float64(v.h.Known))
	if v.h.Known > 20*priorMinutes {
		w = 0
	}
	v.spread = w*priorDeviation*max(v.level, far) + (1-w)*own
	return v.spread > flat*max(v.level, far)
}

// filler appends features.
type filler struct {
	v *view
	x *[NumFeatures]float32
	n int
}

func (f *filler) put(x float64) {
	if math.IsNaN(x) {
		x = 0
	}
	f.x[f.n] = float32(x)
	f.n++
}

// diff appends a difference of roots in units of the spread, bent towards ±10; an unknown one is 0.
func (f *filler) diff(a, b float64) {
	d := (a - b) / f.v.spread
	f.put(d / (1 + math.Abs(d)/10))
}

// ratio appends the log of a spread in units of the spread.
func (f *filler) ratio(s float64) {
	f.put(max(-3, min(3, math.Log(s/f.v.spread+1e-9))))
}

// root is the root of the mean of minutes [from, to) back.
func (v *view) root(from, to int) float64 {
	s, n := 0.0, 0
	for _, y := range v.y[from:to] {
		if !math.IsNaN(y) {
			s += y
			n++
		}
	}
	return math.Sqrt(s / float64(n))
}

func (v *view) ewma(tau float64, span int) float64 {
	s, w, each, decay := 0.0, 0.0, 1.0, math.Exp(-1/tau)
	for _, y := range v.y[:span] {
		if !math.IsNaN(y) {
			s += each * y
			w += each
		}
		each *= decay
	}
	return math.Sqrt(s / w)
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

func (f *filler) levels() {
	v, level := f.v, f.v.level
	f.diff(math.Sqrt(v.h.Last(5)), level)
	f.diff(v.ewma(3, 20), level)
	f.diff(v.ewma(30, nearMinutes), level)
	for _, i := range [...]int{model.Level90m, model.Level6h, model.Level1d} {
		f.diff(math.Sqrt(max(0, v.h.Level(i))), level)
	}
	f.diff(v.root(0, 15), level)
	f.diff(v.root(0, 60), level)
	for _, n := range [...]int{5, 15, 60, nearMinutes} {
		lo, hi := v.extremes(n)
		f.diff(hi, level)
		f.diff(lo, level)
	}
	f.quantiles(60, .1, .25, .5, .75, .9)
	f.quantiles(20, .2, .5, .8)
	// What the minutes of the window were an hour before.
	hi, sum, n := math.NaN(), 0.0, 0.0
	for _, y := range v.y[30:46] {
		if !math.IsNaN(y) {
			sum += y
			n++
			if !(y <= hi) {
				hi = y
			}
		}
	}
	f.diff(math.Sqrt(hi), level)
	f.diff(math.Sqrt(sum/n), level)
}

func (f *filler) quantiles(n int, taus ...float64) {
	var buf [nearMinutes]float64
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
		f.diff(known[int(tau*float64(len(known)-1)+.5)], f.v.level)
	}
}

func (f *filler) slopes() {
	v := f.v
	f.diff(v.root(0, 5), v.root(5, 15))
	f.diff(v.root(0, 15), v.root(15, 30))
	f.diff(v.root(0, 30), v.root(30, 60))
	f.diff(v.root(0, 60), v.root(60, nearMinutes))
	for _, lag := range [...]int{1, 15, 30} {
		s, n := 0.0, 0.0
		for i := range 60 {
			if d := v.z[i] - v.z[i+lag]; !math.IsNaN(d) {
				s += math.Abs(d)
				n++
			}
		}
		f.ratio(s / max(n, 1))
	}
}

func (f *filler) spreads() {
	v := f.v
	for _, d := range v.dev {
		f.ratio(d)
	}
	for _, d := range v.step {
		f.ratio(d)
	}
	f.ratio(v.rise)
	f.ratio(v.worst)
	far := math.Sqrt(max(0, v.h.Level(model.Level1d)))
	f.put(v.level / (v.level + 2*v.spread))
	f.put(far / (far + 2*v.spread))
}

func (f *filler) silence() {
	v := f.v
	for _, n := range [...]int{15, 60} {
		zeros, known := 0.0, 0.0
		for _, y := range v.y[:n] {
			if y == 0 {
				zeros++
			}
			if y >= 0 {
				known++
			}
		}
		f.put(zeros / max(known, 1))
	}
	f.put(v.zeros)
	same := 0.0
	for i := range 60 {
		if v.y[i] == v.y[i+1] {
			same++
		}
	}
	f.put(same / 60)
	run := 0
	for run < 20 && v.y[run+1] == v.y[run] {
		run++
	}
	f.put(float64(run) / 10)
	since := 0
	for since < nearMinutes && !(v.y[since] > 0) {
		since++
	}
	if since == nearMinutes {
		for i := nearMinutes / 10; i <= dayBins && !(v.bin[i] > 0); i++ {
			since += 10
		}
	}
	f.put(math.Log1p(float64(since)) / 4)
}

func (f *filler) dayShape() {
	v := f.v
	f.diff(v.binMean, v.level)
	f.diff(v.binMax, v.level)
	f.diff(v.binMin, v.level)
	f.ratio(v.binSD)
	f.put(v.below)
}

func (f *filler) seasons() {
	v, h := f.v, f.v.h
	around := func(m int64) float64 { return math.Sqrt(h.Mean(m-7, min(m+7, h.Newest))) }
	now := around(h.DayBefore(h.Newest - 5))
	f.flag(now)
	f.diff(now, v.level)
	for _, lead := range [...]int64{8, 15, 30, 60} {
		f.diff(around(h.DayBefore(h.Newest+lead)), now)
	}
	f.diff(math.Sqrt(h.Max(h.DayBefore(h.Newest+15), h.DayBefore(h.Newest+30))), now)

	now = math.Sqrt(h.Bins(h.WeekBefore(h.Newest - 5)))
	f.flag(now)
	f.diff(now, v.level)
	for _, lead := range [...]int64{15, 30, 60} {
		f.diff(math.Sqrt(h.Bins(h.WeekBefore(h.Newest+lead))), now)
	}

	// The mean change over the same stretch of the clock on the days that are known, and how much it differed.
	var sum, square [3]float64
	days, level := 0.0, 0.0
	for k := 1; k <= 7; k++ {
		then := h.Calendar.DaysBefore(h.Newest, k)
		from := math.Sqrt(h.Bins(then - 5))
		var d [3]float64
		for i, lead := range [...]int64{15, 30, 60} {
			d[i] = math.Sqrt(h.Bins(then+lead)) - from
		}
		if math.IsNaN(d[0] + d[1] + d[2]) {
			continue
		}
		days++
		level += from
		for i := range d {
			sum[i] += d[i]
			square[i] += d[i] * d[i]
		}
	}
	f.put(days / 7)
	if days == 0 {
		for range 7 {
			f.put(0)
		}
		return
	}
	f.diff(level/days, v.level)
	for i := range sum {
		mean := sum[i] / days
		f.diff(mean, 0)
		f.ratio(math.Sqrt(square[i] / days))
	}
}

// flag says whether a season is known.
func (f *filler) flag(z float64) {
	if math.IsNaN(z) {
		f.put(0)
		return
	}
	f.put(1)
}

func (f *filler) age() {
	f.put(math.Log1p(float64(f.v.h.Known)) / 5)
	f.put(float64(f.v.bins) / dayBins)
	f.put(float64(f.v.known) / nearMinutes)
}
