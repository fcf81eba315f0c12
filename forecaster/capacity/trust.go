package capacity

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// contradiction is how far what was observed may differ from what was given or stated, as a share of the latter, before it
	// decides anything by itself; calm is the difference below which a contradiction is over.
	contradiction = 0.25
	calm          = 0.2
	// notice is how long people are told of a contradiction before the lower of the two rates is used.
	notice = 24 * time.Hour
)

// Trusted are the rates that a decision goes by, and what speaks against them.
type Trusted struct {
	Rates           Rates
	Prefill, Decode Basis
	Warnings        []string
	Contradictions  []Contradiction
}

// Basis is where one rate comes from.
type Basis struct {
	Source       Source
	Learned      Estimate // zero when nothing was learned
	Disagrees    bool     // by more than 25 %, see Contradiction
	Extrapolated bool
	Note         string // why nothing was learned, although there was traffic, or that Learned is extrapolated; else ""
}

// Contradiction is a rate of a replica that was observed to be far from what it was given or stated to be.
type Contradiction struct {
	_ struct{} `cbor:",toarray"`

	Dimension string    `json:"resource"`
	Source    Source    `json:"source"` // of Stated
	Stated    float64   `json:"stated"`
	Learned   float64   `json:"learned"`
	Low       float64   `json:"low"` // Learned is between these with a probability of 90 %
	High      float64   `json:"high"`
	Since     time.Time `json:"since"`
	From      time.Time `json:"from,omitzero"` // when the learned rate decides; zero where it does not
}

// String is what Words says, for the log.
func (c Contradiction) String() string {
	said, mend := c.Words()
	return said + " " + mend
}

// Words are the contradiction with its evidence and what happens, and what to do, for people.
func (c Contradiction) Words() (said, mend string) {
	key, then := c.Dimension+"_tokens_per_s", "The "+string(c.Source)+" one is used, for it is lower"
	switch {
	case c.Dimension == KV:
		return fmt.Sprintf("Engines report %s tokens of KV cache a replica, and the pool's configuration comes to %s. The reported ones are used.", about(c.Learned), about(c.Stated)),
			"Correct kv_capacity_tokens, or the model and GPU."
	case !c.From.IsZero() && c.From.Equal(c.Since):
		then = "The observed one is used, as rates: learned says"
	case !c.From.IsZero():
		then = "From " + c.From.UTC().Format("2006-01-02 15:04 UTC") + " on the observed one decides; until then the " + string(c.Source) + " one does"
	case c.Learned < c.Stated:
		then = "The " + string(c.Source) + " one is used, as rates: stated says"
	}
	if c.Source == Given {
		key = "curve_file"
	}
	return fmt.Sprintf("A replica's %s rate is %s tokens/s as observed (%s to %s) and %s as %s. %s.",
		c.Dimension, about(c.Learned), about(c.Low), about(c.High), about(c.Stated), c.Source, then), "Correct " + key + ", or set rates to learned or stated."
}

// about is a number in three digits, so that a text does not change with each minute.
func about(v float64) string {
	digit := math.Pow10(max(int(math.Log10(max(v, 1)))-2, 0))
	return fmt.Sprintf("%.0f", math.Round(v/digit)*digit)
}

// Trust chooses between what is known of a replica: given by a benchmark, else learned, else stated. Where what was learned is
// further than 25 % from what is given or stated, people are told for a day before the lower of the two is used; Pool.RatesFrom
// decides it at once. A learned rate that is extrapolated replaces no other but by being lower. It is not cut down to the loads
// that were seen: then more replicas would carry less each, be believed to carry less, and be more again. kvTokens are those of a replica as engines report them, 0 when they do not. s keeps since when rates
// contradict each other.
func (p *Pool) Trust(s *Service, kvTokens float64, now time.Time) Trusted {
	t := Trusted{Rates: p.Rates}
	if kvTokens > 0 && p.KVTokens > 0 && math.Abs(kvTokens/p.KVTokens-1) > contradiction {
		since := s.contradicted(KV, true, now)
		t.Contradictions = append(t.Contradictions, Contradiction{Dimension: KV, Source: Stated, Stated: p.KVTokens, Learned: kvTokens, Low: kvTokens, High: kvTokens, Since: since, From: since})
	} else {
		s.contradicted(KV, false, now)
	}
	if kvTokens <= 0 {
		kvTokens = p.KVTokens
	}
	prefill, known := s.Prefill()
	if p.Rates.Sustained { // what a replica sustains is compared with what it sustained
		prefill.Value, prefill.Low, prefill.High = p.PrefillTarget*prefill.Value, p.PrefillTarget*prefill.Low, p.PrefillTarget*prefill.High
	}
	used := p.choose(&t, &t.Prefill, s, Prefill, p.Rates.PrefillTokensPerS, prefill, known, now)
	t.Rates.PrefillTokensPerS = used
	if !known && s.state.Prompts >= enough {
		t.Prefill.Note = "not known: prompts are too alike in length, or loads in height, to tell the rate from overheads and queues"
	}
	decode, known := s.Decode(p.Rates.MaxNumSeqs, kvTokens*p.KVTarget, p.SLO.ITL.Seconds())
	stated := p.Rates.Decode()
	if used := p.choose(&t, &t.Decode, s, Decode, stated, decode, known, now); used != stated {
		t.Rates.DecodeTokensPerS, t.Rates.Bound = used, true
	}
	for _, c := range t.Contradictions {
		t.Warnings = append(t.Warnings, c.String())
	}
	t.Rates.Extrapolated = t.Prefill.Extrapolated || t.Decode.Extrapolated
	if t.Prefill.Source == Learned || t.Decode.Source == Learned {
		t.Rates.Source = Learned
	}
	return t
}

// choose fills in the basis of one rate, and says what it is.
func (p *Pool) choose(t *Trusted, b *Basis, s *Service, name string, modelled float64, learned Estimate, known bool, now time.Time) (rate float64) {
	*b = Basis{Source: p.Rates.Source, Extrapolated: p.Rates.Extrapolated}
	if !known {
		return modelled // a contradiction goes on until what is learned says otherwise
	}
	b.Learned = learned
	value := learned.Value
	if learned.Extrapolated {
		b.Note = "extrapolated: no load was seen yet that is near the most a replica can take"
	}
	if modelled <= 0 {
		b.Source, b.Extrapolated = Learned, learned.Extrapolated
		if learned.Extrapolated {
			t.Warnings = append(t.Warnings, fmt.Sprintf("the %s rate of a replica, %.0f tokens/s (%s to %s), is extrapolated: it was never that busy", name, value, about(learned.Low), about(learned.High)))
		}
		return value
	}
	if learned.Extrapolated && value > modelled {
		return modelled
	}
	// What was learned counts where it is sure: its whole interval differs.
	limit := contradiction
	if s.state.Contradicted[slices.Index(contradictable[:], name)] != 0 {
		limit = calm
	}
	differs := value/modelled - 1
	b.Disagrees = differs > limit || differs < -limit && learned.High < modelled*(1-limit/2)
	since := s.contradicted(name, b.Disagrees, now)
	use := p.RatesFrom != Stated && p.Rates.Source != Given && !learned.Extrapolated
	if b.Disagrees {
		c := Contradiction{Dimension: name, Source: p.Rates.Source, Stated: modelled, Learned: value, Low: learned.Low, High: learned.High, Since: since}
		switch {
		case p.RatesFrom == Learned:
			c.From = since
		case p.RatesFrom == "" && value < modelled:
			c.From = since.Add(notice)
		}
		t.Contradictions = append(t.Contradictions, c)
		use = !c.From.IsZero() && !now.Before(c.From)
	}
	if !use {
		return modelled
	}
	b.Source, b.Extrapolated = Learned, learned.Extrapolated
	return value
}

// contradicted is since when a rate has been contradicted, where it is.
func (s *Service) contradicted(name string, is bool, now time.Time) time.Time {
	since := &s.state.Contradicted[slices.Index(contradictable[:], name)]
	if !is {
		*since = 0
	} else if *since == 0 {
		*since = now.Unix()
	}
	return time.Unix(*since, 0).UTC()
}

// contradictable are the resources by their place in ServiceState.Contradicted.
var contradictable = [...]string{KV, Prefill, Decode}
