package model

import "math"

// SeasonalDay repeats what yesterday was at the same local time, averaged over ±7 minutes: seasonal naive with a period
// of a day. It sleeps for the first day.
type SeasonalDay struct{ stateless }

// Forecast returns yesterday's level at the target minute.
func (SeasonalDay) Forecast(h *History, lead int) float64 { return yesterday(h, h.Newest+int64(lead)) }

// Peak is the largest minute of the same span yesterday.
func (SeasonalDay) Peak(h *History, from, to int) float64 {
	a, b := h.DayBefore(h.Newest+int64(from)), h.DayBefore(h.Newest+int64(to))
	return h.Max(min(a, b), max(a, b)) // in the hour that the clock is set back, the later one has the earlier counterpart
}

// SeasonalWeek repeats what this local time last week was, averaged over half an hour: seasonal naive with a period of a
// week. It sleeps for the first week.
type SeasonalWeek struct{ stateless }

// Forecast returns last week's level at the target minute.
func (SeasonalWeek) Forecast(h *History, lead int) float64 {
	return h.Bins(h.WeekBefore(h.Newest + int64(lead)))
}

// SeasonalDrift takes the present level and adds the change that the reference day saw over the same stretch of the
// clock: seasonal-adjusted persistence. Anchoring on the present is what makes seasonality useful at half an hour,
// where the level says far more than the season; the anchor fades by 1.5 % a minute. Differences are taken on square
// roots, where the noise of token rates has about the same size at every level, so that a quiet today is not driven
// below zero by a loud yesterday.
type SeasonalDrift struct {
	stateless
	Week bool // the reference is last week instead of yesterday
}

// Forecast returns the anchored seasonal level.
func (s SeasonalDrift) Forecast(h *History, lead int) float64 {
	ref := yesterday
	if s.Week {
		ref = func(h *History, m int64) float64 { return h.Bins(h.WeekBefore(m)) }
	}
	level := h.Level(Level10m)
	then, now := ref(h, h.Newest+int64(lead)), ref(h, h.Newest-5)
	if math.IsNaN(level) || math.IsNaN(then) || math.IsNaN(now) {
		return math.NaN()
	}
	z := math.Sqrt(then) + (math.Sqrt(level)-math.Sqrt(now))*math.Pow(anchorFade, float64(lead))
	return square(z)
}

const anchorFade = 0.985

// yesterday is the mean over ±7 minutes around the minute of the same local time a day before m.
func yesterday(h *History, m int64) float64 {
	if m = h.DayBefore(m); m > h.Newest {
		return math.NaN()
	}
	return h.Mean(m-7, min(m+7, h.Newest))
}

func square(z float64) float64 {
	if z <= 0 {
		return 0
	}
	return z * z
}
