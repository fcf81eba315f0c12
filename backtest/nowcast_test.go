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

// serviceModel draws when requests of a trace without times were served: each waits for an exponential time, of which
// the mean drifts, is prefilled at a fixed rate and decodes at a latency of its own.
type serviceModel struct {
	Wait      time.Duration // mean time in the queue
	PrefillPS float64       // tokens/s
	ITL       time.Duration // mean; lognormal over requests with a sigma of 0.3
	Slower    time.Time     // from then on everything takes twice as long; zero means never
}

// serve is the telemetry of requests that are reported when they end, in that order.
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

// traceRequests reads a public trace, played so many times over.
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

// ownRequests are of the synthetic workload.
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

type nowcastKey struct {
	class, dimension string
	age              int
}

const nowcastAges = 3

// nowcastsOf aggregates telemetry minute by minute, and returns the estimates of the minutes from a time on.
func nowcastsOf(t testing.TB, requests []ingest.Request, from time.Time) map[nowcastKey][]nowcastOutcome {
	t.Helper()
	type id struct {
		class, dimension string
		minute           int64
	}
	type minute struct {
		newest nowcastOutcome
		at     [nowcastAges]nowcastOutcome
	}
	cfg := features.DefaultConfig()
	cfg.Lateness = 0
	a := features.New(cfg)
	open, out := map[id]*minute{}, map[nowcastKey][]nowcastOutcome{}
	tick := requests[0].ArrivedAt.Truncate(time.Minute)
	for len(requests) > 0 {
		tick = tick.Add(time.Minute)
		for len(requests) > 0 && requests[0].FinishedAt.Before(tick) {
			a.AddRequest(&requests[0])
			requests = requests[1:]
		}
		a.AddWatermark(&ingest.Watermark{Pool: DefaultPool, At: tick})
		windows, _ := a.Close(tick)
		for i := range windows {
			w := &windows[i]
			for _, d := range features.Dimensions {
				if !d.Forecast {
					continue
				}
				key := id{w.Class, d.Name, w.Start.Unix() / 60}
				value, known := d.Value(w)
				if !w.Settled {
					if open[key] == nil {
						open[key] = &minute{}
					}
					now, _ := d.Now(w)
					open[key].newest = nowcastOutcome{counted: value, now: now}
					continue
				}
				if m := open[key]; m != nil && known && !w.Start.Before(from) {
					for age, was := range m.at {
						was.truth = value
						k := nowcastKey{w.Class, d.Name, age}
						out[k] = append(out[k], was)
					}
				}
				delete(open, key)
			}
		}
		for key, m := range open {
			if age := tick.Unix()/60 - 1 - key.minute; age < nowcastAges {
				m.at[age] = m.newest
			}
		}
	}
	return out
}

// nowcastScore says how far off counts and nowcasts were, as shares of what came.
type nowcastScore struct {
	counted, bias float64 // mean error of the count and of the nowcast
	noise         float64 // standard error of bias
	off, left     float64 // mean absolute error of the count and of the nowcast
	minutes       int
}

func scoreNowcasts(outcomes []nowcastOutcome) (s nowcastScore) {
	truth := 0.0
	for _, o := range outcomes {
		truth += o.truth
		s.counted += o.counted - o.truth
		s.bias += o.now.Mean - o.truth
		s.noise += (o.now.Mean - o.truth) * (o.now.Mean - o.truth)
		s.off += math.Abs(o.counted - o.truth)
		s.left += math.Abs(o.now.Mean - o.truth)
	}
	s.minutes, s.noise = len(outcomes), math.Sqrt(s.noise)
	for _, x := range []*float64{&s.counted, &s.bias, &s.noise, &s.off, &s.left} {
		*x /= truth
	}
	return s
}

// The newest minute lacks what is still running. Its nowcast is right on average, for traffic and services that it knows
// nothing of: the first hours are not scored, all that is learned comes from the telemetry itself, and nothing is fitted
// to any of these.
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
		missing  float64 // at least, of the requests of the newest minute
	}{
		{"own traffic", own, slow, 6 * time.Hour, .05},
		{"azure2023", hour("azure2023_conv_1h"), quick, time.Hour, .10},
		{"azure2023, slow", hour("azure2023_conv_1h"), slow, time.Hour, .20},
		{"mooncake", hour("mooncake_conversation_1h"), quick, time.Hour, .15},
		{"agentic", func(t *testing.T) []ingest.Request { return traceRequests(t, "agentic_claude_7d", 1) }, quick, 24 * time.Hour, .15},
	} {
		t.Run(tc.name, func(t *testing.T) {
			outcomes := nowcastsOf(t, tc.service.serve(tc.requests(t), 1), DefaultStart.Add(tc.warm))
			for _, class := range classesOf(outcomes) {
				for _, d := range features.Dimensions {
					newest := outcomes[nowcastKey{class, d.Name, 0}]
					if !d.Forecast || len(newest) == 0 {
						continue
					}
					s := scoreNowcasts(newest)
					t.Logf("%-10s %-9s %5d minutes: counted %+6.1f %%, nowcast %+5.1f ± %.1f %%; mean error %4.1f %%, nowcast %4.1f %%",
						class, d.Name, s.minutes, 100*s.counted, 100*s.bias, 100*s.noise, 100*s.off, 100*s.left)
					if d.Name == features.DimRequests && s.counted > -tc.missing {
						t.Errorf("%s: only %.1f %% of the newest minute are missing: no test", class, -100*s.counted)
					}
					// Where few requests carry most of the tokens the sum of a few days is itself uncertain.
					if math.Abs(s.bias) > math.Max(.02, 3*s.noise) {
						t.Errorf("%s, %s: nowcasts are off by %+.1f %% ± %.1f %% on average", class, d.Name, 100*s.bias, 100*s.noise)
					}
				}
			}
		})
	}
}

// Rare classes, of which most minutes are empty, are no more biased than busy ones: a count far above the level is held
// against the level no sooner than one below it can be.
func TestNowcastOfRareClasses(t *testing.T) {
	slow := serviceModel{Wait: time.Second, PrefillPS: 8000, ITL: 60 * time.Millisecond}
	outcomes := map[nowcastKey][]nowcastOutcome{}
	for seed := range uint64(4) {
		for k, o := range nowcastsOf(t, slow.serve(ownRequests(48*time.Hour, .05, seed), seed), DefaultStart.Add(6*time.Hour)) {
			outcomes[k] = append(outcomes[k], o...)
		}
	}
	for _, class := range classesOf(outcomes) {
		newest := outcomes[nowcastKey{class, features.DimRequests, 0}]
		s := scoreNowcasts(newest)
		t.Logf("%-10s %5.1f calls an hour: counted %+6.1f %%, nowcast %+5.1f ± %.1f %%",
			class, 3600*sumOf(newest)/float64(len(newest)), 100*s.counted, 100*s.bias, 100*s.noise)
		if math.Abs(s.bias) > .02 {
			t.Errorf("%s: nowcasts are off by %+.1f %%", class, 100*s.bias)
		}
	}
}

// When everything suddenly takes twice as long, nowcasts are too low at first, by no more than counts are; a busy class
// has followed within the hour.
func TestNowcastFollowsTheService(t *testing.T) {
	at := DefaultStart.Add(12 * time.Hour)
	m := serviceModel{Wait: time.Second, PrefillPS: 8000, ITL: 40 * time.Millisecond, Slower: at}
	outcomes := nowcastsOf(t, m.serve(ownRequests(20*time.Hour, 1, 7), 1), at)
	busy := outcomes[nowcastKey{"chat", features.DimDecode, 0}]
	score := func(from, to int) nowcastScore {
		s := scoreNowcasts(busy[from:to])
		t.Logf("minutes %3d to %3d: counted %+.1f %%, nowcast %+.1f %%", from, to, 100*s.counted, 100*s.bias)
		return s
	}
	if s := score(0, 10); s.bias > 0 || s.bias < s.counted {
		t.Errorf("in the first ten minutes counts are off by %+.1f %%, nowcasts by %+.1f %%", 100*s.counted, 100*s.bias)
	}
	score(10, 30)
	score(30, 60)
	if s := score(60, 420); math.Abs(s.bias) > .02 {
		t.Errorf("an hour later nowcasts are off by %+.1f %%", 100*s.bias)
	}
}

func classesOf(outcomes map[nowcastKey][]nowcastOutcome) (names []string) {
	for k := range outcomes {
		names = append(names, k.class)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func sumOf(outcomes []nowcastOutcome) (sum float64) {
	for _, o := range outcomes {
		sum += o.truth
	}
	return sum
}
