package model

// Last repeats the newest known minute of the last five: the forecaster that every other has to beat.
type Last struct{ stateless }

// Forecast returns the last value at every lead.
func (Last) Forecast(h *History, _ int) float64 { return h.Last(5) }

// Recent repeats the mean of the last Minutes known minutes. On bursty token rates a quarter of an hour is the best
// single-number forecast of the next half hour that costs nothing.
type Recent struct {
	stateless
	Minutes int
}

// Forecast returns the mean of the last r.Minutes minutes at every lead.
func (r Recent) Forecast(h *History, _ int) float64 {
	return h.Mean(h.Newest-int64(r.Minutes)+1, h.Newest)
}

// Peak is the largest of the last r.Minutes minutes.
func (r Recent) Peak(h *History, _, _ int) float64 {
	return h.Max(h.Newest-int64(r.Minutes)+1, h.Newest)
}

// Level repeats an exponentially weighted mean: simple exponential smoothing (Brown 1956) with the time constant that
// Scale names (Level3m … Level1d). At long time constants it is climatology, the forecast of one who ignores the present.
type Level struct {
	stateless
	Scale int
}

// Forecast returns the level at every lead.
func (l Level) Forecast(h *History, _ int) float64 { return h.Level(l.Scale) }
