package model

// Last repeats the newest known minute of the last five: the forecaster that every other has to beat.
type Last struct{ stateless }

// Forecast returns the last value at every lead.
func (Last) Forecast(h *History, _ int) float64 { return h.Last(5) }

// Level repeats an exponentially weighted mean: simple exponential smoothing (Brown 1956) with the time constant that
// Scale names (Level3m … Level1d). At long time constants it is climatology, the forecast of one who ignores the present.
type Level struct {
	stateless
	Scale int
}

// Forecast returns the level at every lead.
func (l Level) Forecast(h *History, _ int) float64 { return h.Level(l.Scale) }
