package forecaster

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

const (
	minRankingAge = 15  // minutes; rankings compared are at most about twice as old
	keptNames     = 8   // names kept of a ranking
	minRising     = 0.1 // of the tokens a minute before
	minRise       = 0.5 // share of a rise
)

// attribution names the tenant or feature behind a class's tokens: the one with most of a recent rise, else the
// heaviest. Its share of the tokens is Share ± Margin; Rise is its share of the rise, 0 if no one has minRise.
type attribution struct {
	Name                string
	Share, Margin, Rise float64

	Since      int64 // minute of the first ranking
	Then, Next rankingAt
}

// rankingAt is a ranking at the end of a minute.
type rankingAt struct {
	_ struct{} `cbor:",toarray"`

	At      int64
	Total   float64
	Names   []string
	Weights []float64
}

// observe takes the newest ranking. O(names).
func (a *attribution) observe(minute int64, r *features.Ranking) {
	a.Name, a.Share, a.Margin = r.First()
	a.Rise = 0
	if a.Name == "" {
		return
	}
	if a.Since == 0 {
		a.Since = minute
	}
	if a.Next.At == 0 || minute-a.Next.At >= minRankingAge {
		a.Then, a.Next = a.Next, newRankingAt(minute, r)
	}
	if a.Then.At <= a.Since { // one minute is too little to compare with
		return
	}
	if i, rise := a.fastestGrowing(minute, r); rise >= minRise {
		a.Name, a.Share, a.Margin = r.Name(i)
		a.Rise = min(rise, 1)
	}
}

func newRankingAt(minute int64, r *features.Ranking) rankingAt {
	n := min(keptNames, len(r.Top))
	s := rankingAt{At: minute, Total: r.Total, Names: make([]string, n), Weights: make([]float64, n)}
	for i := range n {
		s.Names[i], s.Weights[i] = r.Top[i].Name, r.Top[i].Weight-r.Top[i].Error/2
	}
	return s
}

// weight of a name; of an unlisted one its upper bound, the least listed weight.
func (s *rankingAt) weight(name string) float64 {
	if i := slices.Index(s.Names, name); i >= 0 {
		return s.Weights[i]
	}
	if len(s.Names) == keptNames {
		return s.Weights[keptNames-1]
	}
	return 0
}

// fastestGrowing is the index of the name whose tokens a minute rose most since a.Then, and its share of the whole rise; 0 if
// the rise is small. Weights decay, so what a name received since is its weight minus the rest of its old one; a.Since
// limits how much a weight can hold.
func (a *attribution) fastestGrowing(minute int64, r *features.Ranking) (most int, share float64) {
	fade := math.Exp2(-float64(features.Minute) / float64(features.RankingHalfLife))
	held := func(minutes int64) float64 { return (1 - math.Pow(fade, float64(minutes))) / (1 - fade) }
	left := math.Pow(fade, float64(minute-a.Then.At))
	before, since := held(a.Then.At-a.Since+1), held(minute-a.Then.At)
	rise := func(now, then float64) float64 { return (now-then*left)/since - then/before }
	whole := rise(r.Total, a.Then.Total)
	if !(whole > minRising*a.Then.Total/before) {
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
