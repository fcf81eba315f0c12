package forecaster

import "math"

// spread is how far a series strays from its ten-minute level on the square-root scale: exponentially weighted mean
// absolute deviations at three time scales. It sees a minute once that has settled: first counts of requests that are
// reported when they end may be next to nothing, and would leave no spread for errors to be measured in.
type spread struct {
	Deviation [3]float64
	Seen      float64
	Near, Day float64 // mean of ten minutes, and of a day

	Awake, Active float64 // minutes outside silences, and those of them in which something came
	Since         float64 // minutes since something came
	Spells        spells
}

// spreads are a series' spreads at one origin, and the root of its day's mean.
type spreads struct {
	Day, Mixed float32 // the deviation over a day; 40, 30 and 30 % of those over 20 minutes, 90 minutes and a day
	Root       float32
	// Quiet is for how many minutes nothing came, up to longestQuiet; 0 when something came of late.
	Quiet float32
}

// flat says that no minute of the day differed from the others.
func (s *spreads) flat() bool { return float64(s.Day) <= 2*leastSpread*float64(s.Root) }

// mixed is the unit of calibration.
func (s *spreads) mixed() float64 { return float64(s.Mixed) }

// least is the least width between neighbouring quantiles of an expert that gives a whole distribution.
func (s *spreads) least() float64 { return leastWidth * s.mixed() }

const leastWidth = 0.01

// spreadMinutes are the time constants of the deviations, spreadShare their part in spreads.Mixed.
var (
	spreadMinutes = [3]float64{20, 90, 1440}
	spreadShare   = [3]float64{.4, .3, .3}
)

// priorDeviation is the deviation, relative to the level's root, that a series is taken to have before it has shown its
// own, and how many minutes that belief is worth.
const (
	priorDeviation = 0.3
	priorMinutes   = 10
)

// add counts y, the value of a settled minute; NaN counts for nothing.
func (s *spread) add(y float64) {
	if math.IsNaN(y) {
		return
	}
	if s.Seen > 0 {
		d := math.Abs(math.Sqrt(y) - math.Sqrt(s.Near))
		for i, tau := range spreadMinutes {
			s.Deviation[i] += math.Max(1/tau, 1/s.Seen) * (d - s.Deviation[i])
		}
	}
	s.Spells.add(y > 0, s.Since)
	if s.Since++; y > 0 {
		s.Since = 0
	}
	if s.Since < silentMinutes {
		const keep = 1 - 1.0/activeMemory
		s.Awake = s.Awake*keep + 1
		s.Active *= keep
		if y > 0 {
			s.Active++
		}
	}
	s.Seen++
	s.Near += math.Max(1.0/10, 1/s.Seen) * (y - s.Near)
	s.Day += math.Max(1.0/1440, 1/s.Seen) * (y - s.Day)
}

// at are the spreads at present: positive, vanishing for a flat series. level stands in for the mean until a minute has
// settled. A deviation over minutes that hardly differ is held above a share of that of the day, lest a quiet quarter of
// an hour makes all that follows an outlier.
func (s *spread) at(level float64) (x spreads) {
	if s.Seen > 0 {
		level = s.Day
	}
	root := math.Sqrt(math.Max(level, 0))
	w := priorMinutes / (priorMinutes + s.Seen)
	if s.Seen > 20*priorMinutes {
		w = 0
	}
	least := math.Max(quietShare*s.Deviation[2], leastSpread*root+1e-12)
	blend := func(own float64) float32 {
		return float32(math.Max(w*priorDeviation*root+(1-w)*own, least))
	}
	mixed := 0.0
	for i, share := range spreadShare {
		mixed += share * s.Deviation[i]
	}
	x.Day, x.Mixed = blend(s.Deviation[2]), blend(mixed)
	x.Root = float32(math.Max(root, 1e-12))
	return x
}

// leastSpread is the least spread, relative to the root of the day's mean.
const leastSpread = 1e-7

// quietShare is the least part of a day's deviation that any other spread may be.
const quietShare = 0.1

// activeMemory is over how many minutes it is learned how often something comes while a series is not silent.
const activeMemory = 720

// steady says that hardly a minute passes in which nothing comes.
func (s *spread) steady() bool { return s.Active >= steadyShare*s.Awake }

const steadyShare = 0.95

// silentAfter is how many minutes without traffic make the series silent: as many as are unlikely by how often something
// comes, and no more than silentMinutes.
func (s *spread) silentAfter() int {
	idle := 1 - (s.Active+.5)/(s.Awake+1)
	return int(math.Max(2, math.Min(silentMinutes, math.Ceil(math.Log(silenceOdds)/math.Log(idle)))))
}

// silenceOdds is how unlikely minutes without traffic must be.
const silenceOdds = 0.02
