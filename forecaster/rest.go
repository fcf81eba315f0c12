package forecaster

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/features"
)

const (
	// weightHalfLife is how fast the tokens fade by which classes are ranked, in minutes.
	weightHalfLife = 360
	// chooseEvery is how often the ranks are looked at, in minutes.
	chooseEvery = 15
	// clearlyHeavier is how many times a class must outweigh one of a higher tier to take its place, for what the other
	// has learned is lost.
	clearlyHeavier = 2
)

// tier is what a class has of its own. A full series takes some 200 KiB, so that of thousands of classes only the
// heaviest have those. The classes beyond the bounds of both tiers are forecast together, as features.OverflowClass: at
// every minute its value is the sum of theirs.
type tier int

const (
	tierPooled tier = iota
	tierLight
	tierFull
)

// standing is what a pool keeps of each class to rank it, and of one without series of its own what it last counted.
type standing struct {
	name   string
	weight float64 // tokens, fading, as of newest
	newest int64   // minute
	tier   tier
	class  *class // when it has series of its own
	counts span   // when it has none
}

// A class that becomes a full one is replayed the last hours of its light series, for experts and calibration to learn
// from; and no more than about mostReplayed minutes of classes at a time, so that no tick takes long: a second or so.
const (
	replayMinutes = 6 * 60
	mostReplayed  = 2 * replayMinutes
)

// replay makes a full series of what was observed for a light one.
func replay(key features.Key, o *observed) *series {
	s := newSeries(key, o.settle)
	from := o.history.Newest - replayMinutes
	s.history, s.spread, s.learned = o.history.Before(from), o.spread, from
	for m := from + 1; m <= o.history.Newest; m++ {
		now := exactly(o.history.At(m))
		if before := o.history.Newest - m; before < int64(o.settle) && !o.anchor.firm(before) {
			now.SD = now.Mean // not to be learned from yet
		}
		s.step(m, now)
	}
	s.history, s.spread, s.anchor, s.learned = o.history, o.spread, o.anchor, o.learned
	return s
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

// stand finds or adds the standing of a class. A new one gets series of its own while there is room. at is where to look
// first, and becomes the place after it.
func (p *pool) stand(name string, at *int) *standing {
	i, ok := *at, *at < len(p.standings) && p.standings[*at].name == name
	if !ok {
		i, ok = slices.BinarySearchFunc(p.standings, name, func(s *standing, n string) int { return strings.Compare(s.name, n) })
	}
	if !ok {
		s := &standing{name: name}
		p.standings = slices.Insert(p.standings, i, s)
		if name != features.OverflowClass {
			p.seat(s, p.best())
		}
		if s.tier != tierPooled {
			p.open(s)
		}
	}
	*at = i + 1
	return p.standings[i]
}

// best is the highest tier that has room.
func (p *pool) best() tier {
	switch {
	case p.full < p.of.cfg.MaxClasses:
		return tierFull
	case p.of.light < p.of.cfg.MaxLight:
		return tierLight
	}
	return tierPooled
}

// seat moves a class to a tier, in the books.
func (p *pool) seat(s *standing, t tier) {
	for x, n := range map[tier]*int{tierFull: &p.full, tierLight: &p.of.light} {
		if s.tier == x {
			*n--
		}
		if t == x {
			*n++
		}
	}
	s.tier = t
}

// open makes the series of a class that had none.
func (p *pool) open(s *standing) {
	s.class = p.class(features.Key{Pool: p.name, Class: s.name})
	if s.tier == tierLight {
		s.class.series, s.class.light, s.class.shown = nil, make([]*light, len(dimensions)), false
	}
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
func (p *pool) pooled(s *standing, minute int64, w *features.Window, others []features.Estimate, settle int, newest bool) {
	own, rest := s.counts.open(minute, settle), p.rest.open(minute, settle)
	if own == nil || rest == nil {
		return // long settled
	}
	multiplier := p.multiplier(features.OverflowClass, minute) // an event of this class alone is not told apart in the rest
	for d := range dimensions {
		if now, ok := p.base(d, w, multiplier, newest); ok {
			substitute(&rest[d], own[d], now.Mean)
			own[d] = now.Mean
			others[d] = plus(others[d], now)
		}
	}
}

// addShape adds what makes up the load of a class to that of the rest.
func addShape(rest *features.Window, w *features.Window) {
	rest.Class = features.OverflowClass
	rest.Covered = rest.Covered || w.Covered
	rest.Requests += w.Requests
	rest.Retries += w.Retries
	rest.PromptTokens += w.PromptTokens
	rest.CachedTokens += w.CachedTokens
	rest.PromptOfCachedKnown += w.PromptOfCachedKnown
	rest.OutputTokens += w.OutputTokens
	rest.OutputRetried += w.OutputRetried
	rest.OutputUnserved += w.OutputUnserved
}

// substitute replaces one summand by another; a sum without summands is not known.
func substitute(sum *float64, was, is float64) {
	*sum = math.Max(0, zeroIfNaN(*sum)-zeroIfNaN(was)+zeroIfNaN(is))
}

// choose lets classes that have become clearly heavier change places with the lightest of a higher tier. Ties go by name.
func (p *pool) choose(minute int64, settle int) {
	if minute%chooseEvery != 0 || minute <= p.chosen {
		return
	}
	p.chosen = minute
	all := make([]ranked, 0, len(p.standings))
	for _, s := range p.standings {
		if s.name != features.OverflowClass {
			all = append(all, ranked{s, s.weightAt(minute)})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.now, a.now) })
	p.exchange(all, tierFull, settle)
	p.exchange(all, tierLight, settle)
	p.show(all)
}

// ranked is a class and what it weighs at present.
type ranked struct {
	*standing
	now float64
}

// exchange lets the heaviest classes below a tier rise to it, into free places or in exchange.
func (p *pool) exchange(all []ranked, t tier, settle int) {
	var in, out []ranked
	for _, s := range all {
		switch {
		case s.tier == t:
			in = append(in, s)
		case s.tier < t:
			out = append(out, s)
		}
	}
	for len(in) > 0 && p.room(t) < 0 {
		p.move(in[len(in)-1].standing, p.below(t), settle)
		in = in[:len(in)-1]
	}
	for replayed := 0; len(out) > 0 && replayed < mostReplayed; out = out[1:] {
		free := p.room(t) > 0
		if !free && (len(in) == 0 || out[0].now <= clearlyHeavier*in[len(in)-1].now) {
			return
		}
		replayed += p.move(out[0].standing, t, settle)
		if !free {
			p.move(in[len(in)-1].standing, p.below(t), settle)
			in = in[:len(in)-1]
		}
	}
}

// room is how many more classes a tier can take, negative when it has too many.
func (p *pool) room(t tier) int {
	if t == tierFull {
		return p.of.cfg.MaxClasses - p.full
	}
	return p.of.cfg.MaxLight - p.of.light
}

// below is the next tier that has room.
func (p *pool) below(t tier) tier {
	if t == tierFull && p.room(tierLight) > 0 {
		return tierLight
	}
	return tierPooled
}

// show has the heaviest light classes in the output, as many as there may be full ones; some more stay for a while, lest
// they come and go.
func (p *pool) show(all []ranked) {
	n, most := 0, p.of.cfg.MaxClasses
	for _, s := range all {
		if s.tier == tierLight {
			s.class.shown = n < most || s.class.shown && n < most*5/4
			n++
		}
	}
}

// move gives a class what a tier has, and says how many minutes had to be replayed for it, which takes time.
func (p *pool) move(s *standing, t tier, settle int) (replayed int) {
	from := s.tier
	p.seat(s, t)
	switch {
	case t == tierPooled:
		p.merge(s, settle)
	case from == tierPooled:
		p.part(s, settle)
	case t == tierLight:
		s.class.light = make([]*light, len(dimensions))
		for d, x := range s.class.series {
			if x != nil {
				s.class.light[d] = newLight(s.class.key, p.sharing(d), x.observed)
			}
		}
		s.class.series, s.class.shown = nil, false
	case t == tierFull:
		s.class.series = make([]*series, len(dimensions))
		for d, x := range s.class.light {
			if x != nil {
				s.class.series[d] = replay(s.class.key, &x.observed)
				replayed = min(x.history.Known, replayMinutes)
			}
		}
		s.class.light, s.class.shown = nil, true
	}
	return replayed
}

// part gives a class series of its own. They begin with the minutes that can still be amended, which the rest loses.
func (p *pool) part(s *standing, settle int) {
	p.open(s)
	for m := s.newest - int64(len(s.counts.At)); m <= s.newest; m++ {
		row := s.counts.row(m)
		for d := range row {
			x := s.class.follower(d)
			if math.IsNaN(row[d]) && x == nil {
				continue
			}
			if x == nil {
				x = p.follow(s.class, d, settle, false)
			}
			x.push(m, exactly(row[d]))
			p.shift(d, m, row[d], math.NaN())
		}
	}
	s.class.shape.Newest = s.newest
	s.counts = span{}
}

// merge takes a class's series away; the rest gains the minutes that can still be amended.
func (p *pool) merge(s *standing, settle int) {
	c := s.class
	s.class = nil
	for m := s.newest - int64(settle); m <= s.newest; m++ {
		row := s.counts.open(m, settle)
		p.rest.open(m, settle)
		for d := range dimensions {
			if x := c.follower(d); x != nil {
				row[d] = x.past().At(m)
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
	substitute(&row[d], was, is)
	if s := p.class(features.Key{Pool: p.name, Class: features.OverflowClass}).series[d]; s != nil && minute <= s.history.Newest {
		s.history.Amend(minute, row[d])
	}
}
