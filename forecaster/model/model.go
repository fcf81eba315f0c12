package model

// Expert is a small streaming forecaster of one series. It reads the shared history and keeps what else it needs.
type Expert interface {
	// Update is called after h took its newest minute, once per minute.
	Update(h *History)
	// Forecast is the expected value of the minute lead minutes after the newest one (lead ≥ 1), in the series' unit.
	// NaN means that the expert sleeps: it has nothing to go by yet.
	Forecast(h *History, lead int) float64
	// State and Restore round-trip what Update accumulated; nil for experts that only read the history.
	State() []float64
	Restore([]float64) bool
}

// stateless is embedded by experts that keep nothing beside the history.
type stateless struct{}

func (stateless) Update(*History)          {}
func (stateless) State() []float64         { return nil }
func (stateless) Restore(s []float64) bool { return len(s) == 0 }

// NumLevels is the number of quantiles of a Distributor, Levels their levels, ascending.
const NumLevels = 9

// Levels are the levels of all quantiles.
var Levels = [NumLevels]float64{.05, .1, .25, .5, .75, .8, .9, .95, .99}

// Distributor is an expert that knows not only what to expect but how uncertain that is. The forecaster goes by its
// Distribution in place of its Forecast, and corrects it by where past outcomes fell in it.
type Distributor interface {
	// Distribution sets q to the quantiles at Levels of the largest minute in a span of leads, which may be one lead:
	// non-decreasing, non-negative and finite. False means that the expert sleeps.
	Distribution(h *History, from, to int, q *[NumLevels]float64) bool
}

// Learner is an expert that learns from outcomes.
type Learner interface {
	// Keep is called once, before all else: an origin's outcomes are learned within so many minutes.
	Keep(minutes int)
	// Learn is called for each minute once it will not change any more, in ascending order.
	Learn(h *History, minute int64)
}
