package backtest

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// drawTimes gives requests a service: 60 ms and a prefill of 8000 uncached tokens a second with 20 % jitter, 25 ms an
// output token with 30 % jitter from request to request (lognormal), after an exponential wait of 0.3 s on average.
func drawTimes(rs []ingest.Request, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	span := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for i := range rs {
		r := &rs[i]
		r.StartedAt = r.ArrivedAt.Add(span(.3 * rng.ExpFloat64()))
		prefill := .06 + float64(r.PromptTokens-max(r.CachedTokens, 0))/8000
		r.FirstTokenAt = r.StartedAt.Add(span(prefill * math.Exp(.2*rng.NormFloat64())))
		r.FinishedAt = r.FirstTokenAt.Add(span(.025 * float64(r.OutputTokens) * math.Exp(.3*rng.NormFloat64())))
	}
}

// counted is the KV tokens held in each minute from start, by looking at each request ten times a second.
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

// fromMeans is λ·(ISL + OSL/2)·latency in each minute, each of them a mean over the requests that arrived in it.
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

// windowKV is the KV occupancy of each minute as the windows have it, of records that come in the given order: each
// when due says. Besides it gives the token-seconds that came too late: those of minutes that had settled.
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
	kv = make([]float64, minutes)
	take := func(tick time.Time) {
		a.AddWatermark(&ingest.Watermark{Pool: "p", At: tick})
		windows, _ := a.Close(tick)
		for i := range windows {
			w := &windows[i]
			m := int(w.Start.Sub(start) / time.Minute)
			if !w.Settled || m < 0 || m >= minutes {
				continue
			}
			if v, ok := dimension(t, features.DimKV).Value(w); ok {
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
		if reason := a.AddRequest(&rs[i]); reason != "" && reason != ingest.ReasonLate {
			t.Fatalf("refused as %s", reason)
		}
	}
	for end := start.Add(time.Duration(minutes)*time.Minute + revise + 2*time.Minute); tick.Before(end); tick = tick.Add(time.Minute) {
		take(tick)
	}
	return kv, late
}

// heldBefore is the token-seconds that a request held before an instant.
func heldBefore(r *ingest.Request, t time.Time) float64 {
	since := func(from time.Time) float64 { return min(max(t.Sub(from), 0), r.FinishedAt.Sub(from)).Seconds() }
	held := float64(r.PromptTokens) * since(r.StartedAt)
	if decoding := since(r.FirstTokenAt); decoding > 0 {
		held += float64(r.OutputTokens) * decoding * decoding / (2 * r.FinishedAt.Sub(r.FirstTokenAt).Seconds())
	}
	return held
}

func dimension(t *testing.T, name string) *features.Dimension {
	t.Helper()
	d, ok := features.DimensionByName(name)
	if !ok {
		t.Fatal(name)
	}
	return &d
}

// off is Σ|a − b| / Σ b, and Σ a / Σ b.
func off(a, b []float64) (wape, ratio float64) {
	var diff, sumA, sumB float64
	for i := range b {
		diff += math.Abs(a[i] - b[i])
		sumA, sumB = sumA+a[i], sumB+b[i]
	}
	return diff / sumB, sumA / sumB
}

// mixed is an hour of traffic as a shared pool sees it: people who chat, and editors and agents that send much and get
// little back.
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
				ID: fmt.Sprint(c.name, len(out)), Pool: "p", Class: c.name, Attempt: 1, ArrivedAt: DefaultStart.Add(time.Duration(at * 1e9)),
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

// trace reads requests from one of the traces in FOREWARM_TRACES.
func trace(t *testing.T, name string) []ingest.Request {
	t.Helper()
	dir := os.Getenv("FOREWARM_TRACES")
	if dir == "" {
		t.Skip("FOREWARM_TRACES does not name a directory of traces")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []ingest.Request
	for i, row := range rows[1:] {
		number := func(column int) float64 {
			v, err := strconv.ParseFloat(row[column], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		out = append(out, ingest.Request{
			ID: strconv.Itoa(i), Pool: "p", Class: row[1], Attempt: 1, ArrivedAt: DefaultStart.Add(time.Duration(number(0) * 1e9)),
			PromptTokens: int64(number(2)), CachedTokens: int64(number(3)), OutputTokens: int64(number(4)), MaxOutputTokens: ingest.Unknown,
		})
	}
	slices.SortStableFunc(out, func(a, b ingest.Request) int { return a.ArrivedAt.Compare(b.ArrivedAt) })
	return out
}

// The occupancy of each minute is what counting gives, whatever the order in which records come: by end, as engines
// write them; by end with delays of minutes; by arrival, as traces have them. Means are no substitute.
func TestOccupancyIsWhatCountingGives(t *testing.T) {
	for _, tt := range []struct {
		name  string
		load  func(t *testing.T) []ingest.Request
		means float64 // by what factor the formula from means must be off at least, on the whole
	}{
		{"mixed traffic", func(*testing.T) []ingest.Request { return mixed() }, 1.8},
		{"mooncake", func(t *testing.T) []ingest.Request { return trace(t, "mooncake_conversation_1h.csv.gz") }, 1},
		{"agentic", func(t *testing.T) []ingest.Request { return trace(t, "agentic_claude_7d.csv.gz") }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rs := tt.load(t)
			drawTimes(rs, 1)
			last := slices.MaxFunc(rs, func(a, b ingest.Request) int { return a.FinishedAt.Compare(b.FinishedAt) }).FinishedAt
			longest := slices.MaxFunc(rs, func(a, b ingest.Request) int { return cmp.Compare(life(&a), life(&b)) })
			minutes := int(last.Sub(DefaultStart)/time.Minute) + 1
			want := counted(rs, DefaultStart, minutes)
			wape, ratio := off(fromMeans(rs, DefaultStart, minutes), want)
			t.Logf("%d requests in %d minutes, the longest takes %s; λ·(ISL + OSL/2)·latency: %.2f of what is held, minutes are off by %.0f %%",
				len(rs), minutes, life(&longest).Round(time.Second), ratio, 100*wape)
			if max(ratio, 1/ratio) < tt.means {
				t.Errorf("means are off by %.2f only", ratio)
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
					_, lost := off([]float64{late / 60}, []float64{sum(want)})
					t.Logf("%-20s revise %-6s minutes are off by %.3f %%, the whole by %+.3f %%; %.3f %% came too late", order, revise, 100*wape, 100*(ratio-1), 100*lost)
					if whole := order == "by arrival" || revise >= 20*time.Minute; whole && wape > .01 {
						t.Errorf("%s, revise %s: off by %.2f %%", order, revise, 100*wape)
					}
					if math.Abs(ratio+lost-1) > .002 {
						t.Errorf("%s, revise %s: windows and what came late are %.4f of what was held", order, revise, ratio+lost)
					}
				}
			}
		})
	}
}

func life(r *ingest.Request) time.Duration { return r.FinishedAt.Sub(r.ArrivedAt) }

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}
