package model

import "math"

// SeasonalDrift takes the present level and adds the change that yesterday, or last week, saw over the same stretch of
// the clock: seasonal-adjusted persistence. The anchor on the present fades by 1.5 % a minute. Differences are taken on
// square roots, where the noise of token rates has about the same size at every level. It sleeps while the season is not
// known.
type SeasonalDrift struct {
	stateless
	Week bool // last week in place of yesterday
}

// Forecast returns the anchored seasonal level.
func (s SeasonalDrift) Forecast(h *History, lead int) float64 {
	then := func(m int64) float64 {
		if s.Week {
			return h.Bins(h.WeekBefore(m))
		}
		if m = h.DayBefore(m); m > h.Newest {
			return math.NaN()
		}
		return h.Mean(m-7, min(m+7, h.Newest))
	}
	z := math.Sqrt(then(h.Newest+int64(lead))) + (math.Sqrt(h.Level(Level10m))-math.Sqrt(then(h.Newest-5)))*math.Pow(anchorFade, float64(lead))
	if z <= 0 {
		return 0
	}
	return z * z
}

const anchorFade = 0.985
