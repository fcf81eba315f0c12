package pipeline

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// risingPool is a pool that follows the decisions of a pipeline. Its demand doubles for half an hour every two hours,
// as stated in events. One replica suffices before, two are needed during the rise.
type risingPool struct {
	t       *testing.T
	cfg     Config
	p       *Pipeline
	now     time.Time
	lag     func(start int) time.Duration
	silent  float64 // share of the warm-up in which a new replica does not report
	ignores bool    // the pool does not follow decisions
	started int
	ready   map[int]time.Time // when each replica is ready
	reports map[int]time.Time // when its reports begin
	desired int
}

const (
	riseEvery  = 2 * time.Hour
	riseLasts  = 30 * time.Minute
	riseFirst  = 90 * time.Minute
	riseDemand = 0.7 // before a rise, of the capacity of a replica
)

func newRisingPool(t *testing.T) *risingPool {
	t.Helper()
	pool, err := capacity.New(capacity.Config{Name: "p", MaxRequestsPerS: 10, Replicas: capacity.Replicas{Min: 1, Max: 4, Initial: 1}, Warmup: capacity.Lag{P50: 8 * time.Minute, P90: 9 * time.Minute}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &risingPool{t: t, cfg: DefaultConfig(), now: midnight, ready: map[int]time.Time{0: midnight}, reports: map[int]time.Time{}, desired: 1}
	w.cfg.Clock, w.cfg.Features.Lateness, w.cfg.Features.Revise = EventClock, 0, 0
	w.cfg.Pools, w.cfg.Decision.Mode = []capacity.Pool{pool}, alerting.Active
	for k := range 12 {
		e, err := forecaster.NewEvent(forecaster.EventConfig{
			Name: fmt.Sprint("rise ", k), Pool: "p", Start: midnight.Add(riseFirst + time.Duration(k)*riseEvery).Format("2006-01-02 15:04"),
			Duration: riseLasts, Factor: 2, Uncertainty: 1.1, Repeat: "daily",
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.cfg.Events = append(w.cfg.Events, e)
	}
	w.p = New(w.cfg)
	return w
}

// minute simulates one minute, in which replicas report and the pipeline decides.
func (w *risingPool) minute() {
	b := ingest.Batch{}
	rate := 10 * riseDemand
	if since := w.now.Sub(midnight.Add(riseFirst)); since >= 0 && since%riseEvery < riseLasts {
		rate *= 2
	}
	b.Sums = []ingest.Sum{{Pool: "p", Class: "chat", Start: w.now, Requests: 60 * rate, PromptTokens: math.NaN(), CachedTokens: math.NaN(), OutputTokens: math.NaN()}}
	w.now = w.now.Add(time.Minute)
	at := w.now.Add(-time.Millisecond)
	for _, n := range slices.Sorted(maps.Keys(w.ready)) {
		if w.now.Before(w.reports[n]) {
			continue
		}
		state := ingest.ReplicaLoading
		if !w.ready[n].After(w.now) {
			state = ingest.ReplicaReady
		}
		b.Replicas = append(b.Replicas, report(fmt.Sprint("r", n), at, state))
	}
	b.Watermark = &ingest.Watermark{Pool: "p", At: w.now}
	w.p.Apply(&b, func(o *Output) {
		for _, d := range o.Decisions() {
			w.obey(d.Desired)
		}
	})
}

// report is a report of a replica that has only its state.
func report(name string, at time.Time, state ingest.ReplicaState) ingest.Replica {
	return ingest.Replica{
		Pool: "p", Name: name, At: at, State: state, KVUsedRatio: math.NaN(), KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown,
		Running: ingest.Unknown, Waiting: ingest.Unknown, PreemptionsTotal: ingest.Unknown, PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown,
	}
}

// obey starts replicas, or removes the newest.
func (w *risingPool) obey(desired int) {
	if w.desired = desired; w.ignores {
		return
	}
	var changed []ingest.Replica
	for n := w.started; len(w.ready) > desired; n-- {
		if _, there := w.ready[n]; there {
			delete(w.ready, n)
			changed = append(changed, report(fmt.Sprint("r", n), w.now, ingest.ReplicaGone))
		}
	}
	for len(w.ready) < desired {
		w.started++
		lag := w.lag(w.started)
		w.ready[w.started], w.reports[w.started] = w.now.Add(lag), w.now.Add(time.Duration(w.silent*float64(lag)))
		if w.silent == 0 {
			changed = append(changed, report(fmt.Sprint("r", w.started), w.now, ingest.ReplicaLoading))
		}
	}
	if len(changed) > 0 {
		w.p.Apply(&ingest.Batch{Replicas: changed}, func(*Output) {})
	}
}

// rise simulates the time to the end of the next rise and until the pool has one replica again. It returns how long
// before the rise the second replica was requested, and for how many minutes of the rise it was not ready.
func (w *risingPool) rise() (lead time.Duration, short int) {
	n := (w.now.Sub(midnight.Add(riseFirst)) + riseEvery - 1) / riseEvery
	start := midnight.Add(riseFirst + max(n, 0)*riseEvery)
	var requested time.Time
	for w.now.Before(start.Add(riseLasts)) {
		w.minute()
		switch {
		case w.desired < 2:
			requested = time.Time{}
		case requested.IsZero():
			requested = w.now
		}
		serving := 0
		for _, ready := range w.ready {
			if !ready.After(w.now.Add(-time.Minute)) {
				serving++
			}
		}
		if w.now.After(start) && serving < 2 {
			short++
		}
	}
	for len(w.ready) > 1 && w.now.Before(start.Add(riseEvery)) {
		w.minute()
	}
	return start.Sub(requested), short
}

// TestLeadFollowsWarmup: replicas are requested one warm-up before they are needed. When the warm-up becomes twice as
// long, replicas are late in the first rises. After ten starts, and a restart of the daemon, they are requested earlier
// and ready in time.
func TestLeadFollowsWarmup(t *testing.T) {
	w := newRisingPool(t)
	const before, after = 8 * time.Minute, 16 * time.Minute
	usual := func(lag time.Duration) func(int) time.Duration {
		return func(start int) time.Duration { return lag + time.Duration(start%3-1)*30*time.Second }
	}
	w.lag = usual(before)
	var lead time.Duration
	for n := range 12 {
		var short int
		if lead, short = w.rise(); n >= 10 && (short > 0 || lead < before || lead >= after) {
			t.Errorf("rise %d: requested %s ahead and late in %d minutes, with a warm-up of %s", n, lead, short, before)
		}
	}
	w.lag = usual(after)
	if _, short := w.rise(); short == 0 {
		t.Errorf("requested %s ahead before the warm-up doubled: the test would not notice a lead that stays", lead)
	}
	from := w.started
	for n := 0; w.started < from+10; n++ {
		if n == 4 {
			w.p = restarted(t, w.cfg, w.p)
		}
		lead, _ = w.rise()
		t.Logf("%d replicas were started since the warm-up doubled: the next was requested %s ahead", w.started-from, lead)
	}
	for range 3 {
		if lead, short := w.rise(); short > 0 || lead < after || lead > 2*after {
			t.Errorf("after ten starts: requested %s ahead and late in %d minutes, with a warm-up of %s", lead, short, after)
		}
	}
}

// TestWarmupFromRequests: the learned warm-up is the time from the request to the first report of a ready replica,
// whenever the replica begins to report. The log is a table of BENCHMARKS.md.
func TestWarmupFromRequests(t *testing.T) {
	for _, x := range []struct {
		name   string
		silent float64
	}{{"pending from the ask on", 0}, {"pending from the machine on, a third of the lag later", 1. / 3}, {"ready only", 1}} {
		w := newRisingPool(t)
		w.silent = x.silent
		const p50, p90 = 12 * time.Minute, 15 * time.Minute
		sigma := math.Log(float64(p90)/float64(p50)) / 1.2816
		rng := rand.New(rand.NewPCG(1, 2))
		var lags []float64
		w.lag = func(int) time.Duration {
			lags = append(lags, float64(p50)*math.Exp(sigma*rng.NormFloat64()))
			return time.Duration(lags[len(lags)-1])
		}
		for w.started < 20 {
			w.rise()
		}
		warmup := &w.p.pools[0].Warmup
		slices.Sort(lags)
		t.Logf("| warm-up, %s | %d starts | median %.1f min, learned %.1f | 90th percentile %.1f min, learned %.1f | stated 8.0 and 9.0 |", x.name, w.started,
			lags[len(lags)/2]/6e10, warmup.Quantile(.5).Minutes(), lags[len(lags)*9/10]/6e10, warmup.Quantile(.9).Minutes())
		if seen := warmup.Seen; seen < 15 || math.Abs(warmup.Quantile(.5).Minutes()/12-1) > .1 || math.Abs(warmup.Quantile(.9).Minutes()/15-1) > .15 {
			t.Errorf("%s: median %s, 90th percentile %s of %d starts; want %s and %s", x.name, warmup.Quantile(.5), warmup.Quantile(.9), seen, p50, p90)
		}
	}
}

// TestNoWarmupWithoutStart: no warm-up is learned from a request that the autoscaler ignores, nor from a replica that
// was not requested.
func TestNoWarmupWithoutStart(t *testing.T) {
	w := newRisingPool(t)
	w.ignores = true
	w.rise()
	w.rise()
	if seen := w.p.pools[0].Warmup.Seen; seen != 0 {
		t.Errorf("%d warm-ups learned although no replica started", seen)
	}
	for len(w.p.pools[0].ReplicaRequests.Open) > 0 {
		w.minute()
	}
	w.ready[7] = w.now.Add(-time.Minute)
	w.minute()
	if seen := w.p.pools[0].Warmup.Seen; seen != 0 {
		t.Errorf("%d warm-ups learned from a replica that was not requested", seen)
	}
}
