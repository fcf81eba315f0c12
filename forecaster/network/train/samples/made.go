package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// made returns synthetic series of kinds that are rare in the traces: walks; steady traffic of requests with lognormal
// sizes, with and without a daily season; launches that rise from nothing; a few long sessions; jobs at the same time
// each day; bursts hours apart, at exact intervals or in random minutes; equal days; sites with different days. Many of
// them change their level for good, or for some hours. They are one group.
func made() (out []timeSeries) {
	r := rand.New(rand.NewPCG(1, 3))
	kinds := []func(n int, r *rand.Rand) []float64{
		walk, steady, launch, sessions, jobs, rare, daily, clock, lone, site, site, site,
	}
	for i := range 40 {
		for kind, draw := range kinds {
			n := 300 + int(math.Exp(r.Float64()*math.Log(6000)))
			y := draw(n, r)
			if r.Float64() < .4 {
				shift(y, r)
			}
			out = append(out, timeSeries{group: "made", name: fmt.Sprintf("made/%d/%d", kind, i), y: y})
		}
	}
	return out
}

// shift changes the level of a series once to three times: for good, or for up to half a day.
func shift(y []float64, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		from, to := r.IntN(len(y)), len(y)
		if r.Float64() < .4 {
			to = min(to, from+30+r.IntN(700))
		}
		factor := math.Exp(1.1 * r.NormFloat64())
		for i := from; i < to; i++ {
			y[i] *= factor
		}
	}
}

// walk moves by a share of itself each minute, without end or about a mean; counts of requests add noise.
func walk(n int, r *rand.Rand) []float64 {
	step, keep := .005*math.Exp(r.Float64()*math.Log(20)), 1.0
	if r.Float64() < .5 {
		keep = 1 - math.Exp(-1-5*r.Float64())
		step = (.1 + .9*r.Float64()) * math.Sqrt(1-keep*keep)
	}
	noise := math.Exp(r.Float64()*math.Log(30_000)) * 3
	level, y := 0.0, make([]float64, n)
	for i := range y {
		level = keep*level + step*r.NormFloat64()
		y[i] = distuv.Gamma{Alpha: noise, Beta: noise / math.Exp(level), Src: r}.Rand()
	}
	return y
}

// clock has bursts at exact intervals, and little or nothing between them.
func clock(n int, r *rand.Rand) []float64 {
	every := []int{5, 10, 15, 20, 30, 60, 120}[r.IntN(7)]
	lasting, noise := 1+r.IntN(1+every/5), 2*math.Exp(r.Float64()*math.Log(300))
	between := max(0, .3*r.Float64()-.15)
	y := make([]float64, n)
	for i := range y {
		level := between
		if i%every < lasting {
			level = 1
		}
		if level > 0 {
			y[i] = distuv.Gamma{Alpha: noise * level, Beta: noise, Src: r}.Rand()
		}
	}
	return y
}

// lone has something in each minute with the same probability.
func lone(n int, r *rand.Rand) []float64 {
	share, sigma := math.Exp2(-.3-6*r.Float64()), .2+1.4*r.Float64()
	y := make([]float64, n)
	for i := range y {
		if r.Float64() < share {
			y[i] = math.Exp(sigma * r.NormFloat64())
		}
	}
	return y
}

// site is busy traffic of two to fourteen days: a smooth rhythm of the day, quieter weekends, a level that wanders over
// hours and from day to day, and crowds that come within minutes and leave slowly.
func site(_ int, r *rand.Rand) []float64 {
	n := (2+r.IntN(12))*1440 + r.IntN(1440)
	var strength, phase [4]float64
	for k := range strength {
		strength[k], phase[k] = .8*r.Float64()/float64(k+1)/float64(k+1), 2*math.Pi*r.Float64()
	}
	weekend, day := -max(0, 1.2*r.Float64()-.6), r.IntN(7)
	keep := 1 - math.Exp(-2.5-3.5*r.Float64())
	wander, daywise := (.02+.3*r.Float64())*math.Sqrt(1-keep*keep), .3*r.Float64()
	crowds := max(0, math.Exp(r.Float64()*math.Log(12))-2) // a day
	noise := math.Exp(r.Float64()*math.Log(3000)) * 3
	level, today, crowd, rising := 0.0, 0.0, 0.0, 0.0
	fall := 1 - 1/(10*math.Exp(r.Float64()*math.Log(15)))
	y := make([]float64, n)
	for i := range y {
		if i%1440 == 0 {
			today = .6*today + daywise*r.NormFloat64()
		}
		if r.Float64() < crowds/1440 {
			rising = .1 + .5*r.ExpFloat64()
		}
		crowd, rising = fall*crowd+.15*rising, .85*rising
		level = keep*level + wander*r.NormFloat64()
		z := level + today + crowd
		for k := range strength {
			z += strength[k] * math.Sin(2*math.Pi*float64(i*(k+1))/1440+phase[k])
		}
		if (i/1440+day)%7 >= 5 {
			z += weekend
		}
		y[i] = distuv.Gamma{Alpha: noise, Beta: noise / math.Exp(z), Src: r}.Rand()
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

// daily rises and falls at the same times of two to twelve days, on all days or on weekdays, steeply or over an hour,
// with little or much noise.
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
