package backtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// counted returns the mean KV tokens held in each minute from start. It samples each request ten times a second.
func counted(rs []ingest.Request, start time.Time, minutes int) []float64 {
	const perSecond = 10
	step := time.Second / perSecond
	out := make([]float64, minutes)
	for i := range rs {
		r := &rs[i]
		decode := r.FinishedAt.Sub(r.FirstTokenAt).Seconds()
		for at := r.StartedAt.Truncate(step).Add(step / 2); at.Before(r.FinishedAt); at = at.Add(step) {
			m := int(at.Sub(start) / time.Minute)
			if at.Before(r.StartedAt) || m >= minutes {
				continue
			}
			held := float64(r.PromptTokens)
			if at.After(r.FirstTokenAt) {
				held += float64(r.OutputTokens) * at.Sub(r.FirstTokenAt).Seconds() / decode
			}
			out[m] += held / (60 * perSecond)
		}
	}
	return out
}

// fromMeans returns λ·(ISL + OSL/2)·latency of each minute, where each factor is the mean over the requests that
// arrived in the minute.
func fromMeans(rs []ingest.Request, start time.Time, minutes int) []float64 {
	type sums struct{ n, prompt, output, latency float64 }
	by := make([]sums, minutes)
	for i := range rs {
		if m := int(rs[i].ArrivedAt.Sub(start) / time.Minute); m < minutes {
			s := &by[m]
			s.n++
			s.prompt += float64(rs[i].PromptTokens)
			s.output += float64(rs[i].OutputTokens)
			s.latency += rs[i].FinishedAt.Sub(rs[i].StartedAt).Seconds()
		}
	}
	out := make([]float64, minutes)
	for m, s := range by {
		if s.n > 0 {
			out[m] = s.n / 60 * (s.prompt/s.n + s.output/s.n/2) * s.latency / s.n
		}
	}
	return out
}

// windowKV returns the KV occupancy of each minute from the windows, when each record comes at the time that due
// returns. late are the token-seconds of records that came after their minutes had settled.
func windowKV(t *testing.T, rs []ingest.Request, start time.Time, minutes int, revise time.Duration, due func(r *ingest.Request) time.Time) (kv []float64, late float64) {
	t.Helper()
	order := make([]int, len(rs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return due(&rs[i]).Compare(due(&rs[j])) })
	cfg := features.DefaultConfig()
	cfg.Revise = revise
	a := features.New(cfg)
	dimension, ok := features.DimensionByName(features.DimKV)
	if !ok {
		t.Fatal("no such dimension: ", features.DimKV)
	}
	kv = make([]float64, minutes)
	take := func(tick time.Time) {
		a.AddWatermark(&ingest.Watermark{Pool: DefaultPool, At: tick})
		windows, _ := a.Close(tick)
		for i := range windows {
			w := &windows[i]
			m := int(w.Start.Sub(start) / time.Minute)
			if !w.Settled || m < 0 || m >= minutes {
				continue
			}
			if v, ok := dimension.Value(w); ok {
				kv[m] += v
			}
		}
	}
	tick := start.Add(time.Minute)
	for _, i := range order {
		for ; !due(&rs[i]).Before(tick); tick = tick.Add(time.Minute) {
			take(tick)
		}
		late += heldBefore(&rs[i], tick.Add(-time.Minute-revise))
		if reason := a.AddAttempt(&rs[i], features.Earlier{}); reason != "" && reason != ingest.ReasonLate {
			t.Fatalf("a record was refused: %s", reason)
		}
	}
	for end := start.Add(time.Duration(minutes)*time.Minute + revise + 2*time.Minute); tick.Before(end); tick = tick.Add(time.Minute) {
		take(tick)
	}
	return kv, late
}

// heldBefore returns the KV token-seconds that a request held before t.
func heldBefore(r *ingest.Request, t time.Time) float64 {
	since := func(from time.Time) float64 { return min(max(t.Sub(from), 0), r.FinishedAt.Sub(from)).Seconds() }
	held := float64(r.PromptTokens) * since(r.StartedAt)
	if decoding := since(r.FirstTokenAt); decoding > 0 {
		held += float64(r.OutputTokens) * decoding * decoding / (2 * r.FinishedAt.Sub(r.FirstTokenAt).Seconds())
	}
	return held
}

// off returns Σ|a − b| / Σ b, and Σ a / Σ b.
func off(a, b []float64) (wape, ratio float64) {
	var diff, sumA, sumB float64
	for i := range b {
		diff += math.Abs(a[i] - b[i])
		sumA, sumB = sumA+a[i], sumB+b[i]
	}
	return diff / sumB, sumA / sumB
}

// mixed returns an hour of traffic of a shared pool: chat with short prompts and long answers, agents and summaries
// with long prompts and short answers.
func mixed() []ingest.Request {
	rng := rand.New(rand.NewPCG(3, 3))
	var out []ingest.Request
	for _, c := range []struct {
		name                      string
		perSecond, prompt, output float64
	}{{"chat", 3, 400, 700}, {"agent", 1.5, 30_000, 60}, {"summary", .2, 12_000, 400}} {
		for at := 0.0; ; {
			if at += rng.ExpFloat64() / c.perSecond; at >= 3600 {
				break
			}
			out = append(out, ingest.Request{
				Pool: DefaultPool, Class: c.name, Attempt: 1, ArrivedAt: DefaultStart.Add(time.Duration(at * 1e9)),
				PromptTokens: int64(c.prompt*math.Exp(.5*rng.NormFloat64())) + 1, OutputTokens: int64(c.output*rng.ExpFloat64()) + 1,
				CachedTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
			})
		}
	}
	slices.SortStableFunc(out, func(a, b ingest.Request) int { return a.ArrivedAt.Compare(b.ArrivedAt) })
	for i := range out {
		if out[i].Class == "agent" {
			out[i].CachedTokens = out[i].PromptTokens * 9 / 10
		}
	}
	return out
}

// TestOccupancyEqualsCounting: the KV occupancy of each minute is what sampling the requests gives, for each order of
// the records: by end, as engines write them; by end with delays of minutes; by arrival, as in traces. The formula from
// mean lengths is far off.
func TestOccupancyEqualsCounting(t *testing.T) {
	for _, tt := range []struct {
		name  string
		load  func(t *testing.T) []ingest.Request
		means float64 // the least factor by which the formula from means must be off in sum
	}{
		{"mixed traffic", func(*testing.T) []ingest.Request { return mixed() }, 1.8},
		{"mooncake", func(t *testing.T) []ingest.Request { return traceRequests(t, "mooncake_conversation_1h", 1) }, 1},
		{"agentic", func(t *testing.T) []ingest.Request { return traceRequests(t, "agentic_claude_7d", 1) }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rs := serviceModel{Wait: 300 * time.Millisecond, PrefillPS: 8000, ITL: 25 * time.Millisecond}.serve(tt.load(t), 1)
			minutes := int(rs[len(rs)-1].FinishedAt.Sub(DefaultStart)/time.Minute) + 1
			want := counted(rs, DefaultStart, minutes)
			if _, ratio := off(fromMeans(rs, DefaultStart, minutes), want); max(ratio, 1/ratio) < tt.means {
				t.Errorf("the formula from means gives %.2f of the tokens held: too close for this test", ratio)
			}
			rng := rand.New(rand.NewPCG(9, 9))
			delays := make(map[string]time.Duration, len(rs))
			for i := range rs {
				delays[rs[i].ID] = time.Duration(rng.Float64() * float64(5*time.Minute))
			}
			for order, due := range map[string]func(r *ingest.Request) time.Time{
				"by end":              func(r *ingest.Request) time.Time { return r.FinishedAt },
				"by end, and delayed": func(r *ingest.Request) time.Time { return r.FinishedAt.Add(delays[r.ID]) },
				"by arrival":          func(r *ingest.Request) time.Time { return r.ArrivedAt },
			} {
				for _, revise := range []time.Duration{20 * time.Minute, 10 * time.Minute, 2 * time.Minute} {
					got, late := windowKV(t, rs, DefaultStart, minutes, revise, due)
					wape, ratio := off(got, want)
					lost := late / 60 / floats.Sum(want)
					t.Logf("%s, revise %s: minutes are off by %.3f %%, the sum by %+.3f %%; %.3f %% came too late", order, revise, 100*wape, 100*(ratio-1), 100*lost)
					if complete := order == "by arrival" || revise >= 20*time.Minute; complete && wape > .01 {
						t.Errorf("%s, revise %s: minutes are off by %.2f %%", order, revise, 100*wape)
					}
					if math.Abs(ratio+lost-1) > .002 {
						t.Errorf("%s, revise %s: windows and late records are %.4f of the tokens held, want 1", order, revise, ratio+lost)
					}
				}
			}
		})
	}
}
