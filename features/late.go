package features

import "github.com/forewarm/forewarm/ingest"

// Late sums the records that came after their minutes had settled. The windows of those minutes do not change. Windows
// and Late of a class together count each token once.
type Late struct {
	Records  float64 `cbor:"1,keyasint,omitempty"` // refused
	Requests float64 `cbor:"2,keyasint,omitempty"` // calls, as in Window
	// Tokens of calls. OutputTokens were generated in settled minutes. KVTokenSeconds is the area held in them, also by
	// requests that are counted, if their ends were reported too late.
	PromptTokens   float64 `cbor:"3,keyasint,omitempty"`
	CachedTokens   float64 `cbor:"4,keyasint,omitempty"`
	OutputTokens   float64 `cbor:"5,keyasint,omitempty"`
	KVTokenSeconds float64 `cbor:"6,keyasint,omitempty"`
}

// addLate adds a record of a request that is refused as late; seen is its arrival, if that was counted. What the
// request held and generated in open minutes is counted there.
func (a *Aggregator) addLate(r *ingest.Request, t *requestTimes, seen *arrival, hash uint64, call bool) {
	p := a.pool(r.Pool)
	name := r.Class
	if seen != nil {
		name = seen.Class
	}
	c := a.class(p, name, a.oldest())
	entry := arrival{Hash: hash, Minute: t.event.minute(), Class: c.Name}
	if seen != nil {
		entry = *seen
	}
	var e delta
	e.read(r, t)
	cached := e.cached >= 0 && !e.neverServed()
	c.Late.Records++
	if call {
		if seen == nil {
			c.Late.Requests++
		}
		if !entry.Prompt {
			c.Late.PromptTokens += float64(max(r.PromptTokens, 0))
		}
		if !entry.Cached && cached {
			c.Late.CachedTokens += float64(min(r.CachedTokens, max(r.PromptTokens, 0)))
		}
	}
	if r.Phase == ingest.PhaseArrived {
		p.Phased = true
	} else {
		entry.Ended = true
		if e.output >= 0 && !e.neverServed() {
			a.serveLate(p, c, &e, call)
		}
	}
	entry.Prompt, entry.Cached = entry.Prompt || r.PromptTokens >= 0, entry.Cached || cached
	if seen != nil {
		*seen = entry
	} else if p.Phased && r.ID != "" && a.arrivals.add(entry) {
		a.counters.ArrivalsEvicted++
	}
}

// serveLate counts the service of a request in open minutes, and adds the rest to Late.
func (a *Aggregator) serveLate(p *pool, c *class, e *delta, call bool) {
	l, timed := e.life(p.service)
	to := served
	if !call {
		to = retried
	}
	late := float64(e.output)
	if timed {
		if e.prompt >= 0 {
			a.occupy(c, &l, to)
		}
		if e.first != never {
			late = l.generated(l.secondsAt(a.oldest()))
			a.generateFrom(c, &l, max(l.decodes(), a.oldest()), late, to)
		}
	}
	if call {
		c.Late.OutputTokens += late
	}
}

// addLateSum adds a sum that is refused as late.
func (a *Aggregator) addLateSum(s *ingest.Sum) {
	late := &a.class(a.pool(s.Pool), s.Class, a.oldest()).Late
	late.Records++
	for _, x := range [...]struct {
		to *float64
		n  float64
	}{
		{&late.Requests, s.Requests}, {&late.PromptTokens, s.PromptTokens},
		{&late.CachedTokens, min(s.CachedTokens, s.PromptTokens)}, {&late.OutputTokens, s.OutputTokens},
	} {
		if x.n >= 0 {
			*x.to += x.n
		}
	}
}
