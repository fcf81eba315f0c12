package capacity

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/internal/value"
)

const (
	// contradiction is the difference between an observed and a given or stated rate, as a share of the latter, from
	// which they contradict each other; calm is the difference below which the contradiction ends.
	contradiction = 0.25
	calm          = 0.2
	// notice is how long users are warned of a contradiction before the lower rate is used.
	notice = 24 * time.Hour
)

// Source is the origin of service rates, in rising order of trust.
type Source string

// The sources of service rates.
const (
	Stated  Source = "stated"  // numbers in the configuration
	Learned Source = "learned" // regressed from telemetry
	Given   Source = "given"   // a benchmark's curve
)

// Rates are the service rates of one replica. Zero means unknown.
type Rates struct {
	PrefillTokensPerS float64 // uncached prompt tokens, by a replica that does only prefill
	DecodeTokensPerS  float64 // output tokens, within the latency objective
	Source            Source
	Extrapolated      bool // beyond the observed loads
}

// Trusted are the rates that decisions use, and their contradictions.
type Trusted struct {
	Rates           Rates
	Prefill, Decode Basis
	Warnings        []string
	Contradictions  []Contradiction
}

// Basis is the origin of one rate.
type Basis struct {
	Source  Source
	Learned Estimate // zero when nothing was learned
	Note    string   // why nothing was learned in spite of traffic, or that Learned is extrapolated; else ""
}

// Contradiction is a rate of a replica whose learned value is far from the given or stated one.
type Contradiction struct {
	_ struct{} `cbor:",toarray"`

	Dimension string    `json:"resource"`
	Source    Source    `json:"source"` // of the stated rate
	Stated    float64   `json:"stated"`
	Learned   float64   `json:"learned"`
	Low       float64   `json:"low"` // learned is between these with a probability of 90 %
	High      float64   `json:"high"`
	Since     time.Time `json:"since"`
	From      time.Time `json:"from,omitzero"` // when the learned rate takes effect; missing if it does not
}

// String is the text of Words, for the log.
func (c Contradiction) String() string {
	summary, fix := c.Words()
	return summary + " " + fix
}

// Words are texts for users: the contradiction with its evidence and effect, and what to do.
func (c Contradiction) Words() (summary, fix string) {
	stated, learned := value.Short(c.Stated), value.Short(c.Learned)
	if c.Dimension == KV {
		summary = fmt.Sprintf("Engines report %s tokens of KV cache a replica, and the pool's configuration comes to %s. The reported ones are used.", learned, stated)
		return summary, "Correct kv_capacity_tokens, or the model and GPU."
	}
	var effect string
	switch {
	case c.From.IsZero() && c.Learned < c.Stated:
		effect = "The " + string(c.Source) + " one is used, as rates: stated says"
	case c.From.IsZero():
		effect = "The " + string(c.Source) + " one is used, for it is lower"
	case c.From.Equal(c.Since):
		effect = "The observed one is used, as rates: learned says"
	default:
		effect = "From " + c.From.UTC().Format("2006-01-02 15:04 UTC") + " on the observed one decides; until then the " + string(c.Source) + " one does"
	}
	key := c.Dimension + "_tokens_per_s"
	if c.Source == Given {
		key = "curve_file"
	}
	summary = fmt.Sprintf("A replica's %s rate is %s tokens/s as observed (%s to %s) and %s as %s. %s.",
		c.Dimension, learned, value.Short(c.Low), value.Short(c.High), stated, c.Source, effect)
	return summary, "Correct " + key + ", or set rates to learned or stated."
}

// Trust chooses the rates of a replica: given by a benchmark, else learned, else stated. If a learned rate differs by
// more than 25 % from a given or stated one, users are warned for a day before the lower one is used; Config.Rates
// decides at once. An extrapolated learned rate replaces another only if it is lower. It is not limited to observed
// loads: more replicas have less load each, so their rate would fall and the pool would grow again. kvTokens is the
// cache of a replica that engines report, 0 when unknown. s stores the start of contradictions.
func (p *Pool) Trust(s *Service, kvTokens float64, now time.Time) Trusted {
	t := Trusted{Rates: p.Rates}
	differs := kvTokens > 0 && p.KVTokens > 0 && math.Abs(kvTokens/p.KVTokens-1) > contradiction
	if since := s.noteContradiction(KV, differs, now); differs {
		t.Contradictions = append(t.Contradictions, Contradiction{
			Dimension: KV, Source: Stated, Stated: p.KVTokens, Since: since, From: since,
			Learned: kvTokens, Low: kvTokens, High: kvTokens,
		})
	}
	if kvTokens <= 0 {
		kvTokens = p.KVTokens
	}
	learned, known := s.Prefill()
	t.Rates.PrefillTokensPerS, t.Prefill = p.choose(&t, s, Prefill, p.Rates.PrefillTokensPerS, learned, known, now)
	if !known && s.PrefillMinutes >= minMinutes {
		t.Prefill.Note = "not known: prompts are too alike in length, or loads in height, to separate the rate from overheads and queues"
	}
	learned, known = s.Decode(p.MaxNumSeqs, kvTokens*p.KVTarget, p.itlObjective().Seconds())
	t.Rates.DecodeTokensPerS, t.Decode = p.choose(&t, s, Decode, p.Rates.DecodeTokensPerS, learned, known, now)
	for _, c := range t.Contradictions {
		t.Warnings = append(t.Warnings, c.String())
	}
	for _, b := range []Basis{t.Prefill, t.Decode} {
		if b.Source == Learned {
			t.Rates.Source, t.Rates.Extrapolated = Learned, t.Rates.Extrapolated || b.Learned.Extrapolated
		}
	}
	return t
}

// choose chooses one rate. modelled is the given or stated one, 0 if there is none; learned counts if it is known. A
// contradiction and a warning are added to t.
func (p *Pool) choose(
	t *Trusted, s *Service, name string, modelled float64, learned Estimate, known bool, now time.Time,
) (rate float64, b Basis) {
	b.Source = p.Rates.Source
	if name == p.notGiven {
		b.Source = Stated
	}
	if !known {
		return modelled, b // a contradiction continues until there is a learned rate again
	}
	b.Learned = learned
	if learned.Extrapolated {
		b.Note = "extrapolated: no load was seen yet that is near the most a replica can take"
	}
	switch {
	case modelled <= 0:
		b.Source = Learned
		return learned.Value, b
	case learned.Extrapolated && learned.Value > modelled:
		return modelled, b
	}
	// The whole interval of the learned rate must differ.
	limit := contradiction
	if *s.contradicted(name) != 0 {
		limit = calm
	}
	differs := learned.Value/modelled - 1
	disagrees := differs > limit || differs < -limit && learned.High < modelled*(1-limit/2)
	since := s.noteContradiction(name, disagrees, now)
	use := p.Config.Rates != Stated && b.Source != Given && !learned.Extrapolated
	if disagrees {
		c := Contradiction{
			Dimension: name, Source: b.Source, Stated: modelled, Since: since,
			Learned: learned.Value, Low: learned.Low, High: learned.High,
		}
		switch {
		case p.Config.Rates == Learned:
			c.From = since
		case p.Config.Rates == "" && learned.Value < modelled:
			c.From = since.Add(notice)
		}
		t.Contradictions = append(t.Contradictions, c)
		use = !c.From.IsZero() && !now.Before(c.From)
	}
	if !use {
		return modelled, b
	}
	b.Source = Learned
	return learned.Value, b
}

// noteContradiction stores whether a rate is contradicted, and returns since when.
func (s *Service) noteContradiction(name string, is bool, now time.Time) time.Time {
	since := s.contradicted(name)
	if !is {
		*since = 0
	} else if *since == 0 {
		*since = now.Unix()
	}
	return time.Unix(*since, 0).UTC()
}

// contradictable are the resources in the order of Service.Contradicted.
var contradictable = [...]string{KV, Prefill, Decode}

func (s *Service) contradicted(name string) *int64 {
	return &s.Contradicted[slices.Index(contradictable[:], name)]
}
