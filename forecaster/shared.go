package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/model"
)

// shared is what the light series of a pool and dimension know together: the quantiles of their errors, each measured in
// its own spread. What is rare in one series is seen in time among thousands.
type shared struct {
	Residual [numKnots]Quantiles `cbor:"1,keyasint"` // of (√y − point)/spread
	Seen     [numKnots]float64   `cbor:"2,keyasint"` // minutes with outcomes

	below [numKnots][NumLevels]int // outcomes of this minute below each quantile
	n     [numKnots]int
}

const (
	sharedGain = 1.0 / 1000 // memory of shared residuals, in minutes
	// sharedWidth scales the prior: a class among thousands tends to be burstier than a normal distribution.
	sharedWidth = 1.2
)

func newShared() *shared {
	s := &shared{}
	for j := range s.Residual {
		for i, z := range gaussian {
			s.Residual[j][i] = sharedWidth * z
		}
	}
	return s
}

// count takes note of a residual.
func (s *shared) count(j int, residual float64) {
	for i, q := range s.Residual[j] {
		if residual < q {
			s.below[j][i]++
		}
	}
	s.n[j]++
}

// settle ends a minute: the quantiles move by how many of its outcomes fell below them. Outcomes of a minute have much in
// common, so that however many they are they count as one.
func (s *shared) settle() {
	for j := range s.n {
		if s.n[j] == 0 {
			continue
		}
		gain := max(sharedGain, 1/(s.Seen[j]+10))
		q := &s.Residual[j]
		step := steps(q, gain)
		for i, tau := range Levels {
			q[i] += step[i] * (tau - float64(s.below[j][i])/float64(s.n[j]))
		}
		ascend(q)
		s.Seen[j]++
		s.n[j], s.below[j] = 0, [NumLevels]int{}
	}
}

// outlook is what the points of all targets are made of, on the square-root scale.
type outlook struct {
	level, peak float64 // the same at every lead
	drift       [numLeads]float64
}

// A light series expects the mean of what recent minutes, two levels and the season say.
const (
	driftShare = 0.25 // of the seasonal one, where there is a day of history
	peakShare  = 0.6  // of the largest minute of a quarter of an hour, against that of an hour
)

// look reads a history. O(targets × minutes averaged).
func look(h *model.History) (x outlook) {
	x.level = (math.Sqrt(h.Level(model.Level10m)) + math.Sqrt(h.Level(model.Level30m)) + rootOf(h.Mean(h.Newest-14, h.Newest), h)) / 3
	x.peak = peakShare*rootOf(h.Max(h.Newest-14, h.Newest), h) + (1-peakShare)*rootOf(h.Max(h.Newest-59, h.Newest), h)
	var season model.SeasonalDrift
	for k, t := range targets[:numLeads] {
		x.drift[k] = math.Sqrt(season.Forecast(h, t.to))
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

// point is the root expected of target k.
func (x *outlook) point(k int) float64 {
	switch {
	case k == windowMax:
		return x.peak
	case math.IsNaN(x.drift[k]):
		return x.level
	}
	return x.level + driftShare*(x.drift[k]-x.level)
}
