package forecaster

import (
	"math"
	"slices"
	"time"
)

// calibratedHorizons are the minutes ahead, ascending, for which it is learned what paths are worth; for minutes in between it
// lies in between, for those before the first it is as there.
var calibratedHorizons = [...]int{5, 15, 30, Horizon}

const numHorizons = len(calibratedHorizons)

// How ranks are kept. calibratorMemory is in windows that do not overlap: forty hours of a quarter hour.
const (
	rankBins         = 20
	calibratorMemory = 160
	rankPrior        = 0.5 // windows that each bin counts for at first
)

// lagLevels are the levels of the warm-up lag at which outcomes are looked at in turn, one a minute.
const lagLevels = 8

// Calibrator is how the windows ahead of a pool turned out, set against the sample paths: the rank of each window's highest
// demand among the paths' highest. Were the paths right, ranks would be uniform; where they are not, a share of paths is
// turned into the probability that it was worth so far, which is the recalibration of Kuleshov, Fenner and Ermon (2018,
// "Accurate uncertainties for deep learning using calibrated regression", §3). What supply a projection assumes does not
// matter to it: it learns from every window, also where nothing was ever short.
//
// It learns from windows of each of calibratedHorizons, for what is far is known less well.
//
// It also says of each hour whether demand exceeded the supply that the projection assumed at its beginning, for the alert
// threshold that is learned from that. Replicas on their way are ready as a level of the warm-up lag has it; levels take turns.
//
// Bounds: Horizon windows of each dimension wait for their end.
type Calibrator struct {
	state  CalibratorState
	shared *Calibrator // has the ranks, where it is not this
}

// Beside is an Calibrator for another pool of the same demand: it takes the ranks that o learns, and says what came of a supply
// of its own. Its own state does not hold the ranks.
func (o *Calibrator) Beside() *Calibrator { return &Calibrator{shared: o} }

// CalibratorState is what an Calibrator learned and waits for, for a snapshot.
type CalibratorState struct {
	Dimensions []calibratorDimension `cbor:"1,keyasint"`
}

type calibratorDimension struct {
	Name  string                         `cbor:"1,keyasint"`
	Ranks [numHorizons][rankBins]float64 `cbor:"2,keyasint"` // windows by rank, older ones counting less
	Open  []openWindow                   `cbor:"4,keyasint"` // oldest first
	Tails [numHorizons]excess            `cbor:"5,keyasint"` // of what exceeded nearly all paths
}

// openWindow is what was said of the minutes from an origin on that are not over.
type openWindow struct {
	_ struct{} `cbor:",toarray"`

	From  int64                              // the first minute, Unix time
	Done  int                                // of calibratedHorizons, those over
	Peaks [numHorizons][rankBins - 1]float32 // quantiles of the paths' highest demand, at 1/20, 2/20, …; zero in an Calibrator Beside another
	Holds []holding                          // the supply that was assumed; none when it is not known
}

// holding is what a pool carries from a minute of a window on.
type holding struct {
	_ struct{} `cbor:",toarray"`

	From   int // minute, counted from 0
	Demand float32
}

// State is what was learned and what is waited for; it is the Calibrator's own.
func (o *Calibrator) State() CalibratorState { return o.state }

// Restore replaces it.
func (o *Calibrator) Restore(s CalibratorState) { o.state = s }

// Issue takes down what the paths say of the minutes from their origin on, and the supply that p, and p.Prompts of its own
// replicas, assumed. A stale forecast says nothing, and nil takes nothing down.
// O(dimensions · paths · Horizon).
func (o *Calibrator) Issue(pf *PoolForecast, p *Projection, lag Lag) {
	if o == nil || pf.Stale {
		return
	}
	minute := pf.Origin.Unix() / 60
	level := (float64(minute*5%lagLevels) + .5) / lagLevels // 5 is odd: every level in turn, none beside its neighbour
	ready := usable(pf.Origin, lag, p.Supply, 0, level)[0]
	prompts, ofPrompts := p.Prompts, [Horizon]float32{}
	if prompts != nil {
		ofPrompts = usable(pf.Origin, lag, prompts.Supply, 0, level)[0]
	}
	for d, name := range pf.Paths.Dimensions {
		w := openWindow{From: minute}
		if o.shared == nil {
			w.take(pf.Paths.At[d])
		}
		if r := p.of(name); r != nil {
			w.Holds = holdings(&ready, r.PerReplica)
		} else if r := prompts.of(name); r != nil {
			w.Holds = holdings(&ofPrompts, r.PerReplica)
		}
		k := o.state.dimension(name)
		k.Open = append(k.Open, w)
		k.Open = k.Open[max(0, len(k.Open)-Horizon):]
	}
}

// of is a resource of p; nil when p is nil or has none of that dimension.
func (p *Projection) of(dimension string) *ResourceProjection {
	if p == nil {
		return nil
	}
	if i := slices.IndexFunc(p.Resources, func(r ResourceProjection) bool { return r.Dimension == dimension }); i >= 0 {
		return &p.Resources[i]
	}
	return nil
}

// holdings are the changes of what so many replicas carry.
func holdings(ready *[Horizon]float32, per float64) []holding {
	var out []holding
	for h, n := range ready {
		if h == 0 || n != ready[h-1] {
			out = append(out, holding{From: h, Demand: float32(per * float64(n))})
		}
	}
	return out
}

// take fills in the quantiles of the paths' highest demand by each horizon.
func (w *openWindow) take(paths [][Horizon]float32) {
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

// Outcome is what came of a window of Horizon minutes for which the supply is known that was assumed at its beginning.
type Outcome struct {
	Dimension string
	Minute    int64 // the first, Unix time
	Short     bool  // demand exceeded that supply in some minute, whatever was asked for since
}

// Learn takes in the windows that were over before now; demand is what a dimension came to in a minute, NaN where that is
// not known, and a window with such a minute teaches nothing. It returns the outcomes of those of Horizon minutes.
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

// learn takes in a window as long as the i-th horizon; demand is of its minutes, counted from 0. Windows that overlap count
// for a whole one together. known says that the demand of each minute is known, and what it was held against.
func (k *calibratorDimension) learn(w *openWindow, i int, ranks bool, demand func(minute int) float64) (short, known bool) {
	highest, holds := 0., w.Holds
	for m := range calibratedHorizons[i] {
		y := demand(m)
		highest = max(highest, y) // NaN stays
		for len(holds) > 1 && holds[1].From <= m {
			holds = holds[1:]
		}
		short = short || len(holds) > 0 && y > float64(holds[0].Demand)
	}
	if math.IsNaN(highest) {
		return false, false
	}
	weight := 1 / float64(calibratedHorizons[i])
	if ranks {
		rank(&k.Ranks[i], &w.Peaks[i], float32(highest), weight)
		k.Tails[i].learn(&w.Peaks[i], float32(highest), weight)
	}
	return short, len(w.Holds) > 0
}

// rank counts the rank of a window's highest demand; where paths tie with it, evenly over the ranks that it may have.
func rank(ranks *[rankBins]float64, peaks *[rankBins - 1]float32, highest float32, weight float64) {
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

// dimension finds or adds one, keeping the order of their coming.
func (s *CalibratorState) dimension(name string) *calibratorDimension {
	if d := s.find(name); d != nil {
		return d
	}
	s.Dimensions = append(s.Dimensions, calibratorDimension{Name: name})
	return &s.Dimensions[len(s.Dimensions)-1]
}

// find is nil for a dimension that is not known.
func (s *CalibratorState) find(name string) *calibratorDimension {
	for i := range s.Dimensions {
		if s.Dimensions[i].Name == name {
			return &s.Dimensions[i]
		}
	}
	return nil
}

// worth is what shares of a dimension's paths are worth, at each of calibratedHorizons. The zero value takes them at their word.
type worth struct {
	known bool
	ranks [numHorizons]rankCurve
	tails [numHorizons]excess
}

// worth is what was learned of a dimension, for a projection. A nil Calibrator takes the paths at their word.
func (o *Calibrator) worth(name string) (w worth) {
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

// between are the horizons that minute h, counted from 1, lies between, and how far it is from the first to the second.
func between(h int) (a, b int, by float64) {
	for b < numHorizons-1 && calibratedHorizons[b] < h {
		b++
	}
	if b == 0 || h >= calibratedHorizons[b] {
		return b, b, 0
	}
	a = b - 1
	return a, b, float64(h-calibratedHorizons[a]) / float64(calibratedHorizons[b]-calibratedHorizons[a])
}

// probability is what a share of paths that saturate by minute h, counted from 1, is worth.
// Where fewer than a twentieth do, ranks say how often all but a twentieth of the paths were exceeded, and the tail says by
// how much. Before the first horizon, that grows with the minutes.
func (w *worth) probability(share float64, h int, far *margins) float64 {
	if !w.known {
		return share
	}
	a, b, by := between(h)
	near, next := w.exceeded(a, share, far), w.exceeded(b, share, far)
	p := near + by*(next-near)
	if first := calibratedHorizons[0]; h < first && share < 1./rankBins {
		p = max(p*float64(h)/float64(first), 1-w.ranks[a].at(1-share))
	}
	return p
}

// exceeded is what a share of paths is worth by what was learned of the i-th horizon.
func (w *worth) exceeded(i int, share float64, far *margins) float64 {
	if share >= 1./rankBins {
		return 1 - w.ranks[i].at(1-share)
	}
	return (1 - w.ranks[i][rankBins-1]) * far.beyond(&w.tails[i], i)
}

// level is the share of paths that says p of minute h, by the ranks.
func (w *worth) level(p float64, h int) float64 {
	if !w.known {
		return p
	}
	a, b, by := between(h)
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

// rankCurve is the share of ranks up to each twentieth.
type rankCurve [rankBins + 1]float64

// at is the probability of what a share of paths u, 0…1, says. Linear between twentieths.
func (c *rankCurve) at(u float64) float64 {
	if u >= 1 {
		return 1
	}
	x := u * rankBins
	i := max(int(x), 0)
	return c[i] + (x-float64(i))*(c[i+1]-c[i])
}

// level is the share of paths that says p: the inverse of at, 0 ≤ p ≤ 1.
func (c *rankCurve) level(p float64) float64 {
	i := 1
	for i < rankBins && c[i] < p {
		i++
	}
	return (float64(i-1) + (p-c[i-1])/(c[i]-c[i-1])) / rankBins
}

// windowMinutes is a window in whole minutes, at least one and within the horizon.
func windowMinutes(window time.Duration) int {
	return min(Horizon, max(1, int(math.Ceil(window.Minutes()))))
}

// Load is what all attempts came to, of a dimension of a pool in a minute, Unix time, as is known by now; NaN when it is not.
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
