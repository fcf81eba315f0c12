package pipeline

import (
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// serviceMinute is the mean of each replica in a minute, from the settled windows of a pool's classes and its service.
// In a disaggregated pool the number of prefill replicas is unknown, so the minute has no prompts.
func serviceMinute(
	windows []features.Window, served *features.Served, replicas float64, disaggregated bool,
) capacity.ServiceMinute {
	const seconds = 60
	var output, area, prefill float64 // generated tokens; token-seconds held; computed prompt tokens
	censored := false
	for i := range windows {
		w := &windows[i]
		output += w.OutputTokens
		area += w.KVTokenSeconds
		prefill += w.PromptTokens - w.CachedTokens
		censored = censored || w.Censored
	}
	m := capacity.ServiceMinute{Replicas: replicas}
	if m.ITL = served.MeanITL(); m.ITL > 0 {
		m.Decoding = output / seconds * m.ITL / replicas
		m.KV = area / seconds / replicas
		m.Context = (area - served.PromptSeconds) / seconds / replicas / m.Decoding
	}
	if !censored && !disaggregated { // rejected prompts took no time
		m.Prompts, m.Prefill = served.Prefills, prefill/seconds/replicas
	}
	return m
}

// updatePools updates the signals of each pool, and teaches its service from the settled windows. These are of one minute
// and come first, in the order of pools.
func (p *Pipeline) updatePools(windows []features.Window, minutes []features.PoolMinute) {
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
		e.Signals = e.Signals.Add(m.Latencies)
		if n > 0 && m.Steady > 0 {
			e.Service.Observe(serviceMinute(settled, m.Served, float64(m.Steady), e.pool.Disaggregated))
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
