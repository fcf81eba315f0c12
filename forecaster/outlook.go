package forecaster

import (
	"math"
	"slices"
	"time"
)

// How ranks are kept. outlookMemory is in windows that do not overlap: two days of a window of 18 minutes.
const (
	rankBins      = 20
	outlookMemory = 160
	rankPrior     = 0.5 // windows that each bin counts for at first
)

// Outlook is how the windows ahead of a pool turned out, set against the sample paths: the rank of each window's highest
// demand among the paths' highest. Were the paths right, ranks would be uniform; where they are not, a share of paths is
// turned into the probability that it was worth so far, which is the recalibration of Kuleshov, Fenner and Ermon (2018,
// "Accurate uncertainties for deep learning using calibrated regression", §3). What supply a projection assumes does not
// matter to it: it learns from every window, also where nothing was ever short.
//
// Supply is no accident, though: it follows earlier forecasts, so that where a probability is high the newest forecast is
// more likely one of those that are too high. That is learned apart, by a logistic correction of what was stated against
// what came of the supply that there was (Platt 1999), from windows without replicas on their way.
//
// All this is learned of the window that decisions are about and, apart, of the whole horizon; minutes in between get what
// lies between.
//
// Bounds: twice Horizon windows of each dimension wait for their end.
type Outlook struct {
	state OutlookState
}

// OutlookState is what an Outlook learned and waits for, for a snapshot.
type OutlookState struct {
	Dimensions []outlookDimension `cbor:"1,keyasint"`
}

type outlookDimension struct {
	Name  string            `cbor:"1,keyasint"`
	Ranks [rankBins]float64 `cbor:"2,keyasint"` // windows by rank, older ones counting less
	Open  []openWindow      `cbor:"3,keyasint"` // oldest first
	Odds  odds              `cbor:"4,keyasint"`

	// The same of windows as long as the horizon: what is far is not known as well, and few decisions have answered it.
	FarRanks [rankBins]float64 `cbor:"5,keyasint"`
	FarOdds  odds              `cbor:"6,keyasint"`
}

// openWindow is a window that is not over.
type openWindow struct {
	_ struct{} `cbor:",toarray"`

	From  int64                 // its first minute, Unix time
	Span  int                   // minutes
	Peaks [rankBins - 1]float32 // quantiles of the paths' highest demand, at 1/20, 2/20, …

	Far      bool    // as long as the horizon
	Stated   float32 // probability of saturation by the ranks alone
	Capacity float32 // of the replicas that were ready; 0 when others were on their way, or when it is not known
}

// State is what was learned and what is waited for; it is the Outlook's own.
func (o *Outlook) State() OutlookState { return o.state }

// Restore replaces it.
func (o *Outlook) Restore(s OutlookState) { o.state = s }

// Clone is an independent copy of the state.
func (s OutlookState) Clone() OutlookState {
	s.Dimensions = slices.Clone(s.Dimensions)
	for i := range s.Dimensions {
		s.Dimensions[i].Open = slices.Clone(s.Dimensions[i].Open)
	}
	return s
}

// Issue takes down what the paths say of the window that begins at their origin, and what p made of that. A stale forecast
// says nothing. O(dimensions · paths · window).
func (o *Outlook) Issue(pf *PoolForecast, p *Projection, reserve int, window time.Duration) {
	if pf.Stale {
		return
	}
	for d, name := range pf.Paths.Dimensions {
		k := o.dimension(name)
		for _, w := range []openWindow{{Span: windowMinutes(window)}, {Span: Horizon, Far: true}} {
			w.take(pf.Paths.At[d])
			w.From = pf.Origin.Unix() / 60
			for i := range p.Resources {
				if r := &p.Resources[i]; r.Dimension == name && len(p.Supply.Pending) == 0 {
					w.Stated, w.Capacity = float32(r.ranked[w.Span-1]), float32(r.PerReplica*float64(max(p.Supply.Ready-reserve, 0)))
				}
			}
			k.Open = append(k.Open, w)
		}
		k.Open = k.Open[max(0, len(k.Open)-2*Horizon):]
	}
}

// take fills in the quantiles of the paths' highest demand in the window.
func (w *openWindow) take(paths [][Horizon]float32) {
	highest := make([]float32, len(paths))
	for j := range highest {
		highest[j] = slices.Max(paths[j][:w.Span])
	}
	slices.Sort(highest)
	for i := range w.Peaks {
		w.Peaks[i] = highest[(i+1)*len(highest)/rankBins]
	}
}

// Learn takes in the windows that were over before now; demand is what a dimension came to in a minute, NaN where that is
// not known, and a window with such a minute teaches nothing.
func (o *Outlook) Learn(now time.Time, demand func(dimension string, minute int64) float64) {
	newest := now.Unix()/60 - 1
	for i := range o.state.Dimensions {
		k := &o.state.Dimensions[i]
		open := k.Open[:0]
		for _, w := range k.Open {
			if w.From+int64(w.Span)-1 > newest {
				open = append(open, w)
				continue
			}
			highest := math.Inf(-1)
			for m := range int64(w.Span) {
				y := demand(k.Name, w.From+m)
				highest = max(highest, y) // NaN stays
			}
			if !math.IsNaN(highest) {
				k.add(&w, float32(highest))
			}
		}
		k.Open = open
	}
}

// add counts the rank of a window's highest demand; where paths tie with it, evenly over the ranks that it may have.
// Windows that overlap count for a whole one together.
func (k *outlookDimension) add(w *openWindow, highest float32) {
	weight := 1 / float64(w.Span)
	ranks, correct := &k.Ranks, &k.Odds
	if w.Far {
		ranks, correct = &k.FarRanks, &k.FarOdds
	}
	for i := range ranks {
		ranks[i] *= 1 - weight/outlookMemory
	}
	lo, hi := 0, 0
	for _, p := range w.Peaks {
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
	if w.Capacity > 0 {
		correct.learn(float64(w.Stated), highest > w.Capacity, weight)
	}
}

// dimension finds or adds one, keeping the order of their coming.
func (o *Outlook) dimension(name string) *outlookDimension {
	for i := range o.state.Dimensions {
		if o.state.Dimensions[i].Name == name {
			return &o.state.Dimensions[i]
		}
	}
	o.state.Dimensions = append(o.state.Dimensions, outlookDimension{Name: name})
	return &o.state.Dimensions[len(o.state.Dimensions)-1]
}

// worth is what shares of a dimension's paths are worth: of the window that decisions are about, and of the horizon.
type worth struct {
	near, far         rankCurve
	nearOdds, farOdds odds
}

// worth is what was learned of a dimension, for a projection. A nil Outlook, and a dimension of which nothing was learned,
// take the paths at their word.
func (o *Outlook) worth(name string) worth {
	var d outlookDimension
	if o != nil {
		for i := range o.state.Dimensions {
			if x := &o.state.Dimensions[i]; x.Name == name {
				d = *x
			}
		}
	}
	return worth{newRankCurve(&d.Ranks), newRankCurve(&d.FarRanks), d.Odds, d.FarOdds}
}

// probability is what a share of paths that saturate by minute h, counted from 1, is worth, by the ranks alone and with the
// correction of odds. span is the window that decisions are about.
func (w *worth) probability(share float64, h, span int) (ranked, corrected float64) {
	ranked = 1 - w.near.at(1-share)
	corrected = w.nearOdds.correct(ranked)
	if h > span {
		by := math.Min(1, float64(h-span)/float64(min(span, Horizon-span))) // another window further, all of it
		far := 1 - w.far.at(1-share)
		ranked += by * (far - ranked)
		corrected += by * (w.farOdds.correct(far) - corrected)
	}
	return ranked, corrected
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

// Demand is what a dimension of a pool came to in a minute, Unix time, as is known by now; NaN when it is not.
func (f *Forecaster) Demand(pool, dimension string, minute int64) float64 {
	for _, p := range f.pools {
		if p.name != pool {
			continue
		}
		for d, s := range p.total {
			if s != nil && dimensions[d].Name == dimension {
				return s.history.At(minute)
			}
		}
	}
	return math.NaN()
}
