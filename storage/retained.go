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
	// tokensHalfLife is the half-life of the token counts that rank classes.
	tokensHalfLife = 6 * time.Hour
	// clearlyHeavier is the factor by which a class must exceed another to replace it. It avoids series that often
	// start and end.
	clearlyHeavier = 2
)

// retained ranks classes for series of their own: the heaviest by tokens over all pools, at most limit. Free slots are
// used at once. A pool's other classes are summed in features.OverflowClass.
//
// It remembers the classes of the last hours, about 100 bytes each. The bounds of features apply.
type retained struct {
	limit   int
	own     int   // classes with a slot
	now     int64 // newest tick, Unix ms
	classes map[features.Key]*weight
}

// weight is the ranking data of a class.
type weight struct {
	key    features.Key
	tokens float64 // decayed to at
	at     int64   // newest minute, Unix ms
	own    bool
}

// rankValue returns the rank value. A class with a slot gets more, so that slots change rarely.
func (w *weight) rankValue() float64 {
	if w.own {
		return clearlyHeavier * w.tokens
	}
	return w.tokens
}

func newRetained(limit int) retained {
	return retained{limit: limit, classes: map[features.Key]*weight{}}
}

// owns reports whether a class has its own series. A new class gets them while there is room.
func (c *retained) owns(key features.Key) bool {
	if key.Class == features.OverflowClass {
		return false
	}
	w := c.classes[key]
	if w == nil && c.own < c.limit {
		w = c.weigh(key, 0, c.now)
		w.own = true
		c.own++
	}
	return w != nil && w.own
}

// weigh adds tokens of a minute to a class.
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

// observe ranks the classes after the windows of a tick. It counts settled windows, and a class's first window at once.
// It drops silent classes.
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

// rank assigns the slots to the heaviest classes. The order is total, so the same log gives the same history.
func (c *retained) rank() {
	ranked := slices.SortedFunc(maps.Values(c.classes), func(a, b *weight) int {
		return cmp.Or(cmp.Compare(b.rankValue(), a.rankValue()), a.key.Compare(b.key))
	})
	c.own = min(c.limit, len(ranked))
	for i, w := range ranked {
		w.own = i < c.own
	}
}
