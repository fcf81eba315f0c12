package model

import "math"

// Regression is a linear regression of how far the level will move, learned minute by minute: recursive least squares
// with exponential forgetting (Ljung and Söderström 1983, Theory and Practice of Recursive Identification, §2.5) on the
// square-root scale, one set of weights per target:
//
//	ẑ(target) = √level + N·φᵀw,  K = Pφ/(λ + φᵀPφ),  w += K·clip(error),  P = (P − KφᵀP)/λ
//
// φ are differences between the present ten-minute level and what other clocks say (the last minute, averages from three
// minutes to a day, yesterday and last week at the same local time and what came then), in units of N, the usual
// deviation of the series. So weights have no unit, a new series begins as its ten-minute level, and a level shift moves
// all forecasts at once. All targets share φ, and thus P and the gains K: these are computed when φ is known and kept
// until the outcomes are. What is not known yet is 0.
//
// Forgetting alone lets P grow without bound along features that do not move, such as yesterday's during the first day.
// So each step adds one pseudo-observation "this weight is zero", coordinate after coordinate, of the strength that the
// ridge at the start has lost since.
//
// Keep must be called before the first Update. Cost: O(features² + targets × features) per minute. Memory: about 12 KiB,
// and 90 bytes for each minute of settling time.
type Regression struct {
	Leads    []int // of the targets, ascending
	From, To int   // span of the last target, the largest minute of a span of leads

	gram   [numFeatures * numFeatures]float64 // P
	weight []float64                          // per target
	errors []float64                          // per target, mean absolute, in units of N
	size   [numFeatures]float64               // mean square of the features
	steps  float64

	deviation float64 // mean of |√y − √level| over a day
	seen      float64
	most      float64 // largest minute, forgotten within weeks

	now     regressionRow
	waiting []regressionRow // by minute: origins whose outcomes are still to come
}

// regressionRow is what is kept of an origin until all its outcomes are known.
type regressionRow struct {
	minute       int64 // −1: none
	level, scale float64
	feature      [numFeatures]float32
	gain         [numFeatures]float32
}

// Constants of the regression, picked on origins in the second third of seven public traces. A ridge of 1000 or features up
// to 30 deviations lose 1 % and more.
const (
	numFeatures       = 20
	regressionEvery   = 2 // origins between those learned from: neighbours hardly differ
	regressionRidge   = 100.0
	regressionHorizon = 3 * day // half-life, in minutes
	leastDeviation    = 0.05    // of the root of a day's mean
	mostFeature       = 5       // deviations; a lone large minute says no more than that it was one
	mostError         = 4       // mean absolute errors
)

var regressionForget = math.Pow(.5, float64(regressionEvery)/regressionHorizon)

// Keep makes room for origins that wait so many minutes for their last outcome.
func (r *Regression) Keep(minutes int) {
	r.waiting = make([]regressionRow, minutes/regressionEvery+2)
	for i := range r.waiting {
		r.waiting[i].minute = -1
	}
	n := len(r.Leads) + 1
	r.weight, r.errors = make([]float64, n*numFeatures), make([]float64, n)
	for i := range numFeatures {
		r.gram[i*numFeatures+i] = 1 / regressionRidge
		r.size[i] = 1
	}
	r.now.minute = -1
}

// Update computes the features of the newest minute, and the gain with which weights will move once outcomes are known.
func (r *Regression) Update(h *History) {
	if h.Known == 0 {
		return
	}
	y := h.At(h.Newest)
	if !math.IsNaN(y) {
		r.seen++
		d := math.Abs(math.Sqrt(y) - math.Sqrt(h.Level(Level10m)))
		r.deviation += math.Max(1.0/day, 1/r.seen) * (d - r.deviation)
		r.most = math.Max(r.most*(1-1.0/(7*day)), y)
	}
	r.describe(h)
	if !math.IsNaN(y) && h.Known > 1 && h.Newest%regressionEvery == 0 {
		r.absorb()
		*r.row(h.Newest) = r.now
	}
}

func (r *Regression) row(minute int64) *regressionRow {
	return &r.waiting[minute/regressionEvery%int64(len(r.waiting))]
}

// describe computes φ.
func (r *Regression) describe(h *History) {
	t, x := h.Newest, &r.now
	level, e90, e1d := math.Sqrt(h.Level(Level10m)), math.Sqrt(h.Level(Level90m)), math.Sqrt(h.Level(Level1d))
	last, e3 := math.Sqrt(h.Last(5)), math.Sqrt(h.Level(Level3m))
	// What came yesterday and last week: now, and in the middle and at the end of the next half hour.
	was, soon, later := math.Sqrt(yesterday(h, t-3)), math.Sqrt(yesterday(h, t+15)), math.Sqrt(yesterday(h, t+30))
	wasWeek, soonWeek := math.Sqrt(h.Bins(h.WeekBefore(t-5))), math.Sqrt(h.Bins(h.WeekBefore(t+22)))
	a, b := h.DayBefore(t+15), h.DayBefore(t+30)
	clock := 2 * math.Pi * float64(h.Calendar.Local(t)%day) / day

	x.minute, x.level = t, level
	x.scale = math.Max(math.Max(r.deviation, leastDeviation*e1d), 1e-9)
	for i, f := range [numFeatures]float64{
		last - level,
		math.Max(0, last-level),
		e3 - level,
		math.Sqrt(h.Level(Level30m)) - level,
		e90 - level,
		math.Max(0, e3-e90),
		math.Sqrt(h.Level(Level6h)) - level,
		e1d - level,
		math.Sqrt(h.Max(t-14, t)) - level,
		math.Sqrt(h.Max(t-59, t)) - level,
		soon - was,
		later - soon,
		soon - level,
		math.Max(0, soon-level),
		math.Sqrt(h.Max(min(a, b), max(a, b))) - soon,
		soonWeek - wasWeek,
		soonWeek - level,
		x.scale,
		x.scale * math.Sin(clock),
		x.scale * math.Cos(clock),
	} {
		if math.IsNaN(f) {
			f = 0
		}
		x.feature[i] = float32(math.Max(-mostFeature, math.Min(mostFeature, f/x.scale)))
	}
}

// absorb moves P by the features of the newest minute, and leaves the gain.
func (r *Regression) absorb() {
	const n = numFeatures
	p := &r.gram
	var pf [n]float64
	norm := regressionForget
	for i := range n {
		s := 0.0
		for j, f := range r.now.feature {
			s += p[i*n+j] * float64(f)
		}
		pf[i] = s
		norm += s * float64(r.now.feature[i])
	}
	for i := range n {
		r.now.gain[i] = float32(pf[i] / norm)
		for j := range n {
			p[i*n+j] = (p[i*n+j] - pf[i]*pf[j]/norm) / regressionForget
		}
	}
	r.steps++
	for i, f := range r.now.feature {
		r.size[i] += math.Max(1e-3, 1/(r.steps+10)) * (float64(f)*float64(f) - r.size[i])
	}
	r.leak(int(r.steps) % n)
}

// leak is the pseudo-observation that weight i is zero.
func (r *Regression) leak(i int) {
	const n = numFeatures
	p := &r.gram
	strength := n * (1 - regressionForget) * regressionRidge * math.Max(r.size[i], .05)
	strength /= 1 + p[i*n+i]*strength
	var column [n]float64
	for a := range n {
		column[a] = p[a*n+i]
	}
	for a := range n {
		for b := range n {
			p[a*n+b] -= column[a] * column[b] * strength
		}
	}
	for k := range r.errors {
		w := r.weight[k*n : k*n+n]
		by := w[i] * strength
		for a := range w {
			w[a] -= column[a] * by
		}
	}
}

// Learn takes the outcomes of all targets whose last minute is t. Of leads beyond a few minutes the target is the mean of
// up to five minutes that end there: it says as much of the level, with less noise.
func (r *Regression) Learn(h *History, t int64) {
	for k := range r.errors {
		to := r.To
		if k < len(r.Leads) {
			to = r.Leads[k]
		}
		x := r.row(t - int64(to))
		if x.minute != t-int64(to) {
			continue
		}
		y := h.Max(t-int64(r.To-r.From), t)
		if k < len(r.Leads) {
			y = h.Mean(t-int64(min(4, to/3)), t)
		}
		if math.IsNaN(y) {
			continue
		}
		e := (math.Sqrt(y)-x.level)/x.scale - r.dot(k, x)
		if usual := r.errors[k]; usual > 0 {
			e = math.Max(-mostError*usual, math.Min(mostError*usual, e))
		}
		r.errors[k] += math.Max(1.0/720, 1/(r.steps+1)) * (math.Abs(e) - r.errors[k])
		for i := range numFeatures {
			r.weight[k*numFeatures+i] += float64(x.gain[i]) * e
		}
	}
}

// dot is φᵀw of target k.
func (r *Regression) dot(k int, x *regressionRow) (s float64) {
	for i, w := range r.weight[k*numFeatures : (k+1)*numFeatures] {
		s += w * float64(x.feature[i])
	}
	return s
}

// at is the forecast of target k, at most half as much again as was ever seen.
func (r *Regression) at(h *History, k int) float64 {
	if h.Known == 0 {
		return math.NaN()
	}
	z := r.now.level + r.now.scale*r.dot(k, &r.now)
	return math.Min(square(z), 1.5*math.Max(r.most, h.Level(Level10m)))
}

// Forecast is linear in the lead between those that have weights.
func (r *Regression) Forecast(h *History, lead int) float64 {
	for k, to := range r.Leads {
		switch {
		case to < lead:
		case to == lead || k == 0:
			return r.at(h, k)
		default:
			f := float64(lead-r.Leads[k-1]) / float64(to-r.Leads[k-1])
			return (1-f)*r.at(h, k-1) + f*r.at(h, k)
		}
	}
	return r.at(h, len(r.Leads)-1)
}

// Peak is the forecast of the last target, whatever the span.
func (r *Regression) Peak(h *History, _, _ int) float64 { return r.at(h, len(r.Leads)) }

// State is what was learned, then the newest origin, then those that wait for outcomes.
func (r *Regression) State() []float64 {
	s := append([]float64{r.steps, r.deviation, r.seen, r.most}, r.gram[:]...)
	s = append(append(append(s, r.size[:]...), r.weight...), r.errors...)
	for _, x := range append([]regressionRow{r.now}, r.waiting...) {
		s = append(s, float64(x.minute), x.level, x.scale)
		for i := range x.feature {
			s = append(s, float64(x.feature[i]), float64(x.gain[i]))
		}
	}
	return s
}

// Restore takes over a State of the same targets and the same Keep.
func (r *Regression) Restore(s []float64) bool {
	const row = 3 + 2*numFeatures
	if len(s) != 4+len(r.gram)+len(r.size)+len(r.weight)+len(r.errors)+row*(1+len(r.waiting)) {
		return false
	}
	take := func(to []float64) { s = s[copy(to, s):] }
	var head [4]float64
	take(head[:])
	r.steps, r.deviation, r.seen, r.most = head[0], head[1], head[2], head[3]
	take(r.gram[:])
	take(r.size[:])
	take(r.weight)
	take(r.errors)
	read := func(x *regressionRow) {
		x.minute, x.level, x.scale = int64(s[0]), s[1], s[2]
		for i := range x.feature {
			x.feature[i], x.gain[i] = float32(s[3+2*i]), float32(s[4+2*i])
		}
		s = s[row:]
	}
	read(&r.now)
	for i := range r.waiting {
		read(&r.waiting[i])
	}
	return true
}
