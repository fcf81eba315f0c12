package capacity

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// truth is a replica whose law is known.
type truth struct {
	a0, perSequence, perThousand float64 // s
	prefill                      float64 // tokens/s
	context                      float64
}

func (x truth) itl(b, kv float64) float64 { return x.a0 + x.perSequence*b + x.perThousand*kv/1000 }

// minutes of load that comes and goes, with noise, of which a share is far off.
func (x truth) minutes(n int, most, noise, outliers float64) []ServiceMinute {
	rng := rand.New(rand.NewPCG(1, 2))
	var out []ServiceMinute
	for i := range n {
		b := most * (.3 + .7*math.Abs(math.Sin(float64(i)/97))) * (1 + .05*rng.NormFloat64())
		kv := b * x.context * (1 + .15*rng.NormFloat64())
		load := x.prefill * (.2 + .4*rng.Float64())
		fresh := 1200 * math.Exp(.2*rng.NormFloat64())
		m := ServiceMinute{
			Decoding: b, KV: kv, ITL: x.itl(b, kv) * (1 + noise*rng.NormFloat64()),
			Fresh: fresh, PrefillTime: fresh / (x.prefill - load) * (1 + noise*rng.NormFloat64()), Prefill: load, Requests: 30,
		}
		if rng.Float64() < outliers {
			m.ITL *= 8
			m.PrefillTime /= 6
		}
		out = append(out, m)
	}
	return out
}

var sample = truth{a0: .014, perSequence: 150e-6, perThousand: 30e-6, prefill: 7000, context: 1800}

// goodput by trying every batch.
func (x truth) goodput(slots int, kvTokens, objective float64) float64 {
	best := 0.0
	for b := 1.0; b <= float64(slots) && b*x.context <= kvTokens && x.itl(b, b*x.context) <= objective; b++ {
		best = max(best, b/x.itl(b, b*x.context))
	}
	return best
}

func taught(minutes []ServiceMinute) (s Service) {
	for _, m := range minutes {
		s.Observe(m)
	}
	return s
}

// TestLearnedGoodput: whatever binds, the goodput is within 3 % of the truth and inside its interval, with one minute in
// twenty far off, too.
func TestLearnedGoodput(t *testing.T) {
	for _, outliers := range []float64{0, .05} {
		s := taught(sample.minutes(1500, 45, .03, outliers))
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
		if e, ok := s.Prefill(0); !ok || !near(e.Value, .7*sample.prefill, .04) || !(e.Low < e.Value && e.Value < e.High) {
			t.Errorf("%.0f %% outliers: prefill %+v, %t; want %.0f", 100*outliers, e, ok, .7*sample.prefill)
		}
		if e, ok := s.Prefill(.25); !ok || !near(e.Value, sample.prefill-1224/.25, .15) {
			t.Errorf("first token within 250 ms: %+v, %t; want %.0f", e, ok, sample.prefill-1224/.25)
		}
	}
}

// TestLearnedBeyondSight: a knee at four times the load that was ever seen says so.
func TestLearnedBeyondSight(t *testing.T) {
	s := taught(sample.minutes(600, 10, .02, 0))
	e, ok := s.Decode(256, 1e9, .024)
	if want := sample.goodput(256, 1e9, .024); !ok || !e.Extrapolated || !near(e.Value, want, .15) || e.Low > want {
		t.Errorf("%+v, %t; the truth is %.0f", e, ok, want)
	}
}

// TestLearnsAnew: when replicas become a third slower, half a day later the goodput is that of the slower ones.
func TestLearnsAnew(t *testing.T) {
	slow := sample
	slow.perSequence, slow.perThousand, slow.a0, slow.prefill = 1.5*slow.perSequence, 1.5*slow.perThousand, 1.3*slow.a0, .6*slow.prefill
	s := taught(append(sample.minutes(1000, 45, .02, 0), slow.minutes(2880, 45, .02, 0)...))
	if e, ok := s.Decode(256, 1e9, .03); !ok || !near(e.Value, slow.goodput(256, 1e9, .03), .1) {
		t.Errorf("%+v, want %.0f", e, slow.goodput(256, 1e9, .03))
	}
	if e, ok := s.Prefill(0); !ok || !near(e.Value, .7*slow.prefill, .15) {
		t.Errorf("%+v, want %.0f", e, .7*slow.prefill)
	}
}

// TestLearnsNothingOfNothing: nonsense and short histories say nothing.
func TestLearnsNothingOfNothing(t *testing.T) {
	s := taught(sample.minutes(30, 45, 0, 0))
	nan := math.NaN()
	for _, m := range []ServiceMinute{{}, {nan, nan, nan, nan, nan, nan, nan, nan, nan}, {Decoding: 1, KV: math.Inf(1), ITL: 1}, {Fresh: 1, Prefill: -1, PrefillTime: 1, Requests: 9}, {Fresh: 100, PrefillTime: 0, Requests: 9}} {
		before := s
		s.Observe(m)
		if s != before {
			t.Errorf("%+v taught something", m)
		}
	}
	if _, ok := s.Decode(256, 1e9, .03); ok {
		t.Error("half an hour is enough to know decode")
	}
	if _, ok := s.Prefill(0); ok {
		t.Error("half an hour is enough to know prefill")
	}
	var other Service
	other.Restore(s.State())
	if other != s {
		t.Error("a snapshot loses something")
	}
}

// TestLearnsTheRouter: eight replicas behind routers from one that spreads prompts blindly (0) to one to the least busy (1).
func TestLearnsTheRouter(t *testing.T) {
	for _, theta := range []float64{0, .1, .2, 1. / 3, .5, .7, .9, 1} {
		for _, x := range []struct{ noise, within float64 }{{.03, .06}, {.1, .1}} {
			for seed := range uint64(5) {
				rng := rand.New(rand.NewPCG(seed, 4))
				var s Service
				for range 600 {
					m := ServiceMinute{Fresh: 1200, Prefill: 7000 * (.2 + .5*rng.Float64()), Requests: 30, Replicas: 8}
					rho := m.Prefill / 7000
					wait := math.Pow(rho/(1-rho), 1-theta) * math.Pow(erlangWait(8, rho), theta)
					m.PrefillTime = m.Fresh / 7000 * (1 + wait) * (1 + x.noise*rng.NormFloat64())
					s.Observe(m)
				}
				if e, ok := s.Prefill(0); !ok || !near(e.Value, .7*7000, x.within) {
					t.Errorf("router %.2f, noise %g, seed %d: %+v, %t; want %.0f", theta, x.noise, seed, e, ok, .7*7000)
				}
			}
		}
	}
}

// TestErlangWait holds the wait against published values: C(2, 1) = 1/3 and C(5, 4) = 0.5541 (Erlang's tables).
func TestErlangWait(t *testing.T) {
	for _, x := range []struct {
		c         int
		rho, want float64
	}{{1, .5, 1}, {1, .9, 9}, {2, .5, 1. / 3 / (2 * .5)}, {5, .8, .5541 / (5 * .2)}, {3, 0, 0}} {
		if got := erlangWait(x.c, x.rho); math.Abs(got-x.want) > 1e-4 {
			t.Errorf("%d servers at %g: %g, want %g", x.c, x.rho, got, x.want)
		}
	}
	m := ServiceMinute{Fresh: 1000, Prefill: 3000, Replicas: 1}
	m.PrefillTime = 1000. / (7000 - 3000)
	for _, theta := range routers {
		if got := prefillRate(m, theta); !near(got, 7000, 1e-3) {
			t.Errorf("rate %g, want 7000", got)
		}
	}
}

// TestTrust: given before learned before stated, and the lower with a warning where they differ by more than 15 %.
func TestTrust(t *testing.T) {
	s := taught(sample.minutes(1500, 45, .02, 0))
	var none Service
	decode, prefill := sample.goodput(256, 1e9, .024), .7*sample.prefill
	for _, tt := range []struct {
		name            string
		source          Source
		decode, prefill float64 // of the pool
		service         *Service
		wantDecode      float64
		wantFrom        Source
		warn            int
	}{
		{"nothing learned", Stated, 900, 5000, &none, 900, Stated, 0},
		{"nothing stated", Stated, 0, 0, &s, decode, Learned, 0},
		{"stated about right", Stated, 1.05 * decode, 1.05 * prefill, &s, decode, Learned, 0},
		{"given about right", Given, 1.05 * decode, 1.05 * prefill, &s, 1.05 * decode, Given, 0},
		{"given too high", Given, 2 * decode, prefill, &s, decode, Learned, 1},
		{"stated too low", Stated, .5 * decode, .5 * prefill, &s, .5 * decode, Stated, 2},
	} {
		p := Pool{KVTokens: 1e9, KVTarget: .85, SLO: SLO{ITL: 24 * time.Millisecond}, Rates: Rates{PrefillTokensPerS: tt.prefill, DecodeTokensPerS: tt.decode, Bound: true, ITL: 24 * time.Millisecond, Source: tt.source}}
		got := p.Trust(tt.service, 0)
		if !near(got.Rates.Decode(), tt.wantDecode, .04) || got.Decode.Source != tt.wantFrom || len(got.Warnings) != tt.warn {
			t.Errorf("%s: %.0f tokens/s as %s, %q; want %.0f as %s and %d warnings", tt.name, got.Rates.Decode(), got.Decode.Source, got.Warnings, tt.wantDecode, tt.wantFrom, tt.warn)
		}
		for _, w := range got.Warnings {
			if !strings.Contains(w, "the lower is used") {
				t.Errorf("%s: %s", tt.name, w)
			}
		}
	}
}
