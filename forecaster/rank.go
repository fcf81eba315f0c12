package forecaster

import (
	"cmp"
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
)

const (
	// weightHalfLife is how fast the tokens fade by which classes are ranked, in minutes.
	weightHalfLife = 360
	// rankEvery is how often classes are ranked, in minutes.
	rankEvery = 15
)

// weigh adds the tokens of a minute's first count to a class's weight.
func (c *class) weigh(minute int64, w *features.Window) {
	if minute > c.shape.Newest {
		c.weight = c.weightAt(minute) + w.PromptTokens + w.OutputTokens
	}
}

func (c *class) weightAt(minute int64) float64 {
	return c.weight * math.Exp2(-float64(max(minute-c.shape.Newest, 0))/weightHalfLife)
}

// rank has the heaviest classes in the output; some more stay for a while, so that they do not come and go. Ties go by name.
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
