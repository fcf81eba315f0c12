package features

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// Sessions sums up the conversations and agent runs of a class as they stand at the end of a minute: those whose newest
// turn ended less than Config.SessionTTL ago. What is running now says much of what comes next. Means are NaN when there
// is nothing to take them of.
type Sessions struct {
	Active  int // sessions that go on
	Started int // sessions that began since the last minute
	Ended   int // sessions that fell silent since the last minute

	AgeMean     float64 // seconds since the first turn began
	TurnMean    float64 // turns so far
	ContextSum  float64 // tokens of prompt and output of the newest turns: what comes back with the next ones
	ContextMax  float64 // the largest of them
	CachedShare float64 // of the prompts of the newest turns that reported it, 0..1
	GrowthMean  float64 // tokens that a turn adds to its context
	GapMean     float64 // seconds from the end of a turn to the next one, of turns that came since the last minute

	ByAge [SessionAges]SessionAge
	Begun SessionActs // what sessions did since the last minute that began since then
}

// sessionAccount is what is kept for a class that has sessions.
type sessionAccount struct {
	since  SessionsSince
	now    sessionSums
	latest Sessions
}

// SessionsSince is what has happened to the sessions of a class since the last minute.
type SessionsSince struct {
	Started int   `cbor:"1,keyasint"`
	Gaps    int   `cbor:"2,keyasint"` // turns that came after the end of the one before
	Waited  int64 `cbor:"3,keyasint"` // sum of the gaps, nanoseconds

	Acts [SessionAges + 1]SessionActs `cbor:"4,keyasint"` // by the age at the end of the last minute; then of new ones
}

// sessionSums add up the sessions of a class as they are. They are of integers: the order of the table does not show in
// them.
type sessionSums struct {
	active, ended, ageMillis, turns, later, growth, context, largest, prompt, cached int64

	alive, over [SessionAges]int64
}

// visit counts a record of a request in its session; call says that it is no retry, first that it is the first record
// of the request: the two together make a turn. The same session in two pools is two.
func (a *Aggregator) visit(p *pool, c *class, r *ingest.Request, t *moments, call, first bool) {
	turn := call && first
	id := r.Session ^ p.seed
	s := a.sessions.find(id)
	if c.sessions == nil {
		c.sessions = new(sessionAccount)
	}
	if s == nil {
		var evicted bool
		if s, evicted = a.sessions.add(id); evicted {
			a.counters.SessionsEvicted++
		}
		s.first, s.last, s.newest, s.class, s.age = t.event, t.event, t.event, c, ageNew
		c.sessions.since.Started++
	} else {
		a.sessions.touch(s)
		if turn && t.event >= s.last {
			c.sessions.since.Gaps++
			c.sessions.since.Waited += int64(t.event - s.last)
		}
	}
	if call {
		c.sessions.since.Acts[s.age].count(s, r, turn)
	}
	if turn || s.turns == 0 {
		s.turns++
	}
	s.first = min(s.first, t.event)
	s.last = max(s.last, t.event, t.finished)
	if t.event < s.newest {
		return // of parallel turns, or ones that come late, the one that began last tells the context
	}
	s.class, s.newest = c, t.event
	if r.PromptTokens < 0 {
		return
	}
	s.context = tokens32(r.PromptTokens + max(r.OutputTokens, 0))
	if s.turns <= 1 {
		s.initial = s.context
	}
	if r.CachedTokens >= 0 {
		s.prompt, s.cached = tokens32(r.PromptTokens), tokens32(r.CachedTokens)
	}
}

func tokens32(n int64) uint32 { return uint32(min(n, math.MaxUint32)) }

// countSessions forgets the sessions that have been silent too long by the given instant, and adds up the others in
// their classes. O(sessions).
func (a *Aggregator) countSessions(now moment) {
	ttl := moment(a.cfg.SessionTTL)
	for pos := a.sessions.oldest; pos != 0; {
		s := &a.sessions.entries[pos]
		pos = s.newer
		n := &s.class.sessions.now
		if s.last < now-ttl {
			n.ended++
			if s.age != ageNew {
				n.over[s.age]++
			}
			a.sessions.remove(s)
			continue
		}
		s.age, s.woke = ageOf(now-s.last), false
		n.alive[s.age]++
		n.active++
		n.ageMillis += int64(max(now-s.first, 0) / 1e6)
		n.turns += int64(s.turns)
		n.context += int64(s.context)
		n.largest = max(n.largest, int64(s.context))
		n.prompt += int64(s.prompt)
		n.cached += int64(s.cached)
		if s.turns > 1 {
			n.later += int64(s.turns) - 1
			n.growth += int64(s.context) - int64(s.initial)
		}
	}
}

// sumUp brings the summary up to date and starts the counts anew.
func (a *sessionAccount) sumUp() {
	if a == nil {
		return
	}
	n := &a.now
	a.latest = Sessions{
		Active: int(n.active), Started: a.since.Started, Ended: int(n.ended),
		AgeMean: mean(float64(n.ageMillis)/1e3, n.active), TurnMean: mean(float64(n.turns), n.active),
		ContextSum: float64(n.context), ContextMax: float64(n.largest),
		CachedShare: mean(float64(n.cached), n.prompt),
		GrowthMean:  mean(float64(n.growth), n.later),
		GapMean:     mean(float64(a.since.Waited)/float64(second), int64(a.since.Gaps)),
		Begun:       a.since.Acts[ageNew],
	}
	for g := range a.latest.ByAge {
		a.latest.ByAge[g] = SessionAge{int(n.alive[g]), int(n.over[g]), a.since.Acts[g]}
	}
	a.now, a.since = sessionSums{}, SessionsSince{}
}

// summary is valid until sumUp; nil for a class that has no sessions and had none in the last minute.
func (a *sessionAccount) summary() *Sessions {
	if a == nil || a.latest.Active+a.latest.Started+a.latest.Ended == 0 {
		return nil
	}
	return &a.latest
}

// mean is NaN of nothing.
func mean(sum float64, n int64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// releaseSessions forgets those of classes that are forgotten.
func (a *Aggregator) releaseSessions() {
	for pos := a.sessions.oldest; pos != 0; {
		s := &a.sessions.entries[pos]
		if pos = s.newer; s.class.gone {
			a.sessions.remove(s)
		}
	}
}
