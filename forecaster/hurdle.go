package forecaster

import "math"

const (
	// silentMinutes without traffic make a series silent.
	silentMinutes = 15
	// hurdleMemory is how many silent origins are remembered: two days of them.
	hurdleMemory = 2880
	// hurdleEvidence is how many it takes to believe them.
	hurdleEvidence = 60
	// aboveStep is by how much hurdle.Above moves with an outcome, mostAbove how far it goes, aboveYoung the outcomes after
	// which steps have shrunk to twice that. Steps of 0.01 cost 2 % on origins in the second third of the traces: whether a
	// quarter of an hour is busy decides the outcomes of half an hour of origins.
	aboveStep  = 0.0015
	aboveYoung = 240
	mostAbove  = 3
)

// hurdle is the first half of a hurdle model (Mullahy 1986, doi:10.1016/0304-4076(86)90002-3) for classes whose minutes
// are mostly zero: how often a series that is silent is silent at the target, too. Quantiles below that share are exactly
// zero; smoothing and error quantiles alone would leave them a little above it for days.
type hurdle struct {
	Silent, Woke float64 // origins in silence, and those of them whose outcome was not zero
	// Above is the logarithm of how many times as much of the outcomes lies above the quantiles, outside the mass, as they
	// would have it.
	Above float64
}

// learn counts an origin that stands for so many minutes of silence.
func (h *hurdle) learn(woke bool, minutes float64) {
	keep := 1 - minutes/hurdleMemory
	h.Silent = h.Silent*keep + minutes
	h.Woke *= keep
	if woke {
		h.Woke += minutes
	}
}

// clear sets the quantiles that lie in the mass at zero.
func (h *hurdle) clear(q *Quantiles) {
	if h.Silent < hurdleEvidence {
		return
	}
	for i, tau := range Levels {
		if tau <= 1-h.Woke/h.Silent {
			q[i] = 0
		}
	}
}

// silences are hurdles by how long a silence has lasted: most end within the hour, and a class that has said nothing for
// half a day has hardly more to say.
type silences [3]hurdle

// silenceMinutes are the ends of the first silences.
var silenceMinutes = [...]float32{60, 240}

// stage is which of the hurdles holds for a series that has been silent for so many minutes.
func stage(quiet float32) int {
	i := 0
	for i < len(silenceMinutes) && quiet > silenceMinutes[i] {
		i++
	}
	return i
}

// of is the hurdle of a series that has been silent for so many minutes.
func (s *silences) of(quiet float32) *hurdle { return &s[stage(quiet)] }

// wakes is the probability that something comes at a target that is ahead minutes away, after so many quiet minutes. What
// is believed of a stage before it has shown itself is no more than what the stage before it showed: a silence ends the
// less readily the longer it has lasted.
func (s *silences) wakes(quiet float32, ahead int) float64 {
	p := 1.0
	for i := 0; i <= stage(quiet); i++ {
		age := quiet
		if i < len(silenceMinutes) {
			age = min(age, silenceMinutes[i])
		}
		h := &s[i]
		p = (h.Woke + hurdleEvidence*min(p, wakesWithin(float64(ahead), float64(age)))) / (h.Silent + hurdleEvidence)
	}
	return p
}

// clear sets the quantiles that lie in the mass at zero, and lowers those above some of the way to what they are given
// that something comes: the error quantiles have seen the silence, too. ahead is how many minutes the target is away.
func (s *silences) clear(q *Quantiles, quiet float32, ahead int) {
	wakes := s.wakes(quiet, ahead)
	was, above := *q, math.Exp(s.of(quiet).Above)/math.Sqrt(wakes)
	for i, tau := range Levels {
		if tau <= 1-wakes {
			q[i] = 0
		} else {
			q[i] = was.At(1 - (1-tau)*above)
		}
	}
}

// empty sets the quantiles that lie in the mass at zero, and leaves the others as they are.
func (s *silences) empty(q *Quantiles, quiet float32, ahead int) {
	mass := 1 - s.wakes(quiet, ahead)
	for i, tau := range Levels {
		if tau <= mass {
			q[i] = 0
		}
	}
}

// cover takes outcome y of quantiles that were published after so many quiet minutes: those above the mass are to cover
// what they say, as calibrate has it for a series that is not silent. The first outcomes weigh more.
func (s *silences) cover(y float64, published *Quantiles, quiet float32, ahead int) {
	h, mass := s.of(quiet), 1-s.wakes(quiet, ahead)
	step := aboveStep * (1 + aboveYoung/(h.Silent+hurdleEvidence))
	for i, tau := range Levels {
		if tau > mass {
			h.Above -= step * (tau - count(y <= published[i]))
		}
	}
	h.Above = math.Max(-mostAbove, math.Min(mostAbove, h.Above))
}

// wakesWithin is the probability that a silence that has lasted d minutes ends within h more, before there is evidence:
// 1 − (d/(d+h))^a. That is a Poisson process of which nothing was seen for d minutes, with a Gamma prior of shape a on its
// rate. On origins in the second third of the traces a quarter did better than a half, Jeffreys' prior.
func wakesWithin(h, d float64) float64 { return 1 - math.Pow(d/(d+h), 0.25) }
