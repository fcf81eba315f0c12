package capacity

import "fmt"

// disagreement between what was observed and what was given or stated, as a share of the latter, from which the lower is
// believed.
const disagreement = 0.15

// Trusted are the rates that a decision goes by, and what speaks against them.
type Trusted struct {
	Rates           Rates
	Prefill, Decode Basis
	Warnings        []string
}

// Basis is where one rate comes from.
type Basis struct {
	Source       Source
	Learned      Estimate // zero when nothing was learned
	Disagrees    bool     // by more than 15 %: the lower is used
	Extrapolated bool
}

// Trust chooses between what is known of a replica: given by a benchmark, else learned, else stated. Where what was learned
// differs from what is given or stated by more than 15 %, it is careful: the lower of the two, and a warning. A learned rate
// whose knee was never near counts with its lower bound, and replaces no other but by being lower. It is not cut down to
// the loads that were seen: then more replicas would carry less each, be believed to carry less, and be more again. kvTokens are those of a
// replica.
func (p *Pool) Trust(s *Service, kvTokens float64) Trusted {
	t := Trusted{Rates: p.Rates}
	if kvTokens <= 0 {
		kvTokens = p.KVTokens
	}
	prefill, prefillKnown := s.Prefill(p.SLO.TTFT.Seconds())
	decode, decodeKnown := s.Decode(p.Rates.MaxNumSeqs, kvTokens*p.KVTarget, p.SLO.ITL.Seconds())
	used, basis, warning := p.choose(Prefill, p.Rates.PrefillTokensPerS, prefill, prefillKnown)
	t.Rates.PrefillTokensPerS, t.Prefill = used, basis
	if warning != "" {
		t.Warnings = append(t.Warnings, warning)
	}
	stated := p.Rates.Decode()
	used, basis, warning = p.choose(Decode, stated, decode, decodeKnown)
	if used != stated {
		t.Rates.DecodeTokensPerS, t.Rates.Bound = used, true
	}
	t.Decode = basis
	if warning != "" {
		t.Warnings = append(t.Warnings, warning)
	}
	t.Rates.Extrapolated = t.Prefill.Extrapolated || t.Decode.Extrapolated
	if t.Prefill.Source == Learned || t.Decode.Source == Learned {
		t.Rates.Source = Learned
	}
	return t
}

func (p *Pool) choose(name string, modelled float64, learned Estimate, known bool) (rate float64, b Basis, warning string) {
	b = Basis{Source: p.Rates.Source, Extrapolated: p.Rates.Extrapolated}
	if !known {
		return modelled, b, ""
	}
	b.Learned = learned
	value := learned.Value
	if learned.Extrapolated {
		value = learned.Low
	}
	if modelled <= 0 {
		b.Source, b.Extrapolated = Learned, learned.Extrapolated
		if learned.Extrapolated {
			warning = fmt.Sprintf("the %s rate of a replica, %.0f tokens/s, is extrapolated: it was never that busy", name, value)
		}
		return value, b, warning
	}
	// What was learned counts where it is sure: its whole interval differs, and was seen.
	differs := value/modelled - 1
	if learned.Extrapolated && value > modelled {
		return modelled, b, ""
	}
	b.Disagrees = differs > disagreement || differs < -disagreement && learned.High < modelled*(1-disagreement/2)
	if b.Disagrees {
		warning = fmt.Sprintf("a replica's %s rate is %.0f tokens/s as observed and %.0f as %s: the lower is used", name, value, modelled, p.Rates.Source)
		if value < modelled {
			b.Source, b.Extrapolated = Learned, learned.Extrapolated
		}
		return min(value, modelled), b, warning
	}
	if p.Rates.Source == Given || learned.Extrapolated {
		return modelled, b, ""
	}
	b.Source, b.Extrapolated = Learned, false
	return value, b, ""
}
