package forecaster

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
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

// Calibrator calibrates the sample paths of a pool. When a window ends, it counts the rank of the highest demand among
// the highest demands of the paths. If the paths are right, all ranks are equally frequent. If not, it replaces a share
// of paths by how often demand was in that share: the recalibration of Kuleshov, Fenner and Ermon (2018, "Accurate
// uncertainties for deep learning using calibrated regression", §3). Ranks do not depend on supply, so it also learns
// from windows in which nothing was short.
//
// It keeps ranks for each of calibratedHorizons, because forecasts are worse far ahead, and for each stage of silence:
// ranks during traffic do not say how likely it is that traffic returns.
//
// Bounds: Horizon open windows of each dimension.
type Calibrator struct {
	Dimensions []calibratorDimension `cbor:"1,keyasint"` // in order of arrival
}

type calibratorDimension struct {
	Name  string                                    `cbor:"1,keyasint"`
	Ranks [numStages][numHorizons][rankBins]float64 `cbor:"2,keyasint"` // windows by rank, older ones counting less
	Open  []openWindow                              `cbor:"4,keyasint"` // oldest first
}

// openWindow is what was forecast at an origin whose minutes are not over.
type openWindow struct {
	_ struct{} `cbor:",toarray"`

	From  int64                              // the first minute, since the Unix epoch
	Stage int                                // of silence at the origin: see stageMinutes
	Done  int                                // number of calibratedHorizons that are over
	Peaks [numHorizons][rankBins - 1]float32 // quantiles of the paths' highest demand, at 1/20, 2/20, …
}

// Issue records the forecast. It ignores a stale one. O(dimensions · paths · Horizon).
func (c *Calibrator) Issue(pf *PoolForecast) {
	if pf.Stale {
		return
	}
	minute := pf.Origin.Unix() / 60
	for i := range pf.Total {
		w, name := openWindow{From: minute, Stage: pf.Total[i].Basis.Stage}, pf.Total[i].Dimension
		w.setPeaks(pf.Total[i].Paths)
		d := c.find(name)
		if d == nil {
			c.Dimensions = append(c.Dimensions, calibratorDimension{Name: name})
			d = &c.Dimensions[len(c.Dimensions)-1]
		}
		d.Open = append(d.Open, w)
		d.Open = d.Open[max(0, len(d.Open)-Horizon):]
	}
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

// Learn learns from the windows that ended before now. demand is that for a dimension in a minute, NaN if unknown.
// A window with an unknown minute is skipped.
func (c *Calibrator) Learn(now time.Time, demand func(dimension string, minute int64) float64) {
	newest := now.Unix()/60 - 1
	for i := range c.Dimensions {
		d := &c.Dimensions[i]
		open := d.Open[:0]
		for _, w := range d.Open {
			for w.Done < numHorizons && w.From+int64(calibratedHorizons[w.Done])-1 <= newest {
				highest, horizon := 0., calibratedHorizons[w.Done]
				for m := range horizon {
					highest = max(highest, demand(d.Name, w.From+int64(m))) // NaN stays
				}
				if !math.IsNaN(highest) { // a window begins each minute; those that overlap count together as one
					countRank(&d.Ranks[w.Stage][w.Done], &w.Peaks[w.Done], float32(highest), 1/float64(horizon))
				}
				w.Done++
			}
			if w.Done < numHorizons {
				open = append(open, w)
			}
		}
		d.Open = open
	}
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

// find returns nil for an unknown dimension.
func (c *Calibrator) find(name string) *calibratorDimension {
	if i := slices.IndexFunc(c.Dimensions, func(d calibratorDimension) bool { return d.Name == name }); i >= 0 {
		return &c.Dimensions[i]
	}
	return nil
}

// horizonCurves are the curves of a dimension at each of calibratedHorizons.
type horizonCurves [numHorizons]rankCurve

// curvesOf returns the curves of a dimension at a stage of silence. They change nothing if c is nil, or if it does not
// know the dimension.
func (c *Calibrator) curvesOf(name string, stage int) (curves horizonCurves) {
	var ranks [numHorizons][rankBins]float64
	if c != nil && c.find(name) != nil {
		ranks = c.find(name).Ranks[stage]
	}
	for i := range curves {
		sum := 0.0
		for bin, n := range ranks[i] {
			sum += n + rankPrior
			curves[i][bin+1] = sum
		}
		for bin := range curves[i] {
			curves[i][bin] /= sum
		}
	}
	return curves
}

// upTo is the curve for windows of the first h minutes, h ≥ 1.
func (c *horizonCurves) upTo(h int) rankCurve {
	i := 0
	for calibratedHorizons[i] < h {
		i++
	}
	out := c[i]
	if i > 0 {
		before, next := calibratedHorizons[i-1], calibratedHorizons[i]
		weight := float64(next-h) / float64(next-before)
		for k := range out {
			out[k] += weight * (c[i-1][k] - out[k])
		}
	}
	return out
}

// rankCurve is the cumulative share of ranks at each twentieth. It turns shares of paths into probabilities.
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

// WindowMinutes is a window in whole minutes, within 1…Horizon.
func WindowMinutes(window time.Duration) int {
	return min(Horizon, max(1, int(math.Ceil(window.Minutes()))))
}

// Load is the load of all attempts, of a dimension of a pool in a minute since the Unix epoch, as known now; NaN if unknown.
func (f *Forecaster) Load(pool, dimension string, minute int64) float64 {
	i, ok := f.find(pool)
	d := features.ForecastIndex(dimension)
	if !ok || d < 0 || f.pools[i].total.series[d] == nil {
		return math.NaN()
	}
	p := f.pools[i]
	demand := p.total.series[d].history.At(minute) * p.multiplier(minute) // the history is without events
	return demand * p.Retries.factor(dimension, minute)
}
