package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/forecaster/network"
)

// light is one dimension of one of the many classes that do not carry the load: a history of its own, and little beside.
// Its forecasts are functions of the history. It learns how they must be warped to cover what they say, at a few targets,
// from every fifth origin, starting from what all light series of the dimension have learned together (shared). About
// 7 KiB; O(targets × levels) per minute and forecast.
type light struct {
	observed
	all  *shared
	turn int64 // origins are kept at minutes that are this modulo lightEvery

	scores  [numKnots][numStates]levels32 // quantiles of the normal scores of outcomes, by the state of the origin
	seen    [numKnots][numStates]float32  // outcomes they have learned from
	silence [numKnots]hurdle
	rows    []lightRow // forecasts whose outcomes are still to come, by origin
}

// levels32 is a number per level.
type levels32 [NumLevels]float32

// lightRow is a forecast whose outcomes are still to come: quantiles on the square-root scale, as rowUnit of the spread
// from the level.
type lightRow struct {
	Minute        int64 // the newest minute when the forecast was made, −1: none
	Level, Spread float32
	Quantile      [numKnots][NumLevels]int16
}

const rowUnit = 1.0 / 256

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
	lightGain  = 1.0 / 400 // memory of how a series must be warped, in origins: a day and a third
	lightPrior = 100       // origins' worth of belief in what all series together learned
)

// states of an origin: what follows on traffic differs from what follows on silence, which is often silence again.
const (
	busy = iota
	silent
	numStates
)

// state is that of the minute m.
func (l *light) state(m int64) int {
	if l.silent(m) {
		return silent
	}
	return busy
}

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
	x := l.look()
	r := l.row(m)
	r.Minute, r.Level, r.Spread = m, float32(x.level), float32(x.spread)
	for j, k := range knots {
		for i, z := range x.at[k] {
			r.Quantile[j][i] = int16(max(-32767, min(32767, (float64(z)-x.level)/(rowUnit*x.spread))))
		}
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
		state := l.state(origin)
		if state == silent {
			l.silence[j].learn(l.came(t-int64(x.to-x.from), t), lightEvery)
		}
		var a axis
		for i, n := range r.Quantile[j] {
			a[i] = max(0, r.Level+rowUnit*r.Spread*float32(n))
		}
		score := a.score(math.Sqrt(y), leastWidth*float64(r.Spread))
		l.correct(j, state, score)
		l.all.count(j, state, score)
	}
}

// warp is the quantiles of the scores of outcomes at knot j: those of all series until the series has outcomes of its own.
func (l *light) warp(j, state int) (q Quantiles) {
	if l.seen[j][state] == 0 {
		return l.all.Scores[j][state]
	}
	for i, x := range l.scores[j][state] {
		q[i] = float64(x)
	}
	return q
}

// correct moves the quantiles of scores at knot j towards a score, like mixture.track does with errors.
func (l *light) correct(j, state int, score float64) {
	q := l.warp(j, state)
	follow(&q, score, max(lightGain, 1/(float64(l.seen[j][state])+lightPrior)), maxSparsity)
	for i, x := range q {
		l.scores[j][state][i] = float32(x)
	}
	l.seen[j][state]++
}

// distributions are the forecasts of all targets from the newest minute; false when there is too little history.
func (l *light) distributions(at *[numTargets]Quantiles) bool {
	if l.history.Known < minKnown {
		return false
	}
	x := l.look()
	state := l.state(l.history.Newest)
	var warps [numKnots]Quantiles
	for j := range warps {
		warps[j] = l.warp(j, state)
	}
	for k := range targets {
		w := &knotWeights[k]
		a, b := &warps[w.j], &warps[w.j+1]
		var q Quantiles
		for i := range q {
			q[i] = unroot(x.at[k].at(w.a*a[i]+w.b*b[i], leastWidth*x.spread))
		}
		q.Sort()
		l.anchor.widen(&q)
		if state == silent {
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
	f.Basis = asleep(l.history)
}

// knotWeights are the knots that surround each target, and their parts in what holds for it: linear in the root of the
// lead. Before the first knot and beyond the last plain one, that one counts.
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
		w[k].j, w[k].b = j, min(max((root(k)-lo)/(hi-lo), 0), 1)
		w[k].a = 1 - w[k].b
	}
	w[windowMax].j, w[windowMax].b = peakKnot-1, 1
	return w
}()

// outlook is what a history alone lets expect: for each target quantiles on the square-root scale, of which negative ones
// stand for zero; and the level and spread of the series on that scale.
type outlook struct {
	level, spread float64
	at            [numTargets]axis
}

// What a light series is expected to be where the network has nothing to go by.
const (
	driftShare = 0.25 // of the seasonal level, where there is a day of history, against that of recent minutes
	peakShare  = 0.6  // of the largest minute of a quarter of an hour, against that of an hour
)

// look reads the history. O(targets × minutes averaged).
func (l *light) look() (x outlook) {
	h := l.history
	if in, ok := network.Look(h); ok {
		var q network.Quantiles
		network.Fitted().Forecast(&in, &q)
		x.level, x.spread = in.Level, in.Spread
		for k := range x.at {
			for i, z := range q[k] {
				x.at[k][i] = max(0, z)
			}
		}
		return x
	}
	x.spread = l.width()
	x.level = (math.Sqrt(h.Level(model.Level10m)) + math.Sqrt(h.Level(model.Level30m)) + rootOf(h.Mean(h.Newest-14, h.Newest), h)) / 3
	peak := peakShare*rootOf(h.Max(h.Newest-14, h.Newest), h) + (1-peakShare)*rootOf(h.Max(h.Newest-59, h.Newest), h)
	for k, t := range targets {
		z := x.level
		if k == windowMax {
			z = peak
		} else if drift := (model.SeasonalDrift{}).Forecast(h, t.to); !math.IsNaN(drift) {
			z += driftShare * (math.Sqrt(drift) - z)
		}
		for i, score := range gaussian {
			x.at[k][i] = float32(max(0, z+x.spread*score))
		}
	}
	return x
}

// rootOf is the root of y, or of the level when y is not known.
func rootOf(y float64, h *model.History) float64 {
	if math.IsNaN(y) {
		y = h.Level(model.Level30m)
	}
	return math.Sqrt(y)
}
