package storage

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

const (
	// tokensHalfLife is how fast the tokens fade by which classes are ranked.
	tokensHalfLife = 6 * time.Hour
	// chooseEvery is how often, in the time of ticks, lighter classes can lose their place.
	chooseEvery = time.Hour
	// clearlyHeavier is how many times the tokens of another a class must have to take its place: series that begin and end
	// say less than ones that go on.
	clearlyHeavier = 2
)

// chosen are the classes that have series of their own: over all pools the heaviest by tokens, at most most. Places that
// are free are taken at once. The other classes of a pool are in the history together, as features.OverflowClass.
//
// It remembers the classes that had a window in the last hours: about 100 bytes each, of as many as features keeps.
type chosen struct {
	most      int
	own       int   // standings that have a place
	now       int64 // newest tick, Unix ms
	ranked    int64 // tick at which places were exchanged last, Unix ms
	standings map[features.Key]*standing
}

// standing is what is known of a class to rank it.
type standing struct {
	key    features.Key
	tokens float64 // fading, as of at
	at     int64   // newest minute, Unix ms
	own    bool

	seats [len(accounts)]seats
}

func newChosen(most int) chosen { return chosen{most: most, standings: map[features.Key]*standing{}} }

// owns says whether a class has series of its own; one that was never weighed gets them while there is room.
func (c *chosen) owns(key features.Key) bool {
	if key.Class == features.OverflowClass {
		return false
	}
	s := c.standings[key]
	if s == nil && c.own < c.most {
		s = c.weigh(key, 0, c.now)
		c.take(s)
	}
	return s != nil && s.own
}

// weigh adds tokens of a minute to those of a class.
func (c *chosen) weigh(key features.Key, tokens float64, at int64) *standing {
	s := c.standings[key]
	if s == nil {
		s = &standing{key: key, at: at}
		c.standings[key] = s
	}
	if at > s.at {
		s.tokens *= math.Exp2(-float64(at-s.at) / float64(tokensHalfLife.Milliseconds()))
		s.at = at
	}
	s.tokens += tokens
	return s
}

// observe ranks the classes after the windows of a tick: a window counts when it settled, and the first of a class at
// once.
func (c *chosen) observe(windows []features.Window, tick int64) {
	c.now = tick
	for i := range windows {
		w := &windows[i]
		if w.Class != features.OverflowClass && (w.Settled || c.standings[w.Key] == nil) {
			c.weigh(w.Key, w.PromptTokens+w.OutputTokens, w.Start.UnixMilli())
		}
	}
	if tick-c.ranked >= chooseEvery.Milliseconds() {
		c.ranked = tick
		c.forget()
		c.fill()
		c.exchange()
	} else {
		c.fill()
	}
}

// forget drops the classes that have fallen silent.
func (c *chosen) forget() {
	for key, s := range c.standings {
		if c.now-s.at < activeFor.Milliseconds() {
			continue
		}
		if s.own {
			c.own--
		}
		delete(c.standings, key)
	}
}

// fill gives the places that are free to the heaviest.
func (c *chosen) fill() {
	if c.own >= c.most || c.own == len(c.standings) {
		return
	}
	for _, s := range c.heaviestFirst(false) {
		if c.own == c.most {
			return
		}
		c.take(s)
	}
}

func (c *chosen) take(s *standing) {
	s.own = true
	c.own++
}

// exchange gives the places of light classes to clearly heavier ones.
func (c *chosen) exchange() {
	others, own := c.heaviestFirst(false), c.heaviestFirst(true)
	slices.Reverse(own)
	for i := range min(len(others), len(own)) {
		if others[i].tokens <= clearlyHeavier*own[i].tokens {
			return
		}
		others[i].own, own[i].own = true, false
	}
}

// heaviestFirst lists the classes with a place, or those without: a total order, so that the same log leads to the same
// history.
func (c *chosen) heaviestFirst(own bool) []*standing {
	var list []*standing
	for _, s := range c.standings {
		if s.own == own {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *standing) int {
		return cmp.Or(cmp.Compare(b.tokens, a.tokens), a.key.Compare(b.key))
	})
	return list
}
