package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// light is one dimension of one of the many classes that do not carry the load: a history of its own, and little beside.
// It tracks the quantiles of its errors at a few targets, from every fifth origin, starting from what all light series of
// the dimension have learned together (shared). About 7 KiB; O(targets × levels) per minute.
type light struct {
	observed
	all  *shared
	turn int64 // origins are kept at minutes that are this modulo lightEvery

	errors  [numKnots]levels32 // quantiles of (√y − point)/spread
	seen    [numKnots]float32  // outcomes they have learned from
	silence [numKnots]hurdle
	rows    []lightRow // forecasts whose outcomes are still to come, by origin
}

// levels32 is a number per level.
type levels32 [NumLevels]float32

// lightRow is a forecast whose outcomes are still to come, on the square-root scale.
type lightRow struct {
	Minute int64 // the newest minute when the forecast was made, −1: none
	Spread float32
	Point  [numKnots]float32
}

// lightEvery is the spacing, in minutes, of the origins that a light series learns from. Forecasts of consecutive minutes
// have much of their errors in common.
const lightEvery = 5

// knots are the targets, as indices, at which light series learn; in between, learned offsets are linear in the root of
// the lead.
var knots = [...]int{3, 6, 10, windowMax}

const (
	numKnots = len(knots)
	peakKnot = numKnots - 1
)

const (
	lightGain  = 1.0 / 300 // memory of a series' own offsets, in origins: a day
	lightPrior = 30        // origins' worth of belief in what is learned of all series together
)

func newLight(key features.Key, all *shared, o observed) *light {
	l := &light{observed: o, all: all, turn: int64(seed(key.String()) % lightEvery)}
	l.rows = make([]lightRow, (targets[knots[peakKnot]].to+o.settle)/lightEvery+1)
	for i := range l.rows {
		l.rows[i].Minute = -1
	}
	return l
}

func (l *light) push(m int64, now features.Estimate) {
	l.catchUp(m, l.step)
	l.step(m, now)
}

func (l *light) step(m int64, now features.Estimate) {
	l.history.Push(m, now.Mean)
	l.anchor.move(now, l.history.Level(model.Level10m), l.firm(&now, now.Mean))
	if l.history.Known == 0 {
		return
	}
	l.learnUpTo(m, l.learn)
	if m%lightEvery != l.turn {
		return
	}
	x := look(l.history)
	r := l.row(m)
	r.Minute, r.Spread = m, float32(l.width())
	for j, k := range knots {
		r.Point[j] = float32(x.point(k))
	}
}

func (l *light) row(m int64) *lightRow {
	return &l.rows[m/lightEvery%int64(len(l.rows))]
}

// learn gives every knot whose last minute is t its outcome.
func (l *light) learn(t int64) {
	for j, k := range knots {
		x := targets[k]
		origin := t - int64(x.to)
		if origin < 0 || origin%lightEvery != l.turn {
			continue
		}
		r := l.row(origin)
		y := l.outcome(x, t)
		if r.Minute != origin || math.IsNaN(y) {
			continue
		}
		silent := l.silent(origin)
		if silent {
			l.silence[j].learn(l.came(t-int64(x.to-x.from), t))
		}
		if silent && y == 0 {
			continue // says nothing of how far outcomes stray
		}
		residual := (math.Sqrt(y) - float64(r.Point[j])) / float64(r.Spread)
		l.correct(j, residual)
		l.all.count(j, residual)
	}
}

// quantiles of the errors of knot j: those of all series until the series has errors of its own.
func (l *light) quantiles(j int) (q Quantiles) {
	if l.seen[j] == 0 {
		return l.all.Residual[j]
	}
	for i, x := range l.errors[j] {
		q[i] = float64(x)
	}
	return q
}

// correct moves the error quantiles of knot j towards a residual, like mixture.track.
func (l *light) correct(j int, residual float64) {
	q := l.quantiles(j)
	follow(&q, residual, max(lightGain, 1/(float64(l.seen[j])+lightPrior)))
	for i, x := range q {
		l.errors[j][i] = float32(x)
	}
	l.seen[j]++
}

// distributions are the forecasts of all targets from the newest minute; false when there is too little history.
func (l *light) distributions(at *[numTargets]Quantiles) bool {
	if l.history.Known < minKnown {
		return false
	}
	x, width := look(l.history), l.width()
	silent := l.silent(l.history.Newest)
	var errors [numKnots]Quantiles
	for j := range errors {
		errors[j] = l.quantiles(j)
	}
	for k := range targets {
		w, z := &knotWeights[k], x.point(k)
		a, b := &errors[w.j], &errors[w.j+1]
		var q Quantiles
		for i := range q {
			q[i] = unroot(z + width*(w.a*a[i]+w.b*b[i]))
		}
		q.Sort()
		l.anchor.widen(&q)
		if silent {
			near := w.j
			if w.b > w.a {
				near++
			}
			l.silence[near].clear(&q)
		}
		at[k] = q
	}
	return true
}

// forecast fills f with distributions.
func (l *light) forecast(f *Forecast, at *[numTargets]Quantiles) {
	l.describe(f, at)
	f.Weights = []Weight{{"light", 1}}
}

// knotWeights are the knots that surround each target, and their parts in what holds for it: linear in the root of the
// lead, as errors grow, within the knots and beyond them.
var knotWeights = func() (w [numTargets]struct {
	j    int
	a, b float64
}) {
	root := func(k int) float64 { return math.Sqrt(float64(targets[k].to)) }
	for k := range targets[:numLeads] {
		j := 0
		for j < peakKnot-2 && k > knots[j+1] {
			j++
		}
		lo, hi := root(knots[j]), root(knots[j+1])
		w[k].j, w[k].b = j, (root(k)-lo)/(hi-lo)
		w[k].a = 1 - w[k].b
	}
	w[windowMax].j, w[windowMax].b = peakKnot-1, 1
	return w
}()
