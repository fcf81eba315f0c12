package forecaster

import (
	"cmp"
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

const (
	// weightHalfLife of the tokens that rank classes, in minutes.
	weightHalfLife = 360
	// rankEvery is the interval of ranking, in minutes.
	rankEvery = 15
)

// addWeight adds the tokens of a minute's first count.
func (c *class) addWeight(minute int64, w *features.Window) {
	if minute > c.shape.Newest {
		c.weight = c.weightAt(minute) + w.PromptTokens + w.OutputTokens
	}
}

func (c *class) weightAt(minute int64) float64 {
	return c.weight * math.Exp2(-float64(max(minute-c.shape.Newest, 0))/weightHalfLife)
}

// rank selects the heaviest classes for the output. A shown class stays until a quarter more classes outrank it, so
// output is stable. Ties go by name.
func (p *pool) rank(minute int64) {
	if minute%rankEvery != 0 || minute <= p.ranked {
		return
	}
	p.ranked = minute
	all := slices.Clone(p.classes)
	slices.SortStableFunc(all, func(a, b *class) int { return cmp.Compare(b.weightAt(minute), a.weightAt(minute)) })
	for n, c := range all {
		c.shown = n < p.of.cfg.Shown || c.shown && n < p.of.cfg.Shown*5/4
	}
}
