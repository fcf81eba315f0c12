package capacity

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/features"
)

// truth is a replica whose rates are known.
type truth struct {
	a0, perSequence, perThousand float64 // s
	bend, bends                  float64 // from bends sequences on, each takes 1 + bend times perSequence
	prefill                      float64 // tokens/s
	context                      float64
}

func (x truth) itl(b, kv float64) float64 {
	return x.a0 + x.perSequence*(b+x.bend*max(b-x.bends, 0)) + x.perThousand*kv/1000
}

// minutes of varying load, with noise. A share of them are outliers.
func (x truth) minutes(n int, most, noise, outliers float64) []ServiceMinute {
	rng := rand.New(rand.NewPCG(1, 2))
	var out []ServiceMinute
	for i := range n {
		b := most * (.3 + .7*math.Abs(math.Sin(float64(i)/97))) * (1 + .05*rng.NormFloat64())
		kv := b * x.context * (1 + .15*rng.NormFloat64())
		load := x.prefill * (.2 + .4*rng.Float64())
		m := ServiceMinute{Decoding: b, KV: kv, ITL: x.itl(b, kv) * (1 + noise*rng.NormFloat64()), Prefill: load}
		factor := 1 + noise*rng.NormFloat64()
		if rng.Float64() < outliers {
			m.ITL *= 8
			factor *= 6
		}
		for range 30 {
			tokens := 1200 * math.Exp(.5*rng.NormFloat64())
			m.Prompts.Add(tokens, .1+factor*tokens/(x.prefill-load))
		}
		out = append(out, m)
	}
	return out
}

var sample = truth{a0: .014, perSequence: 150e-6, perThousand: 30e-6, prefill: 7000, context: 1800}

// goodput tries every batch size.
func (x truth) goodput(slots int, kvTokens, objective float64) float64 {
	best := 0.0
	for b := 1.0; b <= float64(slots) && b*x.context <= kvTokens && x.itl(b, b*x.context) <= objective; b++ {
		best = max(best, b/x.itl(b, b*x.context))
	}
	return best
}

func observed(minutes []ServiceMinute) (s Service) {
	for _, m := range minutes {
		s.Observe(m)
	}
	return s
}

// TestLearnedGoodput: for each binding limit the goodput is within 3 % of the truth and inside its interval, also if
// one minute in twenty is an outlier. With outliers the prefill rate may be unknown, but not wrong.
func TestLearnedGoodput(t *testing.T) {
	for _, outliers := range []float64{0, .05} {
		s := observed(sample.minutes(1500, 45, .03, outliers))
		for _, tt := range []struct {
			name      string
			slots     int
			kvTokens  float64
			objective float64
		}{{"ITL", 256, 1e9, .024}, {"KV cache", 256, 80_000, 1}, {"slots", 40, 1e9, 1}} {
			want := sample.goodput(tt.slots, tt.kvTokens, tt.objective)
			e, ok := s.Decode(tt.slots, tt.kvTokens, tt.objective)
			if !ok || !near(e.Value, want, .03) || !(e.Low <= want*1.01 && e.High >= want*.99) || e.Extrapolated {
				t.Errorf("%.0f %% outliers, bound by %s: %+v, %t; want %.0f", 100*outliers, tt.name, e, ok, want)
			}
		}
		if e, ok := s.Prefill(); !ok && outliers > 0 {
			continue
		} else if !ok || !near(e.Value, sample.prefill, .04) || !(e.Low < e.Value && e.Value < e.High) {
			t.Errorf("%.0f %% outliers: prefill %+v, %t; want %.0f", 100*outliers, e, ok, sample.prefill)
		}
	}
}

// TestLearnedExtrapolated: a knee at four times the highest observed load is marked as extrapolated.
func TestLearnedExtrapolated(t *testing.T) {
	s := observed(sample.minutes(600, 10, .02, 0))
	e, ok := s.Decode(256, 1e9, .024)
	if want := sample.goodput(256, 1e9, .024); !ok || !e.Extrapolated || !near(e.Value, want, .15) || e.Low > want {
		t.Errorf("%+v, %t; want %.0f", e, ok, want)
	}
}

// TestLearnsChange: three days after replicas became slower, the goodput is that of the slower ones.
func TestLearnsChange(t *testing.T) {
	slow := sample
	slow.perSequence, slow.perThousand, slow.a0, slow.prefill = 1.5*slow.perSequence, 1.5*slow.perThousand, 1.3*slow.a0, .6*slow.prefill
	s := observed(append(sample.minutes(1000, 45, .02, 0), slow.minutes(4000, 45, .02, 0)...))
	if e, ok := s.Decode(256, 1e9, .03); !ok || !near(e.Value, slow.goodput(256, 1e9, .03), .1) {
		t.Errorf("%+v, want %.0f", e, slow.goodput(256, 1e9, .03))
	}
	if e, ok := s.Prefill(); !ok || !near(e.Value, slow.prefill, .15) {
		t.Errorf("%+v, want %.0f", e, slow.prefill)
	}
}

// TestLearnsFromValidMinutes: invalid minutes are ignored. After half an hour nothing is known yet.
func TestLearnsFromValidMinutes(t *testing.T) {
	s := observed(sample.minutes(30, 45, 0, 0))
	nan := math.NaN()
	for _, m := range []ServiceMinute{{}, {nan, nan, nan, nan, features.Prefills{N: nan, Tokens: nan, Seconds: nan, TokensSq: nan, TokenSeconds: nan}, nan, nan}, {Decoding: 1, KV: math.Inf(1), ITL: 1}, {Prompts: features.Prefills{N: 9, Tokens: 9, Seconds: 9, TokensSq: 12, TokenSeconds: 12}, Prefill: -1}, {Prompts: features.Prefills{N: 9, Tokens: 9}, Prefill: 1}} {
		before := s
		s.Observe(m)
		if s != before {
			t.Errorf("%+v was not ignored", m)
		}
	}
	if _, ok := s.Decode(256, 1e9, .03); ok {
		t.Error("decode is known after half an hour")
	}
	if _, ok := s.Prefill(); ok {
		t.Error("prefill is known after half an hour")
	}
	var other Service
	if data, err := cbor.Marshal(s); err != nil || cbor.Unmarshal(data, &other) != nil || other != s {
		t.Error("the restored state is another one")
	}
}

// TestPrefillOfEqualTimes: minutes in which prompts of all lengths take the same time, exactly or but for rounding, do
// not change what is learned at other loads. Without other loads nothing is learned.
func TestPrefillOfEqualTimes(t *testing.T) {
	for _, took := range []float64{.5, .7} {
		var constant []ServiceMinute
		rng := rand.New(rand.NewPCG(3, 4))
		for range 500 {
			m := ServiceMinute{Prefill: 200}
			for range 30 {
				m.Prompts.Add(math.Ceil(1000*rng.Float64()), took)
			}
			constant = append(constant, m)
		}
		s := observed(constant)
		if e, ok := s.Prefill(); ok {
			t.Errorf("%g s: learned %+v", took, e)
		}
		s = observed(append(constant, sample.minutes(1000, 45, .03, 0)...))
		if e, ok := s.Prefill(); !ok || !near(e.Value, sample.prefill, .04) {
			t.Errorf("%g s, then other loads: %+v, %t; want %.0f", took, e, ok, sample.prefill)
		}
	}
}

// TestPrefillOfExtremeMinutes: sums that overflow and slopes that are very unlike end without a rate.
func TestPrefillOfExtremeMinutes(t *testing.T) {
	for _, slopes := range [][2]float64{{1e-7, 1e3}, {1e100, 1e155}, {1e-3, -1e-3}} {
		var minutes []ServiceMinute
		for i := range 200 {
			m := ServiceMinute{Prefill: []float64{100, 2000}[i%2]}
			for n := range 30 {
				m.Prompts.Add(float64(n), 1+float64(n)*slopes[i%2])
			}
			minutes = append(minutes, m)
		}
		s := observed(minutes)
		if e, ok := s.Prefill(); ok {
			t.Errorf("slopes of %g: learned %+v", slopes, e)
		}
	}
}

// TestErlangWait compares the wait with published values: C(2, 1) = 1/3 and C(5, 4) = 0.5541 (Erlang's tables).
func TestErlangWait(t *testing.T) {
	for _, x := range []struct {
		c         int
		rho, want float64
	}{{1, .5, 1}, {1, .9, 9}, {2, .5, 1. / 3 / (2 * .5)}, {5, .8, .5541 / (5 * .2)}, {3, 0, 0}} {
		if got := erlangWait(x.c, x.rho); math.Abs(got-x.want) > 1e-4 {
			t.Errorf("%d servers at %g: %g, want %g", x.c, x.rho, got, x.want)
		}
	}
}

// TestTrust: given rates come before learned ones, and these before stated ones. If they differ by more than 25 %, the
// stated rate is used and users are warned for a day. Then the lower one is used. The pool's rates decide at once.
func TestTrust(t *testing.T) {
	learned := observed(sample.minutes(1500, 45, .02, 0))
	decode, prefill := sample.goodput(256, 1e9, .024), sample.prefill
	began := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name            string
		source, from    Source
		decode, prefill float64 // of the pool
		after           time.Duration
		wantDecode      float64
		wantFrom        Source
		warnings        int
		text            string
	}{
		{"nothing stated", Stated, "", 0, 0, 0, decode, Learned, 0, ""},
		{"stated about right", Stated, "", 1.05 * decode, 1.05 * prefill, 0, decode, Learned, 0, ""},
		{"stated about right, rates: stated", Stated, Stated, 1.05 * decode, 1.05 * prefill, 0, 1.05 * decode, Stated, 0, ""},
		{"given about right", Given, "", 1.05 * decode, 1.05 * prefill, 0, 1.05 * decode, Given, 0, ""},
		{"given too high", Given, "", 2 * decode, prefill, 0, 2 * decode, Given, 1, "From 2026-03-03 09:00 UTC on the observed one decides"},
		{"given too high for a day", Given, "", 2 * decode, prefill, notice, decode, Learned, 1, "Correct curve_file"},
		{"stated too high", Stated, "", 2 * decode, prefill, notice - time.Minute, 2 * decode, Stated, 1, "Correct decode_tokens_per_s"},
		{"stated too high, rates: learned", Stated, Learned, 2 * decode, prefill, 0, decode, Learned, 1, "as rates: learned says"},
		{"stated too high, rates: stated", Stated, Stated, 2 * decode, prefill, notice, 2 * decode, Stated, 1, "as rates: stated says"},
		{"stated too low", Stated, "", .5 * decode, .5 * prefill, notice, .5 * decode, Stated, 2, "is used, for it is lower"},
		{"stated too low, rates: learned", Stated, Learned, .5 * decode, .5 * prefill, 0, decode, Learned, 2, "as rates: learned says"},
	} {
		s := learned
		p := Pool{Config: Config{KVTarget: .85, PrefillTarget: .7, Rates: tt.from, SLO: SLO{ITL: 24 * time.Millisecond}}, KVTokens: 1e9, Rates: Rates{PrefillTokensPerS: tt.prefill, DecodeTokensPerS: tt.decode, Source: tt.source}}
		p.Trust(&s, 0, began)
		got := p.Trust(&s, 0, began.Add(tt.after))
		if !near(got.Rates.DecodeTokensPerS, tt.wantDecode, .04) || got.Decode.Source != tt.wantFrom || len(got.Warnings) != tt.warnings || len(got.Contradictions) != tt.warnings {
			t.Errorf("%s: %.0f tokens/s as %s, %q; want %.0f as %s and %d warnings", tt.name, got.Rates.DecodeTokensPerS, got.Decode.Source, got.Warnings, tt.wantDecode, tt.wantFrom, tt.warnings)
		}
		for _, w := range got.Warnings {
			if !strings.Contains(w, tt.text) {
				t.Errorf("%s: warning %q, want one with %q", tt.name, w, tt.text)
			}
		}
		if got := p.Trust(&s, 5e8, began); !strings.Contains(strings.Join(got.Warnings, " "), "Engines report 500M tokens") {
			t.Errorf("%s: engines report half of the KV cache, warnings %q", tt.name, got.Warnings)
		}
	}
	var none Service
	p := Pool{Rates: Rates{PrefillTokensPerS: 5000, DecodeTokensPerS: 900, Source: Stated}}
	if got := p.Trust(&none, 0, began); got.Rates != p.Rates || len(got.Warnings) != 0 {
		t.Errorf("nothing learned: %+v", got)
	}
	// From prompts of one length the rate cannot be learned, because the overhead is unknown. A note says so.
	for range 1500 {
		var m ServiceMinute
		for range 30 {
			m.Prompts.Add(300, .15+300./8000)
		}
		m.Prefill, m.Replicas = 1500, 1
		none.Observe(m)
	}
	if got := p.Trust(&none, 0, began); got.Rates.PrefillTokensPerS != 5000 || got.Prefill.Source != Stated || !strings.HasPrefix(got.Prefill.Note, "not known") {
		t.Errorf("prompts of one length: %+v", got.Prefill)
	}
}
