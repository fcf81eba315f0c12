package pipeline

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// readyKept is the number of minutes with ready replicas that are kept: a minute settles within an hour.
const readyKept = 64

// service learns the service rates of a pool's replicas from settled minutes.
type service struct {
	learned capacity.Service
	ready   readyMinutes
}

// readyMinutes are the newest numbers of ready replicas, by minute.
type readyMinutes struct {
	Newest int64            `cbor:"1,keyasint,omitempty"` // minute since 1970
	Counts [readyKept]int32 `cbor:"2,keyasint"`           // by minute modulo readyKept; 0 is unknown
}

// set the number of ready replicas at the end of a minute.
func (r *readyMinutes) set(at time.Time, ready int) {
	minute := at.Unix() / 60
	for m := max(r.Newest+1, minute-readyKept+1); m < minute; m++ {
		r.Counts[m%readyKept] = 0
	}
	r.Newest = max(r.Newest, minute)
	r.Counts[minute%readyKept] = int32(ready)
}

// throughout is the number of ready replicas of a minute; 0 if unknown or changed.
func (r *readyMinutes) throughout(start time.Time) float64 {
	before := start.Unix() / 60
	if before+1 > r.Newest || before <= r.Newest-readyKept {
		return 0
	}
	if n := r.Counts[before%readyKept]; n > 0 && n == r.Counts[(before+1)%readyKept] {
		return float64(n)
	}
	return 0
}

// serviceSums are the sums of one minute of one pool over its classes.
type serviceSums struct {
	start          time.Time
	output, area   float64 // generated tokens; token-seconds held
	itl, itlTokens float64 // ITL weighted by output tokens; those tokens
	prefills       features.Prefills
	prompts        float64 // token-seconds of prompts until the first token
	prefill        float64 // tokens
	censored       bool
}

func (s *serviceSums) add(w *features.Window) {
	s.start = w.Start
	s.output += w.OutputTokens
	s.area += w.KVTokenSeconds
	s.prefill += w.PromptTokens - w.CachedTokens
	s.censored = s.censored || w.Censored
	if w.ITL.Count() > 0 && w.OutputTokens > 0 {
		s.itl += w.OutputTokens * w.ITL.Mean()
		s.itlTokens += w.OutputTokens
	}
	s.prefills.Merge(w.Prefills)
	if w.TTFT.Count() > 0 && w.QueueKnown > 0 {
		s.prompts += w.PromptTokens * (w.TTFT.Mean() - w.QueueSeconds/w.QueueKnown)
	}
}

// minute is the mean of each replica. In a disaggregated pool the number of prefill replicas is unknown, so the minute
// has no prompts.
func (s *serviceSums) minute(replicas float64, disaggregated bool) capacity.ServiceMinute {
	const seconds = 60
	m := capacity.ServiceMinute{Replicas: replicas}
	if s.itlTokens > 0 && s.itlTokens > 0.9*s.output {
		m.ITL = s.itl / s.itlTokens
		m.Decoding = s.output / seconds * m.ITL / replicas
		m.KV = s.area / seconds / replicas
		m.Context = (s.area - s.prompts) / seconds / replicas / m.Decoding
	}
	if !s.censored && !disaggregated { // rejected prompts took no time
		m.Prompts, m.Prefill = capacity.PrefillSums(s.prefills), s.prefill/seconds/replicas
	}
	return m
}

// learnService teaches each pool's service from the settled minutes.
func (p *Pipeline) learnService(windows []features.Window, pools []features.PoolMinute) {
	for i := range pools {
		m := &pools[i]
		if e := p.entry(m.Pool); e != nil && m.State.Observed {
			e.service.ready.set(m.State.At, m.State.Ready)
		}
	}
	var sums serviceSums
	var of *poolEntry
	pool := ""
	finish := func() {
		if of != nil {
			if replicas := of.service.ready.throughout(sums.start); replicas > 0 {
				of.service.learned.Observe(sums.minute(replicas, of.pool.Disaggregated))
			}
		}
		sums = serviceSums{}
	}
	for i := range windows { // grouped by pool and minute
		w := &windows[i]
		if !w.Settled {
			continue
		}
		if w.Pool != pool || !w.Start.Equal(sums.start) {
			finish()
			pool, of = w.Pool, p.entry(w.Pool)
		}
		sums.add(w)
	}
	finish()
}

// limitsOf are a pool's limits. Cached tokens are not forecast, so a quota that counts them is reached earlier.
func limitsOf(p *capacity.Pool) []forecaster.Limit {
	return []forecaster.Limit{
		{Name: "limits.requests_per_min", Dimensions: []string{features.DimRequests}, PerS: p.Limits.RequestsPerMin / 60},
		{Name: "limits.tokens_per_min", Dimensions: []string{features.DimPrefill, features.DimDecode}, PerS: p.Limits.TokensPerMin / 60},
	}
}

// warnProbability is the least probability of reaching a limit that gives a warning.
const warnProbability = 0.5

// limitWarnings lists the limits that will probably be reached within window.
func limitWarnings(limits []forecaster.ResourceProjection, window time.Duration) (warnings []string) {
	minutes := min(max(int(window/features.Minute), 1), forecaster.Horizon)
	for i := range limits {
		l := &limits[i]
		if p := l.Probability[minutes-1]; p >= warnProbability {
			warnings = append(warnings, fmt.Sprintf("%s %.0f will be reached within %d minutes with a probability of %.0f %%; more replicas do not help", l.Dimension, 60*l.PerReplica, minutes, 100*p))
		}
	}
	return warnings
}
