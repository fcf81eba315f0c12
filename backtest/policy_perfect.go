package backtest

import (
	"slices"
	"time"
)

// perfect knows the demand to come and has the largest need of the next minutes ready; how long a replica will take it
// does not know. It is what the best of forecasts would be worth to a policy that looks a fixed time ahead.
type perfect struct {
	name        string
	future      *Future
	need        []float64 // known of each minute
	ahead       int       // minutes
	utilisation float64
}

func newPerfect(s Scene, set Setting) Policy {
	return &perfect{name: "perfect_forecast", future: s.Future, need: s.Future.Need, ahead: int(set[0]), utilisation: 1}
}

// levelWidth is over how many minutes perfect_level's demand is averaged.
const levelWidth = 15

// newPerfectLevel knows the demand to come but for the noise of single minutes: the mean of the quarter hour around each.
// No forecast knows that noise, so this is nearer to what forecasts can reach.
func newPerfectLevel(s Scene, set Setting) Policy {
	return &perfect{name: "perfect_level", future: s.Future, need: levels(s.Future.Need), ahead: int(set[1]), utilisation: set[0]}
}

// levels is the mean of the quarter hour around each minute.
func levels(need []float64) []float64 {
	level := make([]float64, len(need))
	for m := range level {
		around := need[max(0, m-levelWidth/2):min(len(level), m+levelWidth/2+1)]
		for _, x := range around {
			level[m] += x / float64(len(around))
		}
	}
	return level
}

func (p *perfect) Name() string { return p.name }

func (p *perfect) Desired(o Observation) int {
	from := min(int(o.At.Sub(p.future.Start)/time.Minute), len(p.need))
	next := p.need[from:min(from+p.ahead+1, len(p.need))]
	if len(next) == 0 {
		return o.Ready + o.Pending
	}
	return replicas(slices.Max(next), p.utilisation)
}
