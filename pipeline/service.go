package pipeline

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// readyKept is for how many minutes the number of ready replicas is kept: a minute that settles is at most an hour old.
const readyKept = 64

// service learns what a pool's replicas do, from minutes that have settled.
type service struct {
	learned capacity.Service
	ready   readyMinutes
}

// readyMinutes are the newest numbers of ready replicas, by the minute.
type readyMinutes struct {
	Newest int64            `cbor:"1,keyasint,omitempty"` // minute since 1970
	Counts [readyKept]int32 `cbor:"2,keyasint"`           // by minute modulo readyKept; 0 is unknown
}

// note keeps the number of ready replicas at the end of a minute.
func (r *readyMinutes) note(at time.Time, ready int) {
	minute := at.Unix() / 60
	for m := max(r.Newest+1, minute-readyKept+1); m < minute; m++ {
		r.Counts[m%readyKept] = 0
	}
	r.Newest = max(r.Newest, minute)
	r.Counts[minute%readyKept] = int32(ready)
}

// during is how many replicas were ready throughout a minute; 0 when that is not known or it changed.
func (r *readyMinutes) during(start time.Time) float64 {
	before := start.Unix() / 60
	if before+1 > r.Newest || before <= r.Newest-readyKept {
		return 0
	}
	if n := r.Counts[before%readyKept]; n > 0 && n == r.Counts[(before+1)%readyKept] {
		return float64(n)
	}
	return 0
}

// serviceSums is one minute of one pool over its classes.
type serviceSums struct {
	start          time.Time
	output, area   float64 // tokens generated, token-seconds held
	itl, itlTokens float64 // ITL by the tokens of its class
	prefills       features.Prefills
	prompts        float64 // token-seconds that prompts were held for until the first token
	prefill        float64 // tokens
	censored       bool
}

func (s *serviceSums) add(w *features.Window) {
	s.start = w.Start
	s.output += w.OutputTokens
	s.area += w.KVTokenSeconds
	s.prefill += w.PromptTokens - w.CachedTokens
	s.censored = s.censored || w.Censored
	if w.ITL != nil && w.ITL.Count() > 0 && w.OutputTokens > 0 {
		s.itl += w.OutputTokens * w.ITL.Mean()
		s.itlTokens += w.OutputTokens
	}
	s.prefills.Merge(w.Prefills)
	if w.TTFT != nil && w.QueueWait != nil && w.TTFT.Count() > 0 && w.QueueWait.Count() > 0 {
		s.prompts += w.PromptTokens * (w.TTFT.Mean() - w.QueueWait.Mean())
	}
}

// minute is the average of each of so many replicas. Where prompts are computed on replicas of their own (apart), nobody says how
// many of those there are, so that the minute says nothing of prompts.
func (s *serviceSums) minute(replicas float64, apart bool) capacity.ServiceMinute {
	const seconds = 60
	m := capacity.ServiceMinute{Replicas: replicas}
	if s.itlTokens > 0 && s.itlTokens > 0.9*s.output {
		m.ITL = s.itl / s.itlTokens
		m.Decoding = s.output / seconds * m.ITL / replicas
		m.KV = s.area / seconds / replicas
		m.Context = (s.area - s.prompts) / seconds / replicas / m.Decoding
	}
	if !s.censored && !apart { // prompts that were turned away took nothing
		m.Prompts, m.Prefill = capacity.PrefillSums(s.prefills), s.prefill/seconds/replicas
	}
	return m
}

// learnService teaches each pool's service what the minutes that settled show of it.
func (p *Pipeline) learnService(windows []features.Window, pools []features.PoolMinute) {
	for i := range pools {
		m := &pools[i]
		if e := p.entry(m.Pool); e != nil && m.State.Observed {
			e.service.ready.note(m.State.At, m.State.Ready)
		}
	}
	var sums serviceSums
	var of *poolEntry
	pool := ""
	finish := func() {
		if of != nil {
			if replicas := of.service.ready.during(sums.start); replicas > 0 {
				of.service.learned.Observe(sums.minute(replicas, of.pool.Disaggregated))
			}
		}
		sums = serviceSums{}
	}
	for i := range windows { // pool by pool, all of one minute
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

// limitsOf are a pool's limits. Cached tokens are not forecast, so that a quota that counts them comes sooner than is said.
func limitsOf(p *capacity.Pool) []forecaster.Limit {
	return []forecaster.Limit{
		{Name: "limits.requests_per_min", Dimensions: []string{features.DimRequests}, PerS: p.Limits.RequestsPerMin / 60},
		{Name: "limits.tokens_per_min", Dimensions: []string{features.DimPrefill, features.DimDecode}, PerS: p.Limits.TokensPerMin / 60},
	}
}

// likely is the probability from which a limit that will be reached is worth a warning.
const likely = 0.5

// limitWarnings say which limits will probably be reached within window.
func limitWarnings(limits []forecaster.ResourceProjection, window time.Duration) (warnings []string) {
	minutes := min(max(int(window/features.Minute), 1), forecaster.Horizon)
	for i := range limits {
		l := &limits[i]
		if p := l.Probability[minutes-1]; p >= likely {
			warnings = append(warnings, fmt.Sprintf("%s %.0f will be reached within %d minutes with a probability of %.0f %%, and no replica lifts it", l.Dimension, 60*l.PerReplica, minutes, 100*p))
		}
	}
	return warnings
}

// transferWarning says that prefill replicas send slower than they compute.
func transferWarning(p *capacity.Pool) string {
	return fmt.Sprintf("a prefill replica sends %.0f tokens/s of KV cache at most (disaggregated.transfer), so that it counts for %.0f prompt tokens/s to compute", p.TransferTokensPerS, p.Rates.PrefillTokensPerS)
}
