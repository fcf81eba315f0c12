package storage

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

const (
	// tokensHalfLife is how fast the tokens fade by which classes are ranked.
	tokensHalfLife = 6 * time.Hour
	// clearlyHeavier is how many times the tokens of another a class must have to take its place: series that begin and end
	// say less than ones that go on.
	clearlyHeavier = 2
)

// retained are the classes that have series of their own: over all pools the heaviest by tokens, at most most. Places that
// are free are taken at once. The other classes of a pool are in the history together, as features.OverflowClass.
//
// It remembers the classes that had a window in the last hours: about 100 bytes each, of as many as features keeps.
type retained struct {
	most    int
	own     int   // classes that have a place
	now     int64 // newest tick, Unix ms
	classes map[features.Key]*weight
}

// weight is what is known of a class to rank it.
type weight struct {
	key    features.Key
	tokens float64 // fading, as of at
	at     int64   // newest minute, Unix ms
	own    bool

	names [len(accounts)]names
}

// worth is what a class is ranked by: one that has a place is worth more, so that places do not change often.
func (w *weight) worth() float64 {
	if w.own {
		return clearlyHeavier * w.tokens
	}
	return w.tokens
}

func newRetained(most int) retained { return retained{most: most, classes: map[features.Key]*weight{}} }

// owns says whether a class has series of its own; one that was never weighed gets them while there is room.
func (c *retained) owns(key features.Key) bool {
	if key.Class == features.OverflowClass {
		return false
	}
	w := c.classes[key]
	if w == nil && c.own < c.most {
		w = c.weigh(key, 0, c.now)
		w.own = true
		c.own++
	}
	return w != nil && w.own
}

// weigh adds tokens of a minute to those of a class.
func (c *retained) weigh(key features.Key, tokens float64, at int64) *weight {
	w := c.classes[key]
	if w == nil {
		w = &weight{key: key, at: at}
		c.classes[key] = w
	}
	if at > w.at {
		w.tokens *= math.Exp2(-float64(at-w.at) / float64(tokensHalfLife.Milliseconds()))
		w.at = at
	}
	w.tokens += tokens
	return w
}

// observe ranks the classes after the windows of a tick: a window counts when it settled, and the first of a class at
// once. Silent classes are forgotten.
func (c *retained) observe(windows []features.Window, tick int64) {
	c.now = tick
	for i := range windows {
		w := &windows[i]
		if w.Class != features.OverflowClass && (w.Settled || c.classes[w.Key] == nil) {
			c.weigh(w.Key, w.PromptTokens+w.OutputTokens, w.Start.UnixMilli())
		}
	}
	maps.DeleteFunc(c.classes, func(_ features.Key, w *weight) bool { return tick-w.at >= activeFor.Milliseconds() })
	c.rank()
}

// rank gives the places to the heaviest classes. The order is total, so that the same log leads to the same history.
func (c *retained) rank() {
	ranked := slices.SortedFunc(maps.Values(c.classes), func(a, b *weight) int {
		return cmp.Or(cmp.Compare(b.worth(), a.worth()), a.key.Compare(b.key))
	})
	c.own = min(c.most, len(ranked))
	for i, w := range ranked {
		w.own = i < c.own
	}
}
