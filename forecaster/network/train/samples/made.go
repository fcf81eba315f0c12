package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// made are series that no trace holds enough of: random walks, steady traffic of requests with lognormal sizes, with and
// without a daily season, launches that rise from nothing, a few long sessions, jobs that run at the same time each
// day, bursts hours apart, and days that are alike. They are one group.
func made() (out []serie) {
	r := rand.New(rand.NewPCG(1, 3))
	for i := range 40 {
		for kind, draw := range []func(n int, r *rand.Rand) []float64{walk, steady, launch, sessions, jobs, rare, daily, daily} {
			n := 300 + int(math.Exp(r.Float64()*math.Log(6000)))
			out = append(out, serie{group: "made", name: fmt.Sprintf("made/%d/%d", kind, i), y: draw(n, r)})
		}
	}
	return out
}

// walk moves by a share of itself each minute; counts of requests add noise.
func walk(n int, r *rand.Rand) []float64 {
	step := .005 * math.Exp(r.Float64()*math.Log(20))
	noise := math.Exp(r.Float64()*math.Log(300)) * 3
	level, y := 0.0, make([]float64, n)
	for i := range y {
		level += step * r.NormFloat64()
		y[i] = distuv.Gamma{Alpha: noise, Beta: noise / math.Exp(level), Src: r}.Rand()
	}
	return y
}

// steady is Poisson requests of lognormal sizes; half of them follow the time of day.
func steady(n int, r *rand.Rand) []float64 {
	perMinute := .03 * math.Exp(r.Float64()*math.Log(10_000))
	sigma := .3 + 1.7*r.Float64()
	season := max(0, 1.6*r.Float64()-.8)
	y := make([]float64, n)
	for i := range y {
		rate := perMinute * (1 + season*math.Sin(2*math.Pi*float64(i)/1440))
		requests := int(distuv.Poisson{Lambda: rate, Src: r}.Rand())
		for range requests {
			y[i] += math.Exp(sigma * r.NormFloat64())
		}
	}
	return y
}

// launch rises in a straight line for a while, then stays.
func launch(n int, r *rand.Rand) []float64 {
	rise := 30 * math.Exp(r.Float64()*math.Log(20))
	peak := 2 * math.Exp(r.Float64()*math.Log(300))
	floor := r.Float64() * .3
	y := make([]float64, n)
	for i := range y {
		part := floor + (1-floor)*min(1, float64(i)/rise)
		y[i] = distuv.Poisson{Lambda: peak*part + 1e-9, Src: r}.Rand()
	}
	return y
}

// sessions begin now and then, last for minutes or hours, and have sizes of their own.
func sessions(n int, r *rand.Rand) []float64 {
	every := 5 * math.Exp(r.Float64()*math.Log(60))
	lasting := 2 * math.Exp(r.Float64()*math.Log(60))
	y := make([]float64, n)
	for at := 0.0; at < float64(n); at += every * r.ExpFloat64() {
		size := math.Exp(.8 * r.NormFloat64())
		end := at + lasting*r.ExpFloat64()
		for i := int(at); i < n && float64(i) <= end; i++ {
			y[i] += distuv.Gamma{Alpha: 2, Beta: 2 / size, Src: r}.Rand()
		}
	}
	return y
}

// daily rises and falls at the same times of two to twelve days, on all or on weekdays, steeply or over an hour, with little noise
// or much.
func daily(_ int, r *rand.Rand) []float64 {
	n := (2+r.IntN(10))*1440 + r.IntN(1440)
	from, until := r.Float64()*1440, 120+r.Float64()*900
	width := 5 * math.Exp(r.Float64()*math.Log(16))
	factor := 2 * math.Exp(r.Float64()*math.Log(8))
	noise := math.Exp(r.Float64()*math.Log(1000)) * 3
	weekdays := r.Float64() < .3
	y := make([]float64, n)
	for i := range y {
		at := math.Mod(float64(i)+2*1440-from, 1440)
		level := 1 + (factor-1)*(math.Tanh((at-60)/width)-math.Tanh((at-60-until)/width))/2
		if weekdays && (i+1440-int(from))/1440%7 >= 5 {
			level = 1
		}
		y[i] = distuv.Gamma{Alpha: noise, Beta: noise / level, Src: r}.Rand()
	}
	return y
}

// rare is silent for hours or days between bursts of some minutes; a third of them end for good.
func rare(n int, r *rand.Rand) []float64 {
	n = max(n, 1440)
	every := 60 * math.Exp(r.Float64()*math.Log(50))
	y := make([]float64, n)
	end := float64(n)
	if r.Float64() < .33 {
		end *= r.Float64()
	}
	for at := every * r.ExpFloat64(); at < end; at += every * r.ExpFloat64() {
		lasting, size := 1+int(10*r.ExpFloat64()), math.Exp(.8*r.NormFloat64())
		for i := int(at); i < min(n, int(at)+lasting); i++ {
			y[i] += distuv.Gamma{Alpha: 1, Beta: 1 / size, Src: r}.Rand()
		}
	}
	return y
}

// jobs multiply steady traffic between two times of the day, on all days or on weekdays.
func jobs(n int, r *rand.Rand) []float64 {
	y := steady(max(n, 4*1440), r)
	from, lasting, factor := r.IntN(1440), 20+r.IntN(600), 2*math.Exp(r.Float64()*math.Log(8))
	weekdays := r.Float64() < .3
	for i := range y {
		if (i+1440-from)%1440 < lasting && !(weekdays && i/1440%7 >= 5) {
			y[i] *= factor
		}
	}
	return y
}
