package pipeline

import (
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// serviceMinute is the mean of each replica in a minute, from the settled windows of a pool's classes. In a disaggregated
// pool the number of prefill replicas is unknown, so the minute has no prompts.
func serviceMinute(windows []features.Window, replicas float64, disaggregated bool) capacity.ServiceMinute {
	const seconds = 60
	var output, area, prefill float64 // generated tokens; token-seconds held; computed prompt tokens
	var itl, itlTokens float64        // ITL weighted by output tokens; those tokens
	var prompts float64               // token-seconds of prompts until the first token
	var prefills features.Prefills
	censored := false
	for i := range windows {
		w := &windows[i]
		output += w.OutputTokens
		area += w.KVTokenSeconds
		prefill += w.PromptTokens - w.CachedTokens
		censored = censored || w.Censored
		if w.ITL.Count() > 0 && w.OutputTokens > 0 {
			itl += w.OutputTokens * w.ITL.Mean()
			itlTokens += w.OutputTokens
		}
		prefills.Merge(w.Prefills)
		if w.TTFT.Count() > 0 { // a request that reports no start holds its prompt from its arrival
			prompts += w.PromptTokens * (w.TTFT.Mean() - w.QueueSeconds/max(w.QueueKnown, w.TTFT.Count()))
		}
	}
	m := capacity.ServiceMinute{Replicas: replicas}
	if itlTokens > 0 && itlTokens > 0.9*output {
		m.ITL = itl / itlTokens
		m.Decoding = output / seconds * m.ITL / replicas
		m.KV = area / seconds / replicas
		m.Context = (area - prompts) / seconds / replicas / m.Decoding
	}
	if !censored && !disaggregated { // rejected prompts took no time
		m.Prompts, m.Prefill = prefills, prefill/seconds/replicas
	}
	return m
}

// updatePools updates the signals of each pool, and teaches its service from the settled windows. These are of one minute
// and come first, in the order of pools.
func (p *Pipeline) updatePools(t time.Time, windows []features.Window, minutes []features.PoolMinute) {
	rest := windows
	for i := range minutes {
		m, n := &minutes[i], 0
		for n < len(rest) && rest[n].Settled && rest[n].Pool == m.Pool {
			n++
		}
		settled := rest[:n]
		rest = rest[n:]
		e := p.byName[m.Pool]
		if e == nil {
			continue
		}
		e.Signals = e.Signals.Add(t, windows, m.Pool)
		if n > 0 && m.Steady > 0 {
			e.Service.Observe(serviceMinute(settled, float64(m.Steady), e.pool.Disaggregated))
		}
	}
}

// limitsOf are a pool's limits. That of tokens counts cached ones, as providers do.
func limitsOf(p *capacity.Pool) []forecaster.Limit {
	requests, tokens := []string{features.DimRequests}, []string{features.DimPrefill, features.DimCached, features.DimDecode}
	return []forecaster.Limit{
		{Name: "limits.requests_per_min", Dimensions: requests, PerS: p.Limits.RequestsPerMin / 60},
		{Name: "limits.tokens_per_min", Dimensions: tokens, PerS: p.Limits.TokensPerMin / 60},
	}
}
