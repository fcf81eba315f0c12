package main

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mathext"

	"github.com/forewarm/forewarm/alerting/report"
)

// A rival is a baseline with the quantiles of its own past errors.
type rivalErrors struct {
	errors []float64 // the first twenty
	at     []float64 // by storedLevels, once there are twenty
	spread float64   // mean absolute deviation from the median
	n      float64
}

// densities are 1 over the density of the standard normal distribution at storedLevels.
var densities = func() (out []float64) {
	for _, level := range storedLevels {
		z := math.Round(1e4*math.Sqrt2*math.Erfinv(2*level-1)) / 1e4 // four digits, as tables have them
		out = append(out, math.Sqrt(2*math.Pi)*math.Exp(z*z/2))
	}
	return out
}()

// learn moves each quantile towards an error, by the inverse of the density there over the errors that are remembered: a
// day of them. The density is that between the neighbours, its inverse at least a tenth and at most four times that of
// a normal distribution as wide.
func (r *rivalErrors) learn(e float64) {
	if math.IsNaN(e) {
		return
	}
	r.n++
	if r.at == nil {
		if r.errors = append(r.errors, e); len(r.errors) == 20 {
			slices.Sort(r.errors)
			for _, level := range storedLevels {
				k := 19 * level
				below := r.errors[int(k)]
				r.at = append(r.at, below+(k-math.Floor(k))*(r.errors[min(int(k)+1, 19)]-below))
			}
			for _, e := range r.errors {
				r.spread += math.Abs(e-r.at[3]) / 20
			}
		}
		return
	}
	gain := math.Max(1./1440, 1/r.n)
	normal := r.spread * math.Sqrt(math.Pi/2)
	r.spread += gain * (math.Abs(e-r.at[3]) - r.spread)
	next := slices.Clone(r.at)
	for i, level := range storedLevels {
		lower, upper := max(i-1, 0), min(i+1, len(storedLevels)-1)
		inverse := (r.at[upper] - r.at[lower]) / (storedLevels[upper] - storedLevels[lower])
		inverse = math.Min(math.Max(inverse, .1*normal*densities[i]), 4*normal*densities[i])
		if e < r.at[i] {
			next[i] -= gain * inverse * (1 - level)
		} else {
			next[i] += gain * inverse * level
		}
	}
	slices.Sort(next)
	r.at = next
}

// loss of the baseline that expects point, when y came.
func (r *rivalErrors) loss(point, y float64) (sum float64) {
	if r.at == nil {
		return math.NaN()
	}
	for _, level := range []float64{.5, .8, .9, .95, .99} {
		sum += pinball(level, y, math.Max(0, point+r.at[slices.Index(storedLevels, level)])) / 5
	}
	return sum
}

// rivals holds the skill of quantiles against each baseline, and the test of Diebold and Mariano.
func (x *recomputed) rivals(name string, a *report.Accuracy, all []scoredForecast) {
	demand := x.demand(a.Class, a.Dimension)
	to, window := int64(30), a.Horizon == "max15_30"
	if !window {
		minutes, _ := strconv.Atoi(a.Horizon)
		to = int64(minutes)
	}
	over := func(from, to int64, of func(sum, y float64) float64, start float64) float64 {
		for m := from; m <= to; m++ {
			start = of(start, demand(m))
		}
		return start
	}
	outcome := func(origin int64) float64 {
		if !window {
			return demand(origin + to - 1)
		}
		return over(origin+14, origin+29, math.Max, 0)
	}
	average := func(from, to int64) float64 {
		n := 0.0
		sum := over(from, to, func(sum, y float64) float64 {
			if math.IsNaN(y) {
				return sum
			}
			n++
			return sum + y
		}, 0)
		return sum / n
	}
	season := func(minutes int64) func(int64) float64 {
		return func(origin int64) float64 {
			if window {
				return outcome(origin - minutes)
			}
			m := origin + to - 1 - minutes
			return average(m-7, m+7)
		}
	}
	points := map[string]func(origin int64) float64{
		"last": func(o int64) float64 { return demand(o - 1) }, "recent_15m": func(o int64) float64 { return average(o-15, o-1) },
		"seasonal_day": season(1440), "seasonal_week": season(10080),
	}
	skills, counts, most := map[string]float64{}, map[string]int{}, 0
	for _, b := range a.Baselines {
		point := points[b.Baseline]
		errors, losses := &rivalErrors{}, map[int64]float64{} // by origin
		for m := x.from - 120 - 2880; m < x.to; m++ {
			o := m - to + 1
			errors.learn(outcome(o) - point(o))
			losses[m+1] = errors.loss(point(m+1), outcome(m+1))
		}
		var own, its float64
		var kept []scoredForecast
		var off []float64
		for _, f := range all {
			l := losses[f.origin]
			if math.IsNaN(l) {
				continue
			}
			mine := 0.0
			for _, level := range []float64{.5, .8, .9, .95, .99} {
				mine += pinball(level, f.y, f.q[level]) / 5
			}
			own, its, kept, off = own+mine, its+l, append(kept, f), append(off, mine-l)
		}
		what := name + "against " + b.Baseline + ": "
		x.count(what+"outcomes", b.Outcomes, len(kept))
		skill := 1 - own/its
		x.same(what+"skill of quantiles", b.Skill, skill)
		dm, p := dieboldMariano(off, kept, all, float64(to))
		x.same(what+"DM", b.DM, dm)
		x.same(what+"P", b.P, p)
		skills[b.Baseline], counts[b.Baseline] = skill, len(kept)
		most = max(most, len(kept))
	}
	for baseline, skill := range skills {
		if 2*counts[baseline] >= most && skill < skills[a.Best] {
			x.Errorf("%sbest baseline is %q in the report, but %q has less against it", name, a.Best, baseline)
		}
	}
	if 2*counts[a.Best] < most {
		x.Errorf("%sbest baseline %q had too little to say", name, a.Best)
	}
}

// dieboldMariano is the statistic of differences of loss, and its two-sided probability.
func dieboldMariano(off []float64, of, all []scoredForecast, h float64) (dm, p float64) {
	n, mean := float64(len(off)), 0.0
	for _, d := range off {
		mean += d / n
	}
	variance := 0.0
	for i := range off {
		for j := range off {
			if apart := math.Abs(float64(of[i].origin - of[j].origin)); apart < h {
				variance += (1 - apart/h) * (off[i] - mean) * (off[j] - mean) / n / n
			}
		}
	}
	steps := math.Ceil(h / (float64(all[len(all)-1].origin-all[0].origin) / float64(len(all)-1)))
	correction := (n + 1 - 2*steps + steps*(steps-1)/n) / n
	if !(variance > 0 && correction > 0 && n > 2) {
		return math.NaN(), math.NaN()
	}
	dm = mean / math.Sqrt(variance) * math.Sqrt(correction)
	return dm, mathext.RegIncBeta((n-1)/2, .5, (n-1)/(n-1+dm*dm))
}
