package alerting

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// scene builds the input of a decision: a pool of replicas that hold 100 KV tokens each (safe: 100), lead 13 minutes.
type scene struct {
	ready, pending int
	median         func(minute int) float64 // KV demand, minute 1…60
	spread         float64                  // the 95 % quantile is median·(1+spread), the 99 % one median·(1+2·spread)
	last           float64
	edit           func(*Input)
}

func (s scene) input(t testing.TB) Input {
	t.Helper()
	pool, err := capacity.New(capacity.Config{
		Name: "llama", KVCapacityTokens: 100, KVTarget: 1, PrefillTarget: 1, Replicas: capacity.Replicas{Min: 1, Max: 50, Initial: 4},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := forecaster.Forecast{Key: features.Key{Pool: "llama", Class: features.TotalClass}, Dimension: features.DimKV, Origin: noon,
		Last: s.last, Now: features.Estimate{Mean: s.last}, Confidence: forecaster.Seasonal, Known: 5000}
	for h := range f.Minute {
		m := s.median(h + 1)
		for i, tau := range forecaster.Levels {
			f.Minute[h][i] = m
			if tau >= .95 {
				f.Minute[h][i] = m * (1 + s.spread)
			}
		}
		f.Minute[h][forecaster.L99] = m * (1 + 2*s.spread)
	}
	in := Input{
		Forecast: &forecaster.PoolForecast{Pool: "llama", Origin: noon, Total: []forecaster.Forecast{f}},
		Projection: forecaster.Projection{Lead: 13 * time.Minute, Binding: features.DimKV, Confidence: forecaster.Seasonal,
			Resources: []forecaster.ResourceProjection{{Dimension: features.DimKV, ETA: never}}},
		Pool: pool,
		Minute: features.PoolMinute{Pool: "llama", Start: noon.Add(-time.Minute), Covered: true, LastEvent: noon,
			State: features.PoolState{Observed: true, Ready: s.ready, Pending: s.pending,
				KVUsedMax: math.NaN(), WaitingPerReady: math.NaN(), ReportedAt: noon}},
		Sequence: 7,
	}
	for range s.pending {
		in.Minute.State.PendingSince = append(in.Minute.State.PendingSince, noon.Add(-time.Minute))
	}
	if s.edit != nil {
		s.edit(&in)
	}
	return in
}

var never = forecaster.ETA{P10: forecaster.Never, P50: forecaster.Never, P90: forecaster.Never}

func flat(v float64) func(int) float64 { return func(int) float64 { return v } }

// rising has one value before a minute, and another from it on.
func rising(minute int, before, after float64) func(int) float64 {
	return func(h int) float64 {
		if h < minute {
			return before
		}
		return after
	}
}

// shared is the share of the KV memory of requests that engines hold.
func shared(ratio float64) func(*Input) {
	return func(in *Input) {
		in.Minute.KVRatio = ratio
	}
}

func TestDecide(t *testing.T) {
	earlier := func(desired int) State {
		return State{Generation: 3, LastDesired: desired, LastTick: noon.Add(-time.Minute), LastScaleOut: noon.Add(-time.Hour),
			LastPublished: noon.Add(-time.Minute), PublishedDesired: desired, PublishedAction: Hold,
			UsableSince: noon.Add(-time.Hour)}
	}
	kept := func(minutesAgo, replicas int) func(*State) {
		return func(s *State) {
			s.Keeps = []kept{{noon.Add(-time.Duration(minutesAgo) * time.Minute).Unix(), replicas}}
		}
	}
	asked := func(minutesAgo int) func(*State) {
		return func(s *State) { s.LastScaleOut = noon.Add(-time.Duration(minutesAgo) * time.Minute) }
	}
	assumed := func(s *State) { s.Ready = s.LastDesired }
	after := func(s State, change func(*State)) State { change(&s); return s }
	tests := map[string]struct {
		scene  scene
		state  State
		config func(*Config)
		want   int
		action Action
		says   string // in the reason, the constraints or the warnings
	}{
		"enough":                              {scene: scene{ready: 4, median: flat(350), last: 350}, want: 4, action: Hold, says: "Staying at 4."},
		"rise inside the lead window":         {scene: scene{ready: 4, median: rising(18, 350, 620), last: 350}, want: 7, action: ScaleOut, says: "To have enough KV memory in 95 % of the next 18 min, the pool needs 7 replicas"},
		"rise, with shared prefixes":          {scene: scene{ready: 4, median: rising(18, 350, 620), last: 350, edit: shared(.8)}, want: 5, action: ScaleOut},
		"rise just beyond it":                 {scene: scene{ready: 4, median: rising(19, 350, 620), last: 350}, want: 4, action: Hold},
		"quantile, not median":                {scene: scene{ready: 4, median: flat(350), spread: .5, last: 350}, want: 6, action: ScaleOut},
		"stated quantile":                     {scene: scene{ready: 4, median: flat(350), spread: .5, last: 350}, config: func(c *Config) { c.Quantile = .5 }, want: 4, action: Hold},
		"newsvendor: shortage is cheap":       {scene: scene{ready: 4, median: flat(350), spread: .5, last: 350, edit: costs(60, 1)}, want: 4, action: Hold, says: "To have enough KV memory in 50 % of"},
		"newsvendor: shortage is expensive":   {scene: scene{ready: 4, median: flat(350), spread: .5, last: 350, edit: costs(6, 1000)}, want: 7, action: ScaleOut, says: "To have enough KV memory in 99 % of"},
		"reserves":                            {scene: scene{ready: 4, median: flat(350), last: 350, edit: func(in *Input) { in.Pool.Reserves = capacity.Reserves{Failure: 1, Warm: 2} }}, want: 7, action: ScaleOut, says: "and as a reserve 1 for failures, 2 warm for bursts"},
		"pending counts as supply":            {scene: scene{ready: 4, pending: 3, median: flat(620), last: 620}, state: earlier(7), want: 7, action: Hold},
		"floor: demand above the forecast":    {scene: scene{ready: 4, median: flat(350), last: 520}, want: 6, action: ScaleOut, says: "KV memory is over its planned limit now. Demand is 130 % of the planned capacity of 4 replicas. Advising 6 replicas (4 now)."},
		"floor: queue":                        {scene: scene{ready: 4, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.WaitingPerReady = 4 }}, want: 5, action: ScaleOut, says: "4.0 requests wait per replica (threshold 4). Advising 5 replicas (4 now)."},
		"floor: long queue at most doubles":   {scene: scene{ready: 4, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.WaitingPerReady = 900 }}, want: 8, action: ScaleOut},
		"floor: queue with supply on its way": {scene: scene{ready: 4, pending: 2, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.WaitingPerReady = 5 }}, state: earlier(6), want: 6, action: Hold},
		"floor: queue, enough replicas start": {scene: scene{ready: 4, pending: 1, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.WaitingPerReady = 5 }}, state: earlier(5), want: 5, action: Hold,
			says: "the pool needs 4 replicas. 5.0 requests wait per replica (threshold 4). Staying at 5."},
		"floor: queue, at the limit": {scene: scene{ready: 6, median: flat(350), last: 350, edit: func(in *Input) {
			in.Pool.Replicas.Max, in.Minute.State.WaitingPerReady = 6, 8
		}}, state: earlier(6), want: 6, action: Hold,
			says: "8.0 requests wait per replica (threshold 4). No more than 6 replicas are allowed. Limited by replicas.max 6: 8 wanted."},
		"floor: worst replica's KV":               {scene: scene{ready: 20, median: flat(1200), last: 1200, edit: func(in *Input) { in.Minute.State.KVUsedMax, in.Pool.KVTarget, in.Pool.KVTokens = .99, .8, 125 }}, want: 24, action: ScaleOut, says: "99 % full (danger above 85 %)"},
		"floor: a cache that is meant to be full": {scene: scene{ready: 20, median: flat(1950), last: 1950, edit: func(in *Input) { in.Minute.State.KVUsedMax = .99 }}, want: 20, action: Hold},
		"KV at the danger mark is not above":      {scene: scene{ready: 20, median: flat(1950), last: 1950, edit: func(in *Input) { in.Minute.State.KVUsedMax = .85 }}, want: 20, action: Hold},

		"scale in one step":                  {scene: scene{ready: 8, median: flat(350), last: 350}, state: earlier(8), want: 7, action: ScaleIn, says: "4 replicas will do for 98 % of the next 15 min. Advising 7 replicas (8 now). Limited by scale_in_step 1: 4 wanted."},
		"stay: first decision":               {scene: scene{ready: 8, median: flat(350), last: 350}, want: 8, action: Hold, says: "4 replicas would do, but demand is watched for 5 min more"},
		"scale in: a peak long enough ago":   {scene: scene{ready: 8, median: flat(350), last: 350}, state: after(earlier(8), kept(2, 8)), want: 7, action: ScaleIn},
		"scale in: also a starting replica":  {scene: scene{ready: 7, pending: 1, median: flat(350), last: 350}, state: earlier(8), want: 7, action: ScaleIn},
		"scale in to what one replica holds": {scene: scene{ready: 3, median: flat(50), last: 50}, state: earlier(3), want: 2, action: ScaleIn, says: "1 replica will do for 98 % of the next 15 min"},
		"scale in: larger step":              {scene: scene{ready: 8, median: flat(350), last: 350}, state: earlier(8), config: func(c *Config) { c.ScaleInStep = 10 }, want: 4, action: ScaleIn},
		"stay: later peak in cooldown":       {scene: scene{ready: 8, median: rising(18, 350, 790), last: 350}, state: earlier(8), want: 8, action: Hold},
		"stay: unlikely but possible":        {scene: scene{ready: 8, median: flat(390), spread: .5, last: 390}, state: earlier(8), want: 8, action: Hold},
		"stay: a peak was forecast a minute ago": {scene: scene{ready: 8, median: flat(350), last: 350}, state: after(earlier(8), kept(1, 8)), want: 8, action: Hold,
			says: "the pool needs 4 replicas. A scale-in must leave enough for 98 % of the next 15 min, and that took 8 replicas lately. Staying at 8."},
		"ask again: a peak was forecast a minute ago": {scene: scene{ready: 2, median: flat(150), last: 150}, state: after(earlier(3), kept(1, 3)), want: 3, action: ScaleOut,
			says: "the pool needs 2 replicas. A scale-in must leave enough for 98 % of the next 15 min, and that took 3 replicas lately. Advising 3 replicas (2 now)."},
		"stay: replicas.min": {scene: scene{ready: 1, median: flat(0), edit: func(in *Input) { in.Minute.State.KVUsedMax = .02 }}, state: earlier(1), want: 1, action: Hold,
			says: "the pool needs 0 replicas. Staying at 1. Limited by replicas.min 1: 0 wanted."},
		"stay: the last one may run a request": {scene: scene{ready: 1, median: flat(0), edit: func(in *Input) {
			in.Pool.Replicas.Min, in.Minute.State.KVUsedMax = 0, .02
		}}, state: earlier(1), want: 1, action: Hold, says: "0 replicas would do, but a request may still run, because the KV cache is 2.0 % full. Staying at 1."},
		"stay: the demand of now": {scene: scene{ready: 1, median: flat(0), last: 10}, state: earlier(1), want: 1, action: Hold,
			says: "the pool needs 0 replicas. The demand of now takes 1 replica. Staying at 1."},
		"stay: burst tail": {scene: scene{ready: 8, median: flat(350), last: 450}, state: earlier(8), want: 8, action: Hold, says: "a burst of KV memory is still draining"},
		"stay: queue":      {scene: scene{ready: 8, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.WaitingPerReady = 1 }}, state: earlier(8), want: 8, action: Hold, says: "requests are waiting"},
		"stay: a producer fell silent": {scene: scene{ready: 8, median: flat(350), last: 350, edit: func(in *Input) {
			in.Minute.Faults = []features.ProducerFault{{Producer: "slow", Kind: features.FaultBehind, Seconds: 300}, {Producer: "gw-2", Kind: features.FaultSilent, Since: noon}}
		}}, state: earlier(8), want: 8, action: Hold, says: "producer gw-2 fell silent"},
		"stay: the fullest replica would be in danger on one fewer": {scene: scene{ready: 8, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.KVUsedMax, in.Pool.KVTarget, in.Pool.KVTokens = .8, .8, 125 }}, state: earlier(8), want: 8, action: Hold, says: "4 replicas would do, but on fewer the fullest one's KV cache, 80 % full, would pass 85 %. Staying at 8."},
		"scale in: as far as the fullest replica allows":            {scene: scene{ready: 8, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.KVUsedMax, in.Pool.KVTarget, in.Pool.KVTokens = .6, .8, 125 }}, state: earlier(8), config: func(c *Config) { c.ScaleInStep = 0 }, want: 6, action: ScaleIn, says: "6 replicas will do"},
		"stay: replicas fell silent": {scene: scene{median: flat(350), last: 350, edit: func(in *Input) {
			in.Minute.State.Observed, in.Minute.State.ReportedAt = false, noon.Add(-23*time.Hour)
		}}, state: after(earlier(8), assumed), want: 8, action: Hold, says: "4 replicas would do, but no replica has reported since"},
		"scale in: replicas do not report any more": {scene: scene{median: flat(350), last: 350, edit: func(in *Input) {
			in.Minute.State.Observed, in.Minute.State.ReportedAt = false, noon.Add(-24*time.Hour)
		}}, state: after(earlier(8), assumed), want: 7, action: ScaleIn},
		"stay: preemption":                      {scene: scene{ready: 8, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.Preemptions = 1 }}, state: earlier(8), want: 8, action: Hold, says: "preempting"},
		"stay: uncovered minute":                {scene: scene{ready: 8, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.Covered = false }}, state: earlier(8), want: 8, action: Hold, says: "no telemetry"},
		"a scale-in continues":                  {scene: scene{ready: 8, median: flat(350), last: 350}, state: earlier(7), want: 7, action: ScaleIn},
		"a step is from the present replicas":   {scene: scene{ready: 8, median: flat(350), last: 350}, state: earlier(7), config: func(c *Config) { c.ScaleInStep = 3 }, want: 5, action: ScaleIn},
		"more replicas than requested":          {scene: scene{ready: 20, median: flat(350), last: 350}, state: earlier(8), want: 19, action: ScaleIn},
		"a request is kept":                     {scene: scene{ready: 7, pending: 1, median: flat(650), last: 650}, state: after(earlier(8), asked(17)), want: 8, action: Hold, says: "7 replicas would do, but the request for replicas of 11:43 UTC is kept until 12:09. Staying at 8."},
		"a request is kept: ready, in the hold": {scene: scene{ready: 8, median: flat(650), last: 650}, state: after(earlier(8), asked(17)), want: 8, action: Hold, says: "7 replicas would do, but the request for replicas of 11:43 UTC is kept until 12:01. Staying at 8."},
		"a request is over":                     {scene: scene{ready: 8, median: flat(650), last: 650}, state: after(earlier(8), asked(18)), want: 7, action: ScaleIn},
		"a request is kept: a replica is lost":  {scene: scene{ready: 7, median: flat(650), last: 650}, state: after(earlier(8), asked(17)), want: 8, action: ScaleOut, says: "Advising 8 replicas (7 now)."},
		"a request is withdrawn, with a reason": {scene: scene{ready: 7, median: flat(650), last: 650}, state: after(earlier(8), asked(18)), want: 7, action: ScaleIn, says: "Staying at 7. The last decision asked for 8."},
		"a request whose demand is gone":        {scene: scene{ready: 7, pending: 1, median: flat(350), last: 350}, state: after(earlier(8), asked(1)), want: 7, action: ScaleIn, says: "4 replicas will do"},
		"a request when traffic ended":          {scene: scene{ready: 1, pending: 1, median: flat(0), last: 0}, state: after(earlier(2), asked(1)), want: 1, action: ScaleIn},
		"a request is kept: a silent minute":    {scene: scene{ready: 1, pending: 1, median: flat(0), last: 0, edit: func(in *Input) { in.Forecast.Total[0].Basis.Recent.Requests = 2 }}, state: after(earlier(2), asked(1)), want: 2, action: Hold, says: "the request for replicas of 11:59 UTC is kept"},
		"latencies recovered": {scene: scene{ready: 4, median: flat(350), last: 350}, state: after(earlier(4), func(s *State) {
			s.Breach = &Breach{Since: noon.Add(-time.Hour), Until: noon.Add(-10 * time.Minute), Own: Relief{From: 4, Replicas: 6}}
		}), want: 4, action: Hold},
		"a scale-in is withdrawn, with a reason": {scene: scene{ready: 8, median: flat(650), last: 650, edit: func(in *Input) { in.Minute.State.Preemptions = 1 }}, state: earlier(7), want: 8, action: ScaleOut, says: "preempting requests. Staying at 8. The last decision asked for 7."},
		"a scale-in continues in active mode":    {scene: scene{ready: 8, median: flat(650), last: 650, edit: func(in *Input) { in.Minute.State.Preemptions = 1 }}, state: after(earlier(7), func(s *State) { s.LastScaleIn, s.Delivered = noon.Add(-2*time.Minute), new(7) }), config: func(c *Config) { c.Mode = Active }, want: 7, action: Hold},
		"a request is kept for the cooldown":     {scene: scene{ready: 4, median: flat(350), last: 350}, state: after(earlier(9), kept(1, 9)), want: 9, action: ScaleOut, says: "Advising 9 replicas (4 now)."},
		"a request is reduced after it":          {scene: scene{ready: 4, median: flat(560), last: 350}, state: after(earlier(9), kept(2, 9)), want: 6, action: ScaleOut},

		"max replicas": {scene: scene{ready: 4, median: flat(7000), last: 350}, want: 50, action: ScaleOut, says: "replicas.max 50: 70 wanted"},
		"budget":       {scene: scene{ready: 4, median: flat(700), last: 350, edit: func(in *Input) { in.Pool.GPUHourUSD, in.Pool.BudgetHourUSD = 3, 16 }}, want: 5, action: ScaleOut, says: "Limited by budget_hour_usd, enough for 5: 7 wanted."},
		"min replicas": {scene: scene{ready: 1, median: flat(10), last: 10, edit: func(in *Input) { in.Pool.Replicas.Min = 3 }}, want: 3, action: ScaleOut, says: "replicas.min 3"},
		"above max":    {scene: scene{ready: 60, median: flat(5500), last: 5500}, want: 50, action: ScaleIn, says: "replicas.max 50"},
		"above max, and a step": {scene: scene{ready: 8, median: flat(350), last: 350, edit: func(in *Input) { in.Pool.Replicas.Max = 6 }}, state: earlier(8), want: 6, action: ScaleIn,
			says: "Limited by scale_in_step 1: 4 wanted; replicas.max 6: 7 wanted."},
		"at min, and a step": {scene: scene{ready: 6, median: flat(350), last: 350, edit: func(in *Input) { in.Pool.Replicas.Min = 6 }}, state: earlier(6), want: 6, action: Hold,
			says: "Staying at 6. Limited by replicas.min 6: 4 wanted."},
		"zero traffic":        {scene: scene{ready: 2, median: flat(0), last: 0}, state: earlier(2), want: 1, action: ScaleIn},
		"zero traffic, min 0": {scene: scene{ready: 1, median: flat(0), last: 0, edit: func(in *Input) { in.Pool.Replicas.Min = 0 }}, state: earlier(1), want: 0, action: ScaleIn},
		"from zero replicas":  {scene: scene{ready: 0, median: flat(10), last: 10, edit: func(in *Input) { in.Pool.Replicas.Min = 0 }}, state: earlier(0), want: 1, action: ScaleOut},

		"stale holds":                {scene: scene{ready: 8, median: flat(10), last: 10, edit: func(in *Input) { in.Forecast.Stale, in.Minute.LastEvent = true, noon.Add(-7*time.Minute) }}, state: earlier(8), want: 8, action: Hold, says: "The newest telemetry is of 11:53 UTC (7 min ago). Holding 8 replicas."},
		"stale keeps the request":    {scene: scene{ready: 4, median: flat(10), last: 10, edit: func(in *Input) { in.Forecast.Stale = true }}, state: earlier(9), want: 9, action: ScaleOut},
		"stale withdraws a scale-in": {scene: scene{ready: 8, median: flat(10), last: 10, edit: func(in *Input) { in.Forecast.Stale = true }}, state: earlier(7), want: 8, action: ScaleOut, says: "Holding 8 replicas. The last decision asked for 7."},
		"stale with a queue":         {scene: scene{ready: 4, median: flat(10), last: 10, edit: func(in *Input) { in.Forecast.Stale, in.Minute.State.WaitingPerReady = true, 8 }}, state: earlier(4), want: 5, action: ScaleOut},
		"engines without requests": {scene: scene{ready: 8, median: flat(10), edit: func(in *Input) { in.Minute.State.KVUsedMax = .5 }}, state: earlier(8), want: 8, action: Hold,
			says: "no request is reported although its engines are busy"},
		"engines with a queue, without requests": {scene: scene{ready: 8, median: flat(10), edit: func(in *Input) { in.Minute.State.WaitingPerReady = 2 }}, state: earlier(8), want: 8, action: Hold,
			says: "The engines are busy (2.0 requests wait per replica), but no request was reported for 10 min."},
		"no forecast yet":             {scene: scene{ready: 8, median: flat(10), edit: func(in *Input) { in.Forecast.Stale, in.Minute.LastEvent = true, time.Time{} }}, want: 8, action: Hold, says: "There is no telemetry yet."},
		"cold holds":                  {scene: scene{ready: 8, median: flat(2000), last: 10, edit: func(in *Input) { in.Projection.Confidence = forecaster.Cold }}, want: 8, action: Hold, says: "Less than an hour of traffic is known"},
		"cold follows current demand": {scene: scene{ready: 4, median: flat(10), last: 550, edit: func(in *Input) { in.Projection.Confidence = forecaster.Cold }}, want: 6, action: ScaleOut},
		"a limit below the replicas": {scene: scene{ready: 8, median: flat(790), last: 790, edit: func(in *Input) { in.Pool.Replicas.Max = 6 }}, state: earlier(8), want: 6, action: ScaleIn,
			says: "the pool needs 8 replicas. Advising 6 replicas (8 now). Limited by replicas.max 6: 8 wanted."},
		"a limit below the replicas, and a queue": {scene: scene{ready: 8, median: flat(10), last: 10, edit: func(in *Input) {
			in.Pool.Replicas.Max, in.Minute.State.WaitingPerReady = 6, 2
		}}, state: earlier(8), want: 6, action: ScaleIn, says: "1 replica would do, but requests are waiting. Advising 6 replicas (8 now)."},
		"a quota within reach": {scene: scene{ready: 4, median: flat(350), last: 350, edit: func(in *Input) {
			in.Limits = []forecaster.ResourceProjection{{Dimension: "limits.requests_per_min", PerReplica: 10, Demand: 8, ETA: forecaster.ETA{P50: 9 * time.Minute}}}
			in.Limits[0].Probability[17] = .8 // within the lead time and hold
		}}, want: 4, action: Hold, says: "the limit of 600 requests per min will probably be reached within 18 min (80 % likely); more replicas do not help"},
		"no capacity known":     {scene: scene{ready: 8, median: flat(10), last: 10, edit: func(in *Input) { in.Pool.KVTokens = 0 }}, want: 8, action: Hold, says: "Set kv_capacity_tokens"},
		"only limits are known": {scene: scene{ready: 1, median: flat(10), last: 10, edit: func(in *Input) { in.Pool.KVTokens, in.Pool.Limits.RequestsPerMin = 0, 600 }}, want: 1, action: Hold, says: "Only limits of the whole pool are known"},
		"no demand known": {scene: scene{ready: 8, median: flat(10), last: 10, edit: func(in *Input) { in.Forecast.Total[0].Now.Mean = math.NaN() }}, want: 8, action: Hold,
			says: "No demand for KV memory is known yet"},
		"capacity reported by engines": {scene: scene{ready: 4, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.KVCapacityTokens = 50 }}, want: 7, action: ScaleOut},
		"capacity as last reported":    {scene: scene{ready: 4, median: flat(350), last: 350}, state: after(earlier(4), func(s *State) { s.KVTokens = 50 }), want: 7, action: ScaleOut},
		"no replica reports":           {scene: scene{ready: 99, median: flat(350), last: 350, edit: func(in *Input) { in.Minute.State.Observed = false }}, want: 4, action: Hold, says: "assuming 4 ready and 0 starting"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			if tt.config != nil {
				tt.config(&cfg)
			}
			d, st := Decide(noon, tt.scene.input(t), tt.state, cfg)
			if d.Desired != tt.want || d.Action != tt.action {
				t.Errorf("desired %d (%s), want %d (%s): %s", d.Desired, d.Action, tt.want, tt.action, d.Reason)
			}
			said := d.Reason + d.Withheld + strings.Join(texts(d.Constraints), "; ") + strings.Join(d.Warnings, "; ")
			if !strings.Contains(said, tt.says) {
				t.Errorf("%q\ndoes not have %q", said, tt.says)
			}
			if st.LastDesired != d.Desired {
				t.Errorf("the state has %d of %d desired", st.LastDesired, d.Desired)
			}
		})
	}
}

func costs(gpuHour, minute float64) func(*Input) {
	return func(in *Input) { in.Pool.GPUHourUSD, in.Pool.SLOViolationMinuteUSD = gpuHour, minute }
}

func TestDecideReason(t *testing.T) {
	in := scene{ready: 14, median: rising(18, 1350, 1880), last: 1350, edit: func(in *Input) {
		r := &in.Projection.Resources[0]
		for h := range r.Probability {
			r.Probability[h] = .86
		}
		r.ETA = forecaster.ETA{P10: 12 * time.Minute, P50: 19 * time.Minute, P90: 27 * time.Minute}
		in.Projection.Drivers = []forecaster.Driver{{Class: "agent", Cause: "prompt_length", Factor: 2.1, Share: .6}}
	}}.input(t)
	cfg := DefaultConfig()
	cfg.Mode = Active
	d, _ := Decide(noon, in, State{}, cfg)
	want := "KV memory will be full in about 18 min. That is 85 % likely by 12:18 UTC. Asking for 19 replicas (14 now). A new one takes up to 13 min. Class agent causes it: prompts 2.1 times as long within an hour."
	if d.Reason != want {
		t.Errorf("got  %s\nwant %s", d.Reason, want)
	}
	if want := noon.Add(17 * time.Minute); !d.NeededBy.Equal(want) {
		t.Errorf("needed by %s, want %s", d.NeededBy, want)
	}
}

// Four replicas are enough for the uncached prompts. But without the fifth, the prompts that are in its cache must be
// computed too.
func TestScaleInLosesCache(t *testing.T) {
	for cached, want := range map[float32]int{0: 4, 600 * 200: 4, 600 * 300: 5} { // tokens of ten minutes; a fifth of it each
		in := scene{ready: 5, median: flat(350), last: 350, edit: func(in *Input) {
			f := &in.Forecast.Total[0]
			f.Dimension, f.Basis.Recent.Cached = features.DimPrefill, cached
			in.Pool.Rates.PrefillTokensPerS = 100
		}}.input(t)
		if d, _ := Decide(noon, in, State{LastTick: noon.Add(-time.Minute), LastDesired: 5, UsableSince: noon.Add(-time.Hour)}, DefaultConfig()); d.Desired != want {
			t.Errorf("%g cached tokens: %d replicas, want %d", cached, d.Desired, want)
		}
	}
}

// Pending replicas count as supply. An autoscaler that does not count them requests 2, 4, 8, 16 replicas and so on.
func TestDecideCountsPending(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Mode = Active
	var st State
	for minute := range 12 {
		s := scene{ready: 4, median: flat(760), last: 760, edit: func(in *Input) { in.Minute.State.WaitingPerReady = 6 }}
		if minute > 0 {
			s.pending = st.LastDesired - 4
		}
		var d Decision
		d, st = Decide(noon.Add(time.Duration(minute)*time.Minute), s.input(t), st, cfg)
		if d.Desired != 8 {
			t.Fatalf("minute %d: %d desired, want 8: %s", minute, d.Desired, d.Reason)
		}
	}
}

// Without replica reports, the replicas that an active pool requested are assumed to be ready after the warm-up.
func TestDecideWithoutReports(t *testing.T) {
	for mode, want := range map[Mode][2]int{Active: {7, 0}, Advisory: {4, 0}} {
		cfg := DefaultConfig()
		cfg.Mode = mode
		s := scene{median: flat(620), last: 620, edit: func(in *Input) { in.Minute.State = features.PoolState{} }}
		var st State
		var d Decision
		for minute := range 16 {
			d, st = Decide(noon.Add(time.Duration(minute)*time.Minute), s.input(t), st, cfg)
			if d.Desired != 7 {
				t.Fatalf("%s, minute %d: %d desired, want 7", mode, minute, d.Desired)
			}
			if mode == Active && minute == 1 && d.Pending != 3 {
				t.Errorf("%d pending after the request, want 3", d.Pending)
			}
		}
		if got := [2]int{d.Ready, d.Pending}; got != want {
			t.Errorf("%s: %v ready and pending, want %v", mode, got, want)
		}
	}
}

func TestDecidePublishes(t *testing.T) {
	cfg := DefaultConfig()
	var st State
	var published []int
	for minute := range 30 {
		last := 350.
		if minute >= 12 {
			last = 620
		}
		d, next := Decide(noon.Add(time.Duration(minute)*time.Minute), scene{ready: 4, median: flat(last), last: last}.input(t), st, cfg)
		st = next
		if d.Publish {
			published = append(published, minute)
		}
		if want := noon.Unix()/60 + int64(len(published)) - 1; d.Generation != want {
			t.Fatalf("minute %d: generation %d after %d publications, want %d", minute, d.Generation, len(published), want)
		}
	}
	// After the state was lost, generations are above those that were published.
	if d, _ := Decide(noon.Add(30*time.Minute), scene{ready: 4, median: flat(350), last: 350}.input(t), State{}, cfg); d.Generation <= st.Generation {
		t.Errorf("generation %d after the state was lost, %d before", d.Generation, st.Generation)
	}
	// The first decision, a renewal after 10 minutes, a change, and a renewal.
	if want := []int{0, 10, 12, 22}; !slices.Equal(published, want) {
		t.Errorf("published at %v, want %v", published, want)
	}
}

// A decision is published as soon as autoscalers may follow it, or may not any more, although the number is the same.
func TestDecidePublishesToObey(t *testing.T) {
	var st State
	var published []int
	steps := []struct {
		mode  Mode
		known int
		stale bool
	}{{Active, 3, false}, {Active, 4, false}, {Active, 5, false}, {Active, 6, false}, {Active, 7, true}, {Active, 8, false}, {Advisory, 9, false}, {Advisory, 10, false}, {Active, 11, false}}
	for minute, x := range steps {
		cfg := DefaultConfig()
		cfg.Mode = x.mode
		in := scene{ready: 4, median: flat(350), last: 520, edit: func(in *Input) {
			in.Projection.Confidence, in.Forecast.Total[0].Known, in.Forecast.Stale = forecaster.Cold, x.known, x.stale
		}}.input(t)
		d, next := Decide(noon.Add(time.Duration(minute)*time.Minute), in, st, cfg)
		if st = next; d.Publish {
			published = append(published, minute)
		}
		if d.Desired != 6 {
			t.Errorf("minute %d: %d desired, want 6", minute, d.Desired)
		}
	}
	if want := []int{0, 2, 3, 4, 5, 6, 8}; !slices.Equal(published, want) {
		t.Errorf("published at %v, want %v", published, want)
	}
}

// drawInput draws valid inputs, and ones with NaN, infinities, and huge and negative values.
func drawInput(t *rapid.T, tb testing.TB) (Input, State, Config) {
	number := rapid.OneOf(rapid.Float64Range(0, 1e4), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), 1e300, -1}))
	peak, base := number.Draw(t, "peak"), number.Draw(t, "base")
	at := rapid.IntRange(1, 60).Draw(t, "at")
	s := scene{
		ready: rapid.IntRange(0, 60).Draw(t, "ready"), pending: rapid.IntRange(0, 20).Draw(t, "pending"),
		median: rising(at, base, peak), spread: rapid.Float64Range(0, 2).Draw(t, "spread"), last: number.Draw(t, "last"),
	}
	in := s.input(tb)
	in.Minute.State.Observed = rapid.Bool().Draw(t, "observed")
	in.Minute.State.KVUsedMax = number.Draw(t, "kv use")
	in.Minute.State.WaitingPerReady = number.Draw(t, "waiting")
	in.Minute.State.KVCapacityTokens = number.Draw(t, "kv capacity")
	in.Minute.Covered = rapid.Bool().Draw(t, "covered")
	in.Forecast.Stale = rapid.Bool().Draw(t, "stale")
	in.Projection.Probability = number.Draw(t, "probability")
	in.Projection.Resources[0].Probability[17] = number.Draw(t, "probability")
	in.Projection.Drivers = []forecaster.Driver{{Class: "chat", Cause: "rate", Factor: number.Draw(t, "factor")}}
	in.Projection.Confidence = rapid.SampledFrom([]forecaster.Confidence{forecaster.Cold, forecaster.Warm, forecaster.Seasonal}).Draw(t, "confidence")
	in.Pool.Replicas.Min = rapid.IntRange(0, 5).Draw(t, "min")
	in.Pool.Reserves.Failure = rapid.IntRange(0, 3).Draw(t, "failure")
	cfg := DefaultConfig()
	cfg.Mode = rapid.SampledFrom([]Mode{Advisory, Active}).Draw(t, "mode")
	st := State{}
	if rapid.Bool().Draw(t, "has past") {
		st = State{Generation: 5, LastDesired: rapid.IntRange(0, 50).Draw(t, "last desired"), LastTick: noon.Add(-time.Minute),
			LastScaleOut: noon.Add(-time.Duration(rapid.IntRange(1, 90).Draw(t, "since out")) * time.Minute)}
	}
	return in, st, cfg
}

func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in, st, cfg := drawInput(rt, t)
		d, next := Decide(noon, in, st, cfg)
		limit, _ := in.Pool.Limit()
		if d.Desired < in.Pool.Replicas.Min || d.Desired > limit {
			rt.Fatalf("%d desired is out of %d…%d", d.Desired, in.Pool.Replicas.Min, limit)
		}
		blind := in.Forecast.Stale || in.Projection.Confidence == forecaster.Cold
		if total := min(d.Ready+d.Pending, limit); blind && (d.Action == ScaleIn || d.Desired < total) {
			rt.Fatalf("scaled in to %d of %d, stale or cold: %s", d.Desired, total, d.Reason)
		}
		if d.Desired != d.Needed && len(d.Constraints) == 0 {
			rt.Fatalf("%d needed, %d desired, and no constraint", d.Needed, d.Desired)
		}
		if !st.LastTick.IsZero() && d.Desired != st.LastDesired && d.Action == Hold && len(d.Constraints) == 0 {
			rt.Fatalf("%d after %d, action hold and no constraint: %s", d.Desired, st.LastDesired, d.Reason)
		}
		if _, err := json.Marshal(NewPrescale(&d)); err != nil {
			rt.Fatalf("event: %v", err) // NaN and infinities have no JSON
		}
		if _, err := json.Marshal(d); err != nil {
			rt.Fatalf("decision: %v", err)
		}
		if strings.Contains(d.Reason, "NaN") || strings.Contains(d.Reason, "Inf") {
			rt.Fatal(d.Reason)
		}
		again, nextAgain := Decide(noon, in, st, cfg)
		if diff := cmp.Diff(d, again) + cmp.Diff(next, nextAgain); diff != "" {
			rt.Fatalf("not deterministic: %s", diff)
		}
	})
}

func TestDecideNeededBy(t *testing.T) {
	tests := map[string]struct {
		scene scene
		want  time.Time
	}{
		"when the forecast exceeds what is ready": {scene: scene{ready: 4, median: rising(10, 350, 620), last: 350}, want: noon.Add(9 * time.Minute)},
		"pending replicas are not ready":          {scene: scene{ready: 4, pending: 1, median: rising(10, 450, 620), last: 350}, want: noon},
		"now, for the floor":                      {scene: scene{ready: 4, median: rising(10, 350, 620), last: 520}, want: noon},
		"never, without a request":                {scene: scene{ready: 4, median: flat(350), last: 350}},
	}
	for name, tt := range tests {
		if d, _ := Decide(noon, tt.scene.input(t), State{}, DefaultConfig()); !d.NeededBy.Equal(tt.want) {
			t.Errorf("%s: needed by %s, want %s", name, d.NeededBy, tt.want)
		}
	}
}

// A change of the binding resource is published only if replicas are requested.
func TestDecidePublishesBinding(t *testing.T) {
	for _, tt := range []struct {
		ready   int
		publish bool
	}{{ready: 4}, {ready: 2, publish: true}} {
		s := scene{ready: tt.ready, median: flat(350), last: 350}
		_, st := Decide(noon, s.input(t), State{}, DefaultConfig())
		s.edit = func(in *Input) {
			f := in.Forecast.Total[0]
			f.Dimension = features.DimDecode
			in.Forecast.Total = append(in.Forecast.Total, f)
			in.Pool.Rates.DecodeTokensPerS = 100
			in.Projection.Binding = features.DimDecode
		}
		d, _ := Decide(noon.Add(time.Minute), s.input(t), st, DefaultConfig())
		if d.Binding != features.DimDecode || d.Publish != tt.publish {
			t.Errorf("%d ready: binding %s, published %t, want %t", tt.ready, d.Binding, d.Publish, tt.publish)
		}
	}
}

func TestReplicasFor(t *testing.T) {
	for _, tt := range []struct {
		demand, per float64
		want        int
	}{{0, 5, 0}, {-3, 5, 0}, {5, 5, 1}, {5.01, 5, 2}, {0.30000000000000004, .1, 3}, {1e300, 1e-300, maxNeed}} {
		if got := ReplicasFor(tt.demand, tt.per); got != tt.want {
			t.Errorf("%g over %g takes %d, want %d", tt.demand, tt.per, got, tt.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 min", time.Second: "1 min", time.Minute: "1 min", 61 * time.Second: "2 min"} {
		if got := wholeMinutes(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
