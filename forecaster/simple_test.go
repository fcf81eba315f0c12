package forecaster

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// simple is a simple forecaster: a point plus the quantiles of its own errors over the last two days (every seventh
// origin, at leads within two minutes), or the quantiles of the last hour's minutes.
type simple struct {
	name   string
	least  int                         // minutes that it needs
	points func(y []float64) []float64 // by the last known minute; nil: the last hour's minutes
	root   bool                        // errors are those of square roots, so that they grow with the point
	// direct: the quantiles of the window maximum are the point plus those of the maximum's errors. Otherwise they are
	// the largest quantiles of its minutes.
	direct bool
}

// simples are the forecasters that the model is compared with. Losses are relative to the first.
var simples = []simple{
	{name: "last", least: 1, points: func(y []float64) []float64 { return y }, direct: true},
	{name: "mean15", least: 15, points: means15},
	{name: "ses", least: 181, points: smoothed(.05, false)},
	{name: "hist1h", least: 60},
	{name: "ses_root", least: 181, points: smoothed(.08, true), root: true, direct: true},
	{name: "mean15_root", least: 15, points: means15, root: true, direct: true},
}

func means15(y []float64) []float64 {
	out := make([]float64, len(y))
	for m := 14; m < len(y); m++ {
		out[m] = stat.Mean(y[m-14:m+1], nil)
	}
	return out
}

// smoothed is exponential smoothing, of square roots if root. The newest minute has the weight alpha.
func smoothed(alpha float64, root bool) func(y []float64) []float64 {
	return func(y []float64) []float64 {
		out := make([]float64, len(y))
		level := math.NaN()
		for m, x := range y {
			if root {
				x = math.Sqrt(x)
			}
			if m == 0 {
				level = x
			}
			level += alpha * (x - level)
			out[m] = level
			if root {
				out[m] *= level
			}
		}
		return out
	}
}

// lossAt is the pinball loss of one forecast at ScoredLevels: of minutes 15 to 30 summed, and of the largest of them.
type lossAt struct{ minutes, peak float64 }

func (l *lossAt) add(x lossAt) { l.minutes += x.minutes; l.peak += x.peak }

// scoredQuantiles are quantiles at ScoredLevels.
type scoredQuantiles [len(ScoredLevels)]float64

// lossOf scores a forecast from origin o of y.
func lossOf(y []float64, o int, minute *[WindowTo + 1]scoredQuantiles, most *scoredQuantiles) (l lossAt) {
	largest := slices.Max(y[o-1+WindowFrom : o+WindowTo])
	for k, i := range ScoredLevels {
		for h := WindowFrom; h <= WindowTo; h++ {
			l.minutes += Pinball(Levels[i], y[o-1+h], minute[h][k])
		}
		l.peak += Pinball(Levels[i], largest, most[k])
	}
	return l
}

// losses are those of forecasts from origins of y. Error quantiles are computed every hour.
func (s *simple) losses(y []float64, origins []int) []lossAt {
	out := make([]lossAt, len(origins))
	var points []float64
	if s.points != nil {
		points = s.points(y)
	}
	var errors [WindowTo + 1]scoredQuantiles
	var largest scoredQuantiles
	computed := -60
	for j, o := range origins {
		var minute [WindowTo + 1]scoredQuantiles
		var most scoredQuantiles
		if s.points == nil {
			q := scoredOf(slices.Clone(y[max(0, o-s.least):o]))
			for h := range minute {
				minute[h] = q
			}
			out[j] = lossOf(y, o, &minute, &q)
			continue
		}
		if o-computed >= 60 {
			computed = o
			s.errorQuantiles(y, points, o, &errors, &largest)
		}
		for h := WindowFrom; h <= WindowTo; h++ {
			for k := range most {
				minute[h][k] = s.plus(points[o-1], errors[h][k])
				most[k] = max(most[k], minute[h][k])
			}
		}
		for k := range most {
			if s.direct {
				most[k] = s.plus(points[o-1], largest[k])
			}
		}
		out[j] = lossOf(y, o, &minute, &most)
	}
	return out
}

// errorQuantiles computes the quantiles of the errors that are known at origin o.
func (s *simple) errorQuantiles(y, points []float64, o int, errors *[WindowTo + 1]scoredQuantiles, largest *scoredQuantiles) {
	const days, every, pooled = 2880, 7, 2
	var at [WindowTo + pooled + 1][]float64
	var most []float64
	for m := max(s.least-1, o-1-days); m+WindowTo < o; m += every {
		for h := WindowFrom - pooled; h <= WindowTo+pooled && m+h < o; h++ {
			at[h] = append(at[h], s.error(y[m+h], points[m]))
		}
		most = append(most, s.error(slices.Max(y[m+WindowFrom:m+WindowTo+1]), points[m]))
	}
	for h := WindowFrom; h <= WindowTo; h++ {
		errors[h] = scoredOf(slices.Concat(at[h-pooled : h+pooled+1]...))
	}
	*largest = scoredOf(most)
}

func (s *simple) error(y, point float64) float64 {
	if s.root {
		return math.Sqrt(y) - math.Sqrt(point)
	}
	return y - point
}

// plus adds an error to a point.
func (s *simple) plus(point, e float64) float64 {
	if s.root {
		return unroot(math.Sqrt(point) + e)
	}
	return max(0, point+e)
}

// scoredOf returns the quantiles of x, zero if there are less than twenty values. It sorts x.
func scoredOf(x []float64) (q scoredQuantiles) {
	copy(q[:], quantilesOf(x))
	return q
}

// ownLosses are those of the model's forecasts from origins of y, which begins at minute start. The model observes y
// from index first on.
func ownLosses(x *series, y []float64, start int64, first int, origins []int) (out []lossAt) {
	next := first
	for _, o := range origins {
		for ; next < o; next++ {
			x.push(start+int64(next), exact(y[next]))
		}
		var f Forecast
		x.forecast(&f)
		var minute [WindowTo + 1]scoredQuantiles
		var most scoredQuantiles
		for k, i := range ScoredLevels {
			for h := WindowFrom; h <= WindowTo; h++ {
				minute[h][k] = f.Minute[h-1][i]
			}
			most[k] = f.WindowMax[i]
		}
		out = append(out, lossOf(y, o, &minute, &most))
	}
	return out
}
