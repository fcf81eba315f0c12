package backtest

import "math"

// cacheBlock is the granularity of prefix caching in the workload, tokens.
const cacheBlock = 16

// maxSessions bounds the open sessions of a class.
const maxSessions = 256

// session is one conversation or agent run that may have another turn.
type session struct {
	id      uint64
	context int64   // tokens that the next turn repeats
	stretch float64 // context factor of the launch at its start
}

// sessions are a class's open sessions; beyond maxSessions a random one is replaced.
type sessions struct {
	open []session
	n    uint64
}

// shape draws the lengths of an arrival, which continues a session or begins one. With g = Turns the probability to
// continue is 1 − 1/g, so that sessions have g turns on average in the long run.
func (s *classStream) shape(a *Arrival) {
	c := &s.cfg
	stretch := s.ramp(s.at, s.launch.ContextFactor)
	fresh := int64(s.prompt() * stretch)
	a.OutputTokens = min(c.MaxOutput, 1+int64(s.rng.ExpFloat64()*c.OutputMean))

	live := &s.live
	i := -1
	if len(live.open) > 0 && s.rng.Float64() < 1-1/c.Turns {
		i = s.rng.IntN(len(live.open))
	}
	if i < 0 || live.open[i].context+fresh > c.Context {
		live.n++
		begun := session{id: s.number<<48 | live.n, context: int64(float64(c.Preamble) * stretch), stretch: stretch}
		switch {
		case i >= 0: // a session with a full context is replaced
			live.open[i] = begun
		case len(live.open) < s.openSessions():
			live.open = append(live.open, begun)
			i = len(live.open) - 1
		default:
			i = s.rng.IntN(len(live.open))
			live.open[i] = begun
		}
		a.CachedTokens = blocks(begun.context) // the preamble is cached
	} else if s.rng.Float64() < c.Hit {
		a.CachedTokens = blocks(live.open[i].context)
	} else {
		a.CachedTokens = blocks(int64(float64(c.Preamble) * live.open[i].stretch))
	}
	open := &live.open[i]
	a.PromptTokens = min(c.Context, open.context+max(1, fresh))
	a.CachedTokens = min(a.CachedTokens, a.PromptTokens-1)
	open.context = a.PromptTokens + a.OutputTokens
	a.Session = open.id
}

// openSessions returns the number of open sessions, in proportion to the rate: about four minutes of traffic.
func (s *classStream) openSessions() int {
	return min(maxSessions, max(4, int(s.rate*240/s.cfg.Turns)))
}

// prompt draws the added length of a turn: a lognormal body with a Pareto tail.
func (s *classStream) prompt() float64 {
	c := &s.cfg
	if s.rng.Float64() < c.TailShare {
		return min(float64(c.Context), c.TailFrom*math.Pow(1-s.rng.Float64(), -1/c.TailIndex))
	}
	return min(float64(c.Context), c.PromptMedian*math.Exp(c.PromptSigma*s.rng.NormFloat64()))
}

func blocks(tokens int64) int64 { return tokens / cacheBlock * cacheBlock }
