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

// addLate adds a record of a request that is refused as late. What the request held and generated in open minutes is
// counted there.
func (a *Aggregator) addLate(c *class, e *delta) {
	late := &c.Late
	late.Records++
	if e.call && e.arrives {
		late.Requests++
	}
	if e.call && e.prompts {
		late.PromptTokens += float64(e.prompt)
	}
	if !e.ends || e.neverServed() {
		return
	}
	if e.call && e.cached >= 0 {
		late.CachedTokens += float64(min(e.cached, max(e.prompt, 0)))
	}
	if e.output >= 0 {
		a.serveLate(c, e)
	}
}

// serveLate counts the service of a request in open minutes, and adds the rest to Late.
func (a *Aggregator) serveLate(c *class, e *delta) {
	l, timed := e.life(c.pool.service)
	to := served
	if !e.call {
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
	if e.call {
		c.Late.OutputTokens += late
	}
}

// addLateSum adds a sum that is refused as late.
func (a *Aggregator) addLateSum(s *ingest.Sum) {
	late := &a.class(a.pool(s.Pool), s.Class, a.oldest()).Late
	known := func(n float64) float64 {
		if n >= 0 {
			return n
		}
		return 0 // NaN
	}
	late.Records++
	late.Requests += known(s.Requests)
	late.PromptTokens += known(s.PromptTokens)
	late.CachedTokens += known(min(s.CachedTokens, s.PromptTokens))
	late.OutputTokens += known(s.OutputTokens)
}
