package forecaster

import (
	"math"
	"slices"
	"time"
)

// calibratedHorizons are the minutes ahead, ascending, at which paths are calibrated. Minutes in between are
// interpolated; earlier ones are like the first.
var calibratedHorizons = [...]int{5, 15, 30, Horizon}

const numHorizons = len(calibratedHorizons)

const (
	rankBins         = 20
	calibratorMemory = 160 // windows that do not overlap: 40 hours for windows of 15 minutes
	rankPrior        = 0.5 // windows in each bin at the start
)

// lagLevels is the number of levels of the warm-up lag that origins take in turn.
const lagLevels = 8

// Calibrator calibrates the sample paths of a pool. It keeps the rank of each window's highest demand among the paths'
// highest. If the paths are right, ranks are uniform. If not, a share of paths is turned into the probability that it
// had so far: the recalibration of Kuleshov, Fenner and Ermon (2018, "Accurate uncertainties for deep learning using
// calibrated regression", §3). Ranks do not depend on supply, so it learns from every window, also if nothing was ever
// short.
//
// It learns from windows of each of calibratedHorizons, because forecasts are worse far ahead.
//
// It also says of each hour whether demand exceeded the supply that the projection assumed at its beginning. The alert
// threshold is learned from that. Pending replicas are ready by a level of the warm-up lag; origins take the levels in
// turn.
//
// Bounds: Horizon open windows of each dimension.
type Calibrator struct {
	state  CalibratorState
	shared *Calibrator // has the ranks; nil if this one has them
}

// WithSharedRanks returns a Calibrator for another pool with the same demand. It uses the ranks that o learns, and
// reports outcomes for its own supply. Its state does not hold the ranks.
func (o *Calibrator) WithSharedRanks() *Calibrator { return &Calibrator{shared: o} }

// CalibratorState is a Calibrator in a snapshot.
type CalibratorState struct {
	Dimensions []calibratorDimension `cbor:"1,keyasint"`
}

type calibratorDimension struct {
	Name  string                         `cbor:"1,keyasint"`
	Ranks [numHorizons][rankBins]float64 `cbor:"2,keyasint"` // windows by rank, older ones counting less
	Open  []openWindow                   `cbor:"4,keyasint"` // oldest first
	Tails [numHorizons]excess            `cbor:"5,keyasint"` // excess over the paths' 95 % quantile
}

// openWindow is what was forecast at an origin whose minutes are not over.
type openWindow struct {
	_ struct{} `cbor:",toarray"`

	From     int64                              // the first minute, Unix time
	Done     int                                // number of calibratedHorizons that are over
	Peaks    [numHorizons][rankBins - 1]float32 // quantiles of the paths' highest demand, at 1/20, 2/20, …; zero with shared ranks
	Capacity []capacityStep                     // the assumed supply; nil if not known
}

// capacityStep is the capacity of a pool from a minute of a window on.
type capacityStep struct {
	_ struct{} `cbor:",toarray"`

	From     int // minute, counted from 0
	Capacity float32
}

// State is for a snapshot; it shares memory with o.
func (o *Calibrator) State() CalibratorState { return o.state }

// Restore replaces the state.
func (o *Calibrator) Restore(s CalibratorState) { o.state = s }

// Issue records the forecast and the supply that the projection p assumed (p.Prompts for prefill replicas). It ignores
// a stale forecast; a nil Calibrator does nothing. O(dimensions · paths · Horizon).
func (o *Calibrator) Issue(pf *PoolForecast, p *Projection, lag Lag) {
	if o == nil || pf.Stale {
		return
	}
	minute := pf.Origin.Unix() / 60
	level := (float64(minute*5%lagLevels) + .5) / lagLevels // 5 is odd: every level in turn, not beside the one before
	ready := usable(pf.Origin, lag, p.Supply, 0, level)[0]
	prompts, ofPrompts := p.Prompts, [Horizon]float32{}
	if prompts != nil {
		ofPrompts = usable(pf.Origin, lag, prompts.Supply, 0, level)[0]
	}
	for d, name := range pf.Paths.Dimensions {
		w := openWindow{From: minute}
		if o.shared == nil {
			w.setPeaks(pf.Paths.At[d])
		}
		if r := p.of(name); r != nil {
			w.Capacity = capacitySteps(&ready, r.PerReplica)
		} else if r := prompts.of(name); r != nil {
			w.Capacity = capacitySteps(&ofPrompts, r.PerReplica)
		}
		k := o.state.dimension(name)
		k.Open = append(k.Open, w)
		k.Open = k.Open[max(0, len(k.Open)-Horizon):]
	}
}

// of returns the projection of a dimension; nil if p is nil or has none.
func (p *Projection) of(dimension string) *ResourceProjection {
	if p == nil {
		return nil
	}
	if i := slices.IndexFunc(p.Resources, func(r ResourceProjection) bool { return r.Dimension == dimension }); i >= 0 {
		return &p.Resources[i]
	}
	return nil
}

// capacitySteps are the changes of the capacity of ready replicas.
func capacitySteps(ready *[Horizon]float32, per float64) []capacityStep {
	var out []capacityStep
	for h, n := range ready {
		if h == 0 || n != ready[h-1] {
			out = append(out, capacityStep{From: h, Capacity: float32(per * float64(n))})
		}
	}
	return out
}

// setPeaks fills in the quantiles of the paths' highest demand by each horizon.
func (w *openWindow) setPeaks(paths [][Horizon]float32) {
	highest, sorted := make([]float32, len(paths)), make([]float32, len(paths))
	from := 0
	for i, h := range calibratedHorizons {
		for j := range highest {
			highest[j] = max(highest[j], slices.Max(paths[j][from:h]))
		}
		copy(sorted, highest)
		slices.Sort(sorted)
		for q := range w.Peaks[i] {
			w.Peaks[i][q] = sorted[(q+1)*len(sorted)/rankBins]
		}
		from = h
	}
}

// Outcome is the result of a window of Horizon minutes whose assumed supply is known.
type Outcome struct {
	Dimension string
	Minute    int64 // the first, Unix time
	Short     bool  // demand exceeded the assumed supply in some minute
}

// Learn takes the windows that ended before now and returns the outcomes of those of Horizon minutes. demand is that of
// a dimension in a minute, NaN if unknown. A window with an unknown minute is skipped.
func (o *Calibrator) Learn(now time.Time, demand func(dimension string, minute int64) float64) (over []Outcome) {
	newest := now.Unix()/60 - 1
	for i := range o.state.Dimensions {
		k := &o.state.Dimensions[i]
		open := k.Open[:0]
		for _, w := range k.Open {
			for w.Done < numHorizons && w.From+int64(calibratedHorizons[w.Done])-1 <= newest {
				short, known := k.learn(&w, w.Done, o.shared == nil, func(m int) float64 { return demand(k.Name, w.From+int64(m)) })
				if w.Done++; known && w.Done == numHorizons {
					over = append(over, Outcome{k.Name, w.From, short})
				}
			}
			if w.Done < numHorizons {
				open = append(open, w)
			}
		}
		k.Open = open
	}
	return over
}

// learn takes a window of the i-th horizon; minutes of demand count from 0. Overlapping windows together count as one.
// known is true if the demand of each minute and the supply are known.
func (k *calibratorDimension) learn(w *openWindow, i int, ranks bool, demand func(minute int) float64) (short, known bool) {
	highest, holds := 0., w.Capacity
	for m := range calibratedHorizons[i] {
		y := demand(m)
		highest = max(highest, y) // NaN stays
		for len(holds) > 1 && holds[1].From <= m {
			holds = holds[1:]
		}
		short = short || len(holds) > 0 && y > float64(holds[0].Capacity)
	}
	if math.IsNaN(highest) {
		return false, false
	}
	weight := 1 / float64(calibratedHorizons[i])
	if ranks {
		countRank(&k.Ranks[i], &w.Peaks[i], float32(highest), weight)
		k.Tails[i].learn(&w.Peaks[i], float32(highest), weight)
	}
	return short, len(w.Capacity) > 0
}

// countRank counts the rank of a window's highest demand. A tie with paths counts evenly over the possible ranks.
func countRank(ranks *[rankBins]float64, peaks *[rankBins - 1]float32, highest float32, weight float64) {
	for i := range ranks {
		ranks[i] *= 1 - weight/calibratorMemory
	}
	lo, hi := 0, 0
	for _, p := range peaks {
		if p < highest {
			lo++
		}
		if p <= highest {
			hi++
		}
	}
	for i := lo; i <= hi; i++ {
		ranks[i] += weight / float64(hi-lo+1)
	}
}

// dimension finds or adds a dimension, in order of arrival.
func (s *CalibratorState) dimension(name string) *calibratorDimension {
	if d := s.find(name); d != nil {
		return d
	}
	s.Dimensions = append(s.Dimensions, calibratorDimension{Name: name})
	return &s.Dimensions[len(s.Dimensions)-1]
}

// find returns nil for an unknown dimension.
func (s *CalibratorState) find(name string) *calibratorDimension {
	for i := range s.Dimensions {
		if s.Dimensions[i].Name == name {
			return &s.Dimensions[i]
		}
	}
	return nil
}

// recalibration turns shares of paths into probabilities, at each of calibratedHorizons. The zero value changes
// nothing.
type recalibration struct {
	known bool
	ranks [numHorizons]rankCurve
	tails [numHorizons]excess
}

// recalibration of a dimension. That of a nil Calibrator changes nothing.
func (o *Calibrator) recalibration(name string) (w recalibration) {
	if o == nil {
		return w
	}
	if o.shared != nil {
		o = o.shared
	}
	ranks := o.state.find(name)
	if ranks == nil {
		ranks = &calibratorDimension{}
	}
	w.known, w.tails = true, ranks.Tails
	for i := range w.ranks {
		w.ranks[i] = newRankCurve(&ranks.Ranks[i])
	}
	return w
}

// horizonsAround are the horizons on both sides of minute h, counted from 1, and its position between them, 0…1.
func horizonsAround(h int) (a, b int, by float64) {
	for b < numHorizons-1 && calibratedHorizons[b] < h {
		b++
	}
	if b == 0 || h >= calibratedHorizons[b] {
		return b, b, 0
	}
	a = b - 1
	return a, b, float64(h-calibratedHorizons[a]) / float64(calibratedHorizons[b]-calibratedHorizons[a])
}

// probability is the calibrated probability for a share of paths that saturate by minute h, counted from 1. If fewer
// than a twentieth do, it is the probability of exceeding all but a twentieth, times that of the tail beyond. Before
// the first horizon it grows with the minutes.
func (w *recalibration) probability(share float64, h int, far *margins) float64 {
	if !w.known {
		return share
	}
	a, b, by := horizonsAround(h)
	near, next := w.atHorizon(a, share, far), w.atHorizon(b, share, far)
	p := near + by*(next-near)
	if first := calibratedHorizons[0]; h < first && share < 1./rankBins {
		p = max(p*float64(h)/float64(first), 1-w.ranks[a].at(1-share))
	}
	return p
}

// atHorizon is the calibrated probability for a share of paths at the i-th horizon.
func (w *recalibration) atHorizon(i int, share float64, far *margins) float64 {
	if share >= 1./rankBins {
		return 1 - w.ranks[i].at(1-share)
	}
	return (1 - w.ranks[i][rankBins-1]) * far.tailProbability(&w.tails[i], i)
}

// level is the share of paths whose calibrated probability is p at minute h.
func (w *recalibration) level(p float64, h int) float64 {
	if !w.known {
		return p
	}
	a, b, by := horizonsAround(h)
	c := w.ranks[a]
	for i := range c {
		c[i] += by * (w.ranks[b][i] - c[i])
	}
	return c.level(p)
}

func newRankCurve(ranks *[rankBins]float64) (c rankCurve) {
	sum := 0.0
	for i, n := range ranks {
		sum += n + rankPrior
		c[i+1] = sum
	}
	for i := range c {
		c[i] /= sum
	}
	return c
}

// rankCurve is the cumulative share of ranks at each twentieth.
type rankCurve [rankBins + 1]float64

// at is the probability for a share u of paths, 0…1. Linear between twentieths.
func (c *rankCurve) at(u float64) float64 {
	if u >= 1 {
		return 1
	}
	x := u * rankBins
	i := max(int(x), 0)
	return c[i] + (x-float64(i))*(c[i+1]-c[i])
}

// level is the inverse of at, 0 ≤ p ≤ 1.
func (c *rankCurve) level(p float64) float64 {
	i := 1
	for i < rankBins && c[i] < p {
		i++
	}
	return (float64(i-1) + (p-c[i-1])/(c[i]-c[i-1])) / rankBins
}

// windowMinutes is a window in whole minutes, within 1…Horizon.
func windowMinutes(window time.Duration) int {
	return min(Horizon, max(1, int(math.Ceil(window.Minutes()))))
}

// Load is the load of all attempts, of a dimension of a pool in a minute (Unix time), as known now; NaN if unknown.
func (f *Forecaster) Load(pool, dimension string, minute int64) float64 {
	for _, p := range f.pools {
		if p.name != pool {
			continue
		}
		for d, s := range p.total {
			if s != nil && dimensions[d].Name == dimension {
				return s.history.At(minute) * p.retries.factor(dimension, minute)
			}
		}
	}
	return math.NaN()
}
