package forecaster

import (
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/features"
)

// A series takes some 100 KiB, so that of thousands of classes only the heaviest have series of their own. The others
// are forecast together, as features.OverflowClass: at every minute its value is the sum of theirs.
const (
	// weightHalfLife is how fast the tokens fade by which classes are ranked, in minutes.
	weightHalfLife = 360
	// chooseEvery is how often the ranks are looked at, in minutes.
	chooseEvery = 15
	// clearlyHeavier is how many times a class must outweigh one that has series of its own to take its place, for a
	// new series has everything to learn.
	clearlyHeavier = 2
)

// standing is what a pool keeps of each class to rank it, and of one without series of its own what it last counted.
type standing struct {
	name   string
	weight float64 // tokens, fading, as of newest
	newest int64   // minute
	alone  bool    // has series of its own
	counts span    // when it has none
}

// span holds values by dimension for the minutes that can still be amended.
type span struct {
	At    []int64   // the minute in each place, by minute modulo their number
	Value []float64 // by place and dimension; NaN: not known
}

// row is the values of a minute, nil when it is not held.
func (s *span) row(minute int64) []float64 {
	if len(s.At) == 0 || s.At[minute%int64(len(s.At))] != minute {
		return nil
	}
	i := int(minute%int64(len(s.At))) * len(dimensions)
	return s.Value[i : i+len(dimensions)]
}

// open makes room for a minute, in place of an older one; nil when the one in its place is newer.
func (s *span) open(minute int64, settle int) []float64 {
	if s.At == nil {
		n := settle + 2 // from the first count of a minute to its last amendment, and one that has just begun
		s.At, s.Value = make([]int64, n), make([]float64, n*len(dimensions))
	}
	if row := s.row(minute); row != nil {
		return row
	}
	place := &s.At[minute%int64(len(s.At))]
	if *place > minute {
		return nil
	}
	*place = minute
	row := s.row(minute)
	for d := range row {
		row[d] = math.NaN()
	}
	return row
}

// stand finds or adds the standing of a class. A new one gets series of its own while there is room.
func (p *pool) stand(name string, limit int) *standing {
	i, ok := slices.BinarySearchFunc(p.standings, name, func(s *standing, n string) int { return strings.Compare(s.name, n) })
	if !ok {
		s := &standing{name: name, alone: name != features.OverflowClass && p.alone() < limit}
		p.standings = slices.Insert(p.standings, i, s)
	}
	return p.standings[i]
}

// alone counts the classes that have series of their own.
func (p *pool) alone() (n int) {
	for _, c := range p.classes {
		if c.key.Class != features.OverflowClass {
			n++
		}
	}
	return n
}

// rank adds the tokens of a minute's first count to a class's weight.
func (s *standing) rank(minute int64, w *features.Window) {
	if minute <= s.newest {
		return
	}
	s.weight, s.newest = s.weightAt(minute)+w.PromptTokens+w.OutputTokens, minute
}

func (s *standing) weightAt(minute int64) float64 {
	return s.weight * math.Exp2(-float64(max(minute-s.newest, 0))/weightHalfLife)
}

// pooled adds what a minute of a class without series of its own will come to to the rest, and to others.
func (p *pool) pooled(s *standing, minute int64, w *features.Window, others []features.Estimate, settle int) {
	own, rest := s.counts.open(minute, settle), p.rest.open(minute, settle)
	if own == nil || rest == nil {
		return // long settled
	}
	for d := range dimensions {
		if now, ok := dimensions[d].Now(w); ok {
			move(&rest[d], own[d], now.Mean)
			own[d] = now.Mean
			others[d] = plus(others[d], now)
		}
	}
}

// addShape adds what makes up the load of a class to that of the rest.
func addShape(rest *features.Window, w *features.Window) {
	rest.Class = features.OverflowClass
	rest.Requests += w.Requests
	rest.Retries += w.Retries
	rest.PromptTokens += w.PromptTokens
	rest.CachedTokens += w.CachedTokens
	rest.PromptOfCachedKnown += w.PromptOfCachedKnown
	rest.OutputTokens += w.OutputTokens
	rest.OutputRetried += w.OutputRetried
	rest.OutputUnserved += w.OutputUnserved
}

// move replaces one summand by another; a sum without summands is not known.
func move(sum *float64, was, is float64) {
	*sum = math.Max(0, zeroIfNaN(*sum)-zeroIfNaN(was)+zeroIfNaN(is))
}

// choose lets classes that have become clearly heavier change places with the lightest that have series of their own.
// Ties go by name.
func (p *pool) choose(minute int64, limit, settle int) {
	if minute%chooseEvery != 0 || minute <= p.chosen {
		return
	}
	p.chosen = minute
	for {
		var lightest, heaviest *standing
		for _, s := range p.standings {
			switch {
			case s.name == features.OverflowClass:
			case s.alone && (lightest == nil || s.weightAt(minute) <= lightest.weightAt(minute)):
				lightest = s
			case !s.alone && (heaviest == nil || s.weightAt(minute) > heaviest.weightAt(minute)):
				heaviest = s
			}
		}
		n := p.alone()
		switch {
		case n > limit && lightest != nil:
			p.demote(lightest, settle)
		case heaviest == nil:
			return
		case n < limit:
			p.promote(heaviest, settle)
		case lightest != nil && heaviest.weightAt(minute) > clearlyHeavier*lightest.weightAt(minute):
			p.demote(lightest, settle)
			p.promote(heaviest, settle)
		default:
			return
		}
	}
}

// promote gives a class series of its own. They begin with the minutes that can still be amended, which the rest loses.
func (p *pool) promote(s *standing, settle int) {
	c := p.class(features.Key{Pool: p.name, Class: s.name})
	for m := s.newest - int64(len(s.counts.At)); m <= s.newest; m++ {
		row := s.counts.row(m)
		for d := range row {
			if math.IsNaN(row[d]) && c.series[d] == nil {
				continue
			}
			if c.series[d] == nil {
				c.series[d] = p.newSeries(c.key, settle)
			}
			c.series[d].push(m, exactly(row[d]))
			p.shift(d, m, row[d], math.NaN())
		}
	}
	c.shape.Newest = s.newest
	s.alone, s.counts = true, span{}
}

// demote takes a class's series away; the rest gains the minutes that can still be amended.
func (p *pool) demote(s *standing, settle int) {
	c := p.class(features.Key{Pool: p.name, Class: s.name})
	s.alone = false
	for m := s.newest - int64(settle); m <= s.newest; m++ {
		row := s.counts.open(m, settle)
		p.rest.open(m, settle)
		for d, x := range c.series {
			if x != nil {
				row[d] = x.history.At(m)
				p.shift(d, m, math.NaN(), row[d])
			}
		}
	}
	p.classes = slices.DeleteFunc(p.classes, func(x *class) bool { return x == c })
}

// shift changes a summand of the rest in a minute that was counted before; the pool's total stays as it is.
func (p *pool) shift(d int, minute int64, was, is float64) {
	row := p.rest.row(minute)
	if row == nil {
		return
	}
	move(&row[d], was, is)
	if s := p.class(features.Key{Pool: p.name, Class: features.OverflowClass}).series[d]; s != nil && minute <= s.history.Newest {
		s.history.Amend(minute, row[d])
	}
}
