package forecaster

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

const (
	riserBack   = 15  // minutes, at least, that rankings are compared over; at most about twice that
	riserNames  = 8   // of a ranking that are kept to compare with
	leastRising = 0.1 // of the tokens a minute of before
	leastRise   = 0.5 // of a rise, for it to be somebody's
)

// attribution is whom a class's tokens are for, tenants or features: the name that most of a recent rise is due to, else
// the heaviest. Its share of the tokens is within Share ± Margin, that of the rise is Rise, 0 when it is nobody's.
type attribution struct {
	Name                string
	Share, Margin, Rise float64

	Since      int64 // minute of the first ranking
	Then, Next standingNames
}

// standingNames is a ranking as it stood at the end of a minute.
type standingNames struct {
	_ struct{} `cbor:",toarray"`

	At      int64
	Total   float64
	Names   []string
	Weights []float64
}

// observe takes the newest ranking. O(features.Config.MaxTenants).
func (a *attribution) observe(minute int64, r *features.Ranking) {
	a.Name, a.Share, a.Margin = r.First()
	a.Rise = 0
	if a.Name == "" {
		return
	}
	if a.Since == 0 {
		a.Since = minute
	}
	if a.Next.At == 0 || minute-a.Next.At >= riserBack {
		a.Then, a.Next = a.Next, stand(minute, r)
	}
	if a.Then.At <= a.Since { // one minute is too little to compare with
		return
	}
	if i, rise := a.riser(minute, r); rise >= leastRise {
		a.Name, a.Share, a.Margin = r.Name(i)
		a.Rise = min(rise, 1)
	}
}

func stand(minute int64, r *features.Ranking) standingNames {
	n := min(riserNames, len(r.Top))
	s := standingNames{At: minute, Total: r.Total, Names: make([]string, n), Weights: make([]float64, n)}
	for i := range n {
		s.Names[i], s.Weights[i] = r.Top[i].Name, r.Top[i].Weight-r.Top[i].Error/2
	}
	return s
}

// weight of a name; of one that is not listed it may be no more than that of any that is.
func (s *standingNames) weight(name string) float64 {
	if i := slices.Index(s.Names, name); i >= 0 {
		return s.Weights[i]
	}
	if len(s.Names) == riserNames {
		return s.Weights[riserNames-1]
	}
	return 0
}

// riser is the name whose tokens a minute rose most since a.Then, and its share of what all rose by; 0 when that is
// little. What an account took since is what it holds less what is left of what it held, because accounts fade; and it
// holds the minutes since a.Since, faded likewise.
func (a *attribution) riser(minute int64, r *features.Ranking) (most int, share float64) {
	fade := math.Exp2(-float64(features.Minute) / float64(features.RankingHalfLife))
	held := func(minutes int64) float64 { return (1 - math.Pow(fade, float64(minutes))) / (1 - fade) }
	left := math.Pow(fade, float64(minute-a.Then.At))
	before, since := held(a.Then.At-a.Since+1), held(minute-a.Then.At)
	rise := func(now, then float64) float64 { return (now-then*left)/since - then/before }
	whole := rise(r.Total, a.Then.Total)
	if !(whole > leastRising*a.Then.Total/before) {
		return 0, 0
	}
	for i := range r.Top {
		c := &r.Top[i]
		if part := rise(c.Weight-c.Error/2, a.Then.weight(c.Name)) / whole; part > share {
			most, share = i, part
		}
	}
	return most, share
}
