package model

import "math"

// SessionAges is the number of groups into which sessions fall by the whole minutes since their newest turn: 0, 1, 2–3,
// 4–7, 8–15, 16 and more.
const SessionAges = 6

// SessionLeads is how many minutes ahead [Sessions] looks.
const SessionLeads = 60

// sessionWidth is how many minutes a silent session stays in a group; in the last one until it ends.
var sessionWidth = [SessionAges]float64{1, 1, 2, 4, 8, math.Inf(1)}

// Before a class has shown its own, sessionHazard is the share of a group that takes a turn within the next minute, and
// sessionEnd of those that end; the belief is worth sessionPrior session-minutes, and after sessionEnough of them there
// is a forecast.
var (
	sessionHazard = [SessionAges]float64{.5, .25, .12, .06, .03, .01}
	sessionEnd    = [SessionAges]float64{5: .05}
)

const (
	sessionPrior  = 20
	sessionEnough = 100
)

// Memories, in minutes: of hazards and what a turn takes, of the rate at which sessions begin, of demand outside sessions,
// and of how long tokens are held. On the agentic trace, origins from 1/3 to 2/3, the loss changes by less than 0.3 % when
// they are halved or doubled.
const (
	sessionMemory = 5760
	beginMemory   = 240
	restMemory    = 60
	holdMemory    = 360
)

// The dimensions that [Sessions] forecasts, all per second but the last, which is of tokens held.
const (
	SessionRequests = iota
	SessionPrefill
	SessionDecode
	SessionKV
	SessionDimensions
)

// SessionActs are what sessions did in a minute: how many of them took turns, their turns, the tokens to prefill and of
// output of these.
type SessionActs struct {
	Woke    float64 `cbor:"1,keyasint"`
	Turns   float64 `cbor:"2,keyasint"`
	Prefill float64 `cbor:"3,keyasint"`
	Output  float64 `cbor:"4,keyasint"`
}

func (a *SessionActs) figures() [4]*float64 {
	return [...]*float64{&a.Woke, &a.Turns, &a.Prefill, &a.Output}
}

// SessionMinute is what a class's sessions are at the end of a minute and did in it. Acts and Ended are of those that had
// an age at the end of the minute before.
type SessionMinute struct {
	Alive, Ended [SessionAges]float64
	Acts         [SessionAges]SessionActs
	Begun        SessionActs                // of sessions that began in this minute
	Context      float64                    // tokens, over all alive
	Demand       [SessionDimensions]float64 // of the class, in sessions or not; NaN where it is not known
}

// Sessions forecasts the demand of a class from the conversations and agent runs that are alive: a discrete-time survival
// model (Allison 1982, doi:10.2307/270718) of the time to a session's next turn. The share of the sessions of an age that
// take a turn within a minute, the hazard, is learned with exponential forgetting and shrunk to a prior; what a turn takes
// is learned by age as well, for a prompt that comes late finds less in the cache. Minute by minute, those that took a turn
// become young again, others grow older or end, and new sessions begin at the rate of the last hours. How many turns a
// session has taken, and how fast, was tried as a second covariate and said no more than age does.
//
// It is of a class, not of a series: see [Given]. Memory: 0.5 KiB; O(ages × leads) per minute.
type Sessions struct {
	Minute  int64                    `cbor:"1,keyasint"` // the newest one
	Alive   [SessionAges]float64     `cbor:"2,keyasint"`
	Context float64                  `cbor:"3,keyasint"` // tokens a session, as of the newest minute with any
	Exposed [SessionAges]float64     `cbor:"4,keyasint"` // session-minutes, fading
	Ended   [SessionAges]float64     `cbor:"5,keyasint"`
	Acts    [SessionAges]SessionActs `cbor:"6,keyasint"`
	Begun   SessionActs              `cbor:"7,keyasint"` // per minute
	Rest    [SessionKV]float64       `cbor:"8,keyasint"` // demand outside sessions, per minute
	Held    float64                  `cbor:"9,keyasint"` // KV tokens, and the context of the turns that hold them
	Holding float64                  `cbor:"10,keyasint"`
	Seen    float64                  `cbor:"11,keyasint"` // minutes
}

// Observe takes a minute. After minutes that were left out it does not know what became of the sessions before.
func (s *Sessions) Observe(minute int64, x *SessionMinute) {
	if s.Seen > 0 && minute == s.Minute+1 {
		s.learn(x)
	}
	s.Seen++
	average(&s.Begun.Woke, x.Begun.Woke, s.Seen, beginMemory)
	average(&s.Begun.Turns, x.Begun.Turns, s.Seen, beginMemory)
	average(&s.Begun.Prefill, x.Begun.Prefill, s.Seen, beginMemory)
	average(&s.Begun.Output, x.Begun.Output, s.Seen, beginMemory)
	turns, prefill, output := 0.0, x.Begun.Prefill, x.Begun.Output
	for g := range x.Acts {
		turns += x.Acts[g].Turns
		prefill += x.Acts[g].Prefill
		output += x.Acts[g].Output
	}
	for d, acted := range [SessionKV]float64{turns + x.Begun.Turns, prefill, output} {
		if y := x.Demand[d]; !math.IsNaN(y) {
			average(&s.Rest[d], 60*y-acted, s.Seen, restMemory)
		}
	}
	if y := x.Demand[SessionKV]; !math.IsNaN(y) {
		average(&s.Held, y, s.Seen, holdMemory)
		average(&s.Holding, turns*s.Context+x.Begun.Prefill+x.Begun.Output, s.Seen, holdMemory)
	}
	s.Minute, s.Alive = minute, x.Alive
	alive := 0.0
	for _, n := range x.Alive {
		alive += n
	}
	if alive > 0 {
		s.Context = x.Context / alive
	}
}

// learn takes what became of the sessions that were alive at the end of the minute before.
func (s *Sessions) learn(x *SessionMinute) {
	const keep = 1 - 1.0/sessionMemory
	for g := range s.Alive {
		s.Exposed[g] = s.Exposed[g]*keep + s.Alive[g]
		s.Ended[g] = s.Ended[g]*keep + x.Ended[g]
		acts := x.Acts[g].figures()
		for i, v := range s.Acts[g].figures() {
			*v = *v*keep + *acts[i]
		}
	}
}

// average moves an exponentially weighted mean with a memory of so many minutes; seen counts y.
func average(mean *float64, y, seen, memory float64) { *mean += max(1/seen, 1/memory) * (y - *mean) }

// Ahead is the expected demand in each of the following minutes, by dimension; ok is false when there is too little to go
// by.
func (s *Sessions) Ahead() (at [SessionDimensions][SessionLeads]float64, ok bool) {
	var all SessionActs // over all ages, what turns of few examples are shrunk to
	exposed := 0.0
	for g := range s.Acts {
		exposed += s.Exposed[g]
		sums := all.figures()
		for i, v := range s.Acts[g].figures() {
			*sums[i] += *v
		}
	}
	if exposed < sessionEnough || all.Woke == 0 {
		return at, false
	}
	var hazard, end [SessionAges]float64
	var each [SessionAges]SessionActs // by a session that takes turns
	for g := range s.Acts {
		x := &s.Acts[g]
		hazard[g] = min(1, (x.Woke+sessionPrior*sessionHazard[g])/(s.Exposed[g]+sessionPrior))
		end[g] = min(1, (s.Ended[g]+sessionPrior*sessionEnd[g])/(max(0, s.Exposed[g]-x.Woke)+sessionPrior))
		pooled, own := all.figures(), x.figures()
		for i, v := range each[g].figures() {
			*v = (*own[i] + sessionPrior**pooled[i]/all.Woke) / (x.Woke + sessionPrior)
		}
	}
	hold := 0.0
	if s.Holding > 0 {
		hold = s.Held / s.Holding
	}
	alive := s.Alive
	for h := range SessionLeads {
		var next [SessionAges]float64
		var turns, prefill, output float64
		next[0] = s.Begun.Woke
		for g, n := range alive {
			woke := n * hazard[g]
			turns += woke * each[g].Turns
			prefill += woke * each[g].Prefill
			output += woke * each[g].Output
			next[0] += woke
			stay := (n - woke) * (1 - end[g])
			older := stay / sessionWidth[g]
			next[g] += stay - older
			if g+1 < SessionAges {
				next[g+1] += older
			}
		}
		alive = next
		at[SessionRequests][h] = max(0, turns+s.Begun.Turns+s.Rest[SessionRequests]) / 60
		at[SessionPrefill][h] = max(0, prefill+s.Begun.Prefill+s.Rest[SessionPrefill]) / 60
		at[SessionDecode][h] = max(0, output+s.Begun.Output+s.Rest[SessionDecode]) / 60
		at[SessionKV][h] = hold * (turns*s.Context + s.Begun.Prefill + s.Begun.Output)
	}
	return at, true
}

// Given is an expert that repeats what was said of its series' future by a model of more than one series. It sleeps when
// nothing was said from the newest minute. What was said is not part of its state: it must be told again after a restore.
type Given struct {
	stateless
	minute int64
	said   bool
	at     [SessionLeads]float32
}

// Tell says what is expected in the minutes that follow one.
func (g *Given) Tell(minute int64, at *[SessionLeads]float64) {
	g.minute, g.said = minute, true
	for h, y := range at {
		g.at[h] = float32(y)
	}
}

// Forecast repeats what was said.
func (g *Given) Forecast(h *History, lead int) float64 {
	if !g.said || h.Known == 0 || g.minute != h.Newest || lead > SessionLeads {
		return math.NaN()
	}
	return float64(g.at[lead-1])
}
