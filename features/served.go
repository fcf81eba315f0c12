package features

import (
	"math"

	"github.com/forewarm/forewarm/features/sketch"
)

// Served is how a pool served the attempts that arrived in one minute, those of all classes together.
type Served struct {
	TTFT sketch.Quantile `cbor:"1,keyasint,omitzero"` // s from arrival to the first token
	ITL  sketch.Quantile `cbor:"2,keyasint,omitzero"` // s from one output token to the next, mean of an attempt

	Prefills Prefills `cbor:"3,keyasint,omitzero"`
	// PromptSeconds are the token-seconds that prompts held from the start of service to the first token.
	PromptSeconds float64 `cbor:"4,keyasint,omitempty"`

	// DecodeSeconds are the seconds from first to last token, of attempts that generated Decoded of the Output tokens.
	DecodeSeconds float64 `cbor:"5,keyasint,omitempty"`
	Decoded       float64 `cbor:"6,keyasint,omitempty"`
	Output        float64 `cbor:"7,keyasint,omitempty"`
}

// add counts an attempt; life is known if timed.
func (s *Served) add(e *delta, l *life, timed bool) {
	if e.arrived != never && e.first >= e.arrived {
		s.TTFT.Add(e.arrived.secondsTo(e.first))
	}
	if steps := float64(e.output - 1); steps >= 1 && e.first != never && e.finished >= e.first {
		lasts := e.first.secondsTo(e.finished)
		s.ITL.Add(lasts / steps)
		s.DecodeSeconds += lasts
		s.Decoded += steps + 1
	}
	s.Output += float64(max(e.output, 0))
	from := e.started
	if from == never {
		from = e.arrived
	}
	if e.prompt >= 0 && from != never && e.first >= from {
		s.Prefills.Add(e.uncached(), from.secondsTo(e.first))
	}
	if timed {
		s.PromptSeconds += l.prompt * l.first
	}
}

// MeanITL is the mean seconds from one output token to the next; NaN if less than 90 % of the tokens have known times.
func (s *Served) MeanITL() float64 {
	if !(s.Decoded > 0.9*s.Output) {
		return math.NaN()
	}
	return s.DecodeSeconds / (s.Decoded - s.ITL.Count())
}

// Latency has 90th percentiles of the attempts that arrived in one minute; NaN without any.
type Latency struct {
	_ struct{} `cbor:",toarray"`

	Minute    int64   // since 1970
	Reports   float64 // number of values behind the percentiles
	TTFT, ITL float64 // time to the first token and time per output token, s
	Complete  bool    // nearly all attempts have ended and were reported: no more slow ones are to come
}

// completeShare is the share of reported attempts from which a Latency is complete.
const completeShare = 0.95

// latency has the percentiles of a minute.
func (a *Aggregator) latency(p *pool, minute int64) Latency {
	c := p.Coverage.at(minute)
	s, counted, expected := &c.Served, 0.0, 0.0
	for _, class := range p.classes {
		if now := class.Nowcasts.of(a.Open - minute); now != nil {
			counted, expected = counted+now[0].Counted, expected+now[0].Mean
		} else if w := class.Buckets.find(minute); w != nil {
			counted, expected = counted+w.Requests, expected+w.Requests
		}
	}
	return Latency{
		Minute: minute, Reports: s.TTFT.Count() + s.ITL.Count(), TTFT: s.TTFT.Quantile(.9), ITL: s.ITL.Quantile(.9),
		Complete: float64(c.Queue.Ended)*counted >= completeShare*float64(c.Queue.Attempts)*expected,
	}
}

// Prefills are sums over requests for a linear regression of prefill time on tokens: the slope is the rate, the
// intercept is the overhead.
type Prefills struct {
	N            float64 // requests with known prompt and time to the first token
	Tokens       float64 // Σ prompt tokens that were not cached
	Seconds      float64 // Σ time to the first token, from leaving the queue where that is known
	TokensSq     float64 // Σ tokens²
	TokenSeconds float64 // Σ tokens·seconds
}

// Add counts one request.
func (p *Prefills) Add(tokens, seconds float64) {
	p.Merge(Prefills{1, tokens, seconds, tokens * tokens, tokens * seconds})
}

// Merge adds o to p.
func (p *Prefills) Merge(o Prefills) {
	p.N, p.Tokens, p.Seconds = p.N+o.N, p.Tokens+o.Tokens, p.Seconds+o.Seconds
	p.TokensSq, p.TokenSeconds = p.TokensSq+o.TokensSq, p.TokenSeconds+o.TokenSeconds
}
