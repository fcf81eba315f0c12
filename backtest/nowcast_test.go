package backtest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// serviceModel draws service times for requests of a trace that has none. A request waits for an exponential time,
// whose mean drifts. Its prefill has a fixed rate, its time per output token is drawn.
type serviceModel struct {
	Wait      time.Duration // mean time in the queue
	PrefillPS float64       // tokens/s
	ITL       time.Duration // mean; lognormal over requests with a sigma of 0.3
	Slower    time.Time     // from then on everything takes twice as long; zero means never
}

// serve returns the records of requests, which are reported when they end, in this order.
func (m serviceModel) serve(requests []ingest.Request, seed uint64) []ingest.Request {
	rng := rand.New(rand.NewPCG(seed, 1))
	out, drift := slices.Clone(requests), 0.0
	for i := range out {
		r := &out[i]
		slow := 1.0
		if !m.Slower.IsZero() && r.ArrivedAt.After(m.Slower) {
			slow = 2
		}
		drift = .995*drift + .1*rng.NormFloat64()
		after := func(t time.Time, s float64) time.Time { return t.Add(time.Duration(slow * s * 1e9)) }
		r.ID = fmt.Sprint(i)
		r.StartedAt = after(r.ArrivedAt, m.Wait.Seconds()*rng.ExpFloat64()*math.Exp(drift-.5))
		r.FirstTokenAt = after(r.StartedAt, float64(r.PromptTokens-max(r.CachedTokens, 0)+1)/m.PrefillPS)
		r.FinishedAt = after(r.FirstTokenAt, float64(r.OutputTokens)*m.ITL.Seconds()*math.Exp(.3*rng.NormFloat64()-.045))
	}
	slices.SortStableFunc(out, func(a, b ingest.Request) int { return a.FinishedAt.Compare(b.FinishedAt) })
	return out
}

// traceRequests reads a public trace, and repeats it so many times.
func traceRequests(t testing.TB, name string, times int) (out []ingest.Request) {
	t.Helper()
	dir := os.Getenv("FOREWARM_TRACES")
	if dir == "" {
		t.Skip("FOREWARM_TRACES does not name the directory of the public traces")
	}
	span := time.Duration(0)
	for range times {
		r, err := Open(filepath.Join(dir, name+".csv.gz"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var it Item
		last := time.Duration(0)
		for err = r.Next(&it); err == nil; err = r.Next(&it) {
			q := *it.Request
			last = q.ArrivedAt.Sub(DefaultStart)
			q.ArrivedAt = q.ArrivedAt.Add(span)
			out = append(out, q)
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		r.Close()
		span += last.Truncate(time.Minute) // the last minute may not be full
		out = slices.DeleteFunc(out, func(q ingest.Request) bool { return !q.ArrivedAt.Before(DefaultStart.Add(span)) })
	}
	return out
}

// ownRequests returns requests of the synthetic workload.
func ownRequests(d time.Duration, rate float64, seed uint64) (out []ingest.Request) {
	for _, r := range requestsOf(WorkloadConfig{Rate: rate}, seed, d) {
		r.Pool, r.Tenant, r.Session, r.MaxOutputTokens = DefaultPool, "", 0, ingest.Unknown
		out = append(out, *r)
	}
	return out
}

// nowcastOutcome is the estimate of a minute and its outcome.
type nowcastOutcome struct {
	counted, truth float64
	now            features.Estimate
}

// nowcastKey is a class and the name of a dimension.
type nowcastKey struct{ class, dimension string }

// nowcastsOf aggregates telemetry minute by minute. It returns the first estimate of each minute from a time on, made
// when the minute ends.
func nowcastsOf(t testing.TB, requests []ingest.Request, from time.Time) map[nowcastKey][]nowcastOutcome {
	t.Helper()
	type id struct {
		nowcastKey
		start int64 // s
	}
	cfg := features.DefaultConfig()
	cfg.Lateness = 0
	a := features.New(cfg)
	open, out := map[id]nowcastOutcome{}, map[nowcastKey][]nowcastOutcome{}
	tick := requests[0].ArrivedAt.Truncate(time.Minute)
	for len(requests) > 0 {
		tick = tick.Add(time.Minute)
		for len(requests) > 0 && requests[0].FinishedAt.Before(tick) {
			a.AddAttempt(&requests[0], features.Earlier{})
			requests = requests[1:]
		}
		a.AddWatermark(&ingest.Watermark{Pool: DefaultPool, At: tick})
		windows, _ := a.Close(tick)
		for i := range windows {
			w := &windows[i]
			for _, d := range features.Forecast {
				key := id{nowcastKey{w.Class, d.Name}, w.Start.Unix()}
				value, known := d.Value(w)
				o, seen := open[key]
				switch {
				case !w.Settled && w.Start.Equal(tick.Add(-time.Minute)):
					now, _ := d.Now(w)
					open[key] = nowcastOutcome{counted: value, now: now}
				case !w.Settled && !seen: // the estimate was zero when the minute ended
					open[key] = nowcastOutcome{}
				case w.Settled:
					if seen && known && !w.Start.Before(from) {
						o.truth = value
						out[key.nowcastKey] = append(out[key.nowcastKey], o)
					}
					delete(open, key)
				}
			}
		}
	}
	return out
}

// nowcastScore has the errors of counts and nowcasts, as shares of the true sum.
type nowcastScore struct {
	counted, bias float64 // mean error of the count and of the nowcast
	noise         float64 // standard error of bias
}

func scoreNowcasts(outcomes []nowcastOutcome) (s nowcastScore) {
	truth := 0.0
	for _, o := range outcomes {
		truth += o.truth
		s.counted += o.counted - o.truth
		s.bias += o.now.Mean - o.truth
		s.noise += (o.now.Mean - o.truth) * (o.now.Mean - o.truth)
	}
	return nowcastScore{s.counted / truth, s.bias / truth, math.Sqrt(s.noise) / truth}
}

// TestNowcast: requests that still run are missing in the newest minute. Its nowcast is right on average, for traffic
// and service times that it learns from telemetry alone. The first hours are not scored.
func TestNowcast(t *testing.T) {
	quick := serviceModel{Wait: 300 * time.Millisecond, PrefillPS: 8000, ITL: 30 * time.Millisecond}
	slow := serviceModel{Wait: time.Second, PrefillPS: 8000, ITL: 60 * time.Millisecond}
	hour := func(trace string) func(t *testing.T) []ingest.Request {
		return func(t *testing.T) []ingest.Request { return traceRequests(t, trace, 12) }
	}
	own := func(*testing.T) []ingest.Request { return ownRequests(36*time.Hour, .2, 7) }
	for _, tc := range []struct {
		name     string
		requests func(t *testing.T) []ingest.Request
		service  serviceModel
		warm     time.Duration
		missing  float64 // the least share of the newest minute's requests that must be missing
	}{
		{"own traffic", own, slow, 6 * time.Hour, .05},
		{"azure2023", hour("azure2023_conv_1h"), quick, time.Hour, .10},
		{"azure2023, slow", hour("azure2023_conv_1h"), slow, time.Hour, .20},
		{"mooncake", hour("mooncake_conversation_1h"), quick, time.Hour, .15},
		{"agentic", func(t *testing.T) []ingest.Request { return traceRequests(t, "agentic_claude_7d", 1) }, quick, 24 * time.Hour, .15},
	} {
		t.Run(tc.name, func(t *testing.T) {
			outcomes := nowcastsOf(t, tc.service.serve(tc.requests(t), 1), DefaultStart.Add(tc.warm))
			for key, minutes := range outcomes {
				s := scoreNowcasts(minutes)
				t.Logf("%s, %s: %d minutes, counts are off by %+.1f %% on average, nowcasts by %+.1f ± %.1f %%",
					key.class, key.dimension, len(minutes), 100*s.counted, 100*s.bias, 100*s.noise)
				if key.dimension == features.DimRequests && s.counted > -tc.missing {
					t.Errorf("%s: only %.1f %% of the newest minute are missing, too few for this test", key.class, -100*s.counted)
				}
				// Where few requests have most of the tokens, the sum of a few days is itself uncertain.
				if math.Abs(s.bias) > math.Max(.02, 3*s.noise) {
					t.Errorf("%s, %s: nowcasts are off by %+.1f %% ± %.1f %% on average", key.class, key.dimension, 100*s.bias, 100*s.noise)
				}
			}
		})
	}
}

// TestNowcastOfRareClasses: nowcasts of classes with mostly empty minutes are not biased either.
func TestNowcastOfRareClasses(t *testing.T) {
	slow := serviceModel{Wait: time.Second, PrefillPS: 8000, ITL: 60 * time.Millisecond}
	outcomes := map[nowcastKey][]nowcastOutcome{}
	for seed := range uint64(4) {
		for k, o := range nowcastsOf(t, slow.serve(ownRequests(48*time.Hour, .05, seed), seed), DefaultStart.Add(6*time.Hour)) {
			outcomes[k] = append(outcomes[k], o...)
		}
	}
	for key, minutes := range outcomes {
		if key.dimension != features.DimRequests {
			continue
		}
		s := scoreNowcasts(minutes)
		t.Logf("%s: counts are off by %+.1f %%, nowcasts by %+.1f ± %.1f %%", key.class, 100*s.counted, 100*s.bias, 100*s.noise)
		if math.Abs(s.bias) > .02 {
			t.Errorf("%s: nowcasts are off by %+.1f %%", key.class, 100*s.bias)
		}
	}
}

// TestNowcastOfSlowerService: all requests suddenly take twice as long. Nowcasts of a busy class are too low at first,
// but not lower than counts. An hour later they are right again.
func TestNowcastOfSlowerService(t *testing.T) {
	at := DefaultStart.Add(12 * time.Hour)
	m := serviceModel{Wait: time.Second, PrefillPS: 8000, ITL: 40 * time.Millisecond, Slower: at}
	outcomes := nowcastsOf(t, m.serve(ownRequests(20*time.Hour, 1, 7), 1), at)
	busy := outcomes[nowcastKey{"chat", features.DimDecode}]
	if s := scoreNowcasts(busy[:10]); s.bias > 0 || s.bias < s.counted {
		t.Errorf("in the first ten minutes counts are off by %+.1f %%, nowcasts by %+.1f %%", 100*s.counted, 100*s.bias)
	}
	if s := scoreNowcasts(busy[60:420]); math.Abs(s.bias) > .02 {
		t.Errorf("an hour later nowcasts are off by %+.1f %%", 100*s.bias)
	}
}
