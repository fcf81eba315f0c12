package forecaster

import (
	"math"

	"github.com/forewarm/forewarm/features"
)

// spells are the times in which something came of a series, apart by silences, as far as they tell how soon the present one
// may end. Of classes whose beginning was seen in public traces, half were gone 20 minutes after their first five, a third
// after their first quarter of an hour, and a tenth after an hour: services are tried out. Forecasts learn that from the
// series' own errors only after hours.
type spells struct {
	// Witnessed says that the series began before our eyes: that of others, which may be of any age, bodes no end.
	Witnessed bool
	Lasted    float64 // minutes, of all spells
	Ended     float64 // spells
}

// add counts a minute in which something came or did not, the last time that something did having been so many minutes ago.
func (s *spells) add(came bool, since float64) {
	switch {
	case came && (s.Lasted == 0 || since >= silentMinutes):
		s.Lasted++
	case came:
		s.Lasted += since + 1
	case since+1 == silentMinutes && s.Lasted > 0:
		s.Ended++
	}
}

// over is the probability that the present spell is over in so many minutes, as far as the series' own errors do not tell
// yet: of spells that end at a constant rate, of which Ended ended in Lasted minutes, with Jeffreys' prior on the rate. That
// posterior is a Gamma distribution of shape Ended + ½, so that the spell outlasts ahead minutes more with probability
// (Lasted/(Lasted+ahead))^(Ended+½). It fades like the rest of what is taken for granted (priorOutcomes).
func (s *spells) over(ahead int) float64 {
	if !s.Witnessed || s.Lasted == 0 {
		return 0
	}
	ends := 1 - math.Pow(s.Lasted/(s.Lasted+float64(ahead)), s.Ended+.5)
	return ends * priorOutcomes / (priorOutcomes + s.Lasted)
}

// end mixes what is forecast of the present spell with nothing, for the case that it is over in so many minutes.
func (s *spells) end(q *Quantiles, ahead int) {
	mass := s.over(ahead)
	if mass == 0 {
		return
	}
	was := *q
	for i, tau := range Levels {
		q[i] = was.At((tau - mass) / (1 - mass)) // 0 below the mass
	}
}

// witnessed says whether a class that is first heard of in a minute, in dimension d, has just begun: the quarter of an hour
// before is known, and the class was not there, in any dimension.
func (p *pool) witnessed(c *class, d int, minute int64) bool {
	if c.key.Class == features.OverflowClass || p.total[d] == nil {
		return false
	}
	for other := range dimensions {
		if x := c.follower(other); x != nil && x.past().Known >= silentMinutes {
			return false
		}
	}
	for m := minute - silentMinutes; m < minute; m++ {
		if math.IsNaN(p.total[d].history.At(m)) {
			return false
		}
	}
	return true
}
