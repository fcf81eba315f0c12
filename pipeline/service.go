package pipeline

import (
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// serviceMinute is the mean service of a replica in the minute m of a pool, from the settled windows of its classes. In
// a disaggregated pool the number of prefill replicas is unknown, so the minute has no prompts.
func serviceMinute(pool *capacity.Pool, m *features.PoolMinute, windows []features.Window) capacity.ServiceMinute {
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
	replicas := float64(m.Steady)
	out := capacity.ServiceMinute{Replicas: replicas, ITL: m.Served.MeanITL()}
	if out.ITL > 0 {
		out.Decoding = output / seconds * out.ITL / replicas
		out.KV = area / seconds / replicas
		out.Context = (area - m.Served.PromptSeconds) / seconds / replicas / out.Decoding
	}
	if !censored && !pool.Disaggregated { // rejected prompts took no time
		out.Prompts, out.Prefill = m.Served.Prefills, prefill/seconds/replicas
	}
	return out
}

// updatePools updates the signals of each pool, and its service from its settled windows. The settled windows are the
// first ones, all of one minute and in the order of pools.
func (p *Pipeline) updatePools(windows []features.Window, minutes []features.PoolMinute) {
	for i := range minutes {
		m := &minutes[i]
		n := 0 // settled windows of the pool
		for n < len(windows) && windows[n].Settled && windows[n].Pool == m.Pool {
			n++
		}
		settled := windows[:n]
		windows = windows[n:]
		e := p.byName[m.Pool]
		if e == nil {
			continue
		}
		e.Signals = e.Signals.Add(m.Latencies)
		if n > 0 && m.Steady > 0 {
			e.Service.Observe(serviceMinute(&e.pool, m, settled))
		}
	}
}

// limitsOf are a pool's limits. The limit of tokens counts cached ones too, as providers do.
func limitsOf(p *capacity.Pool) []forecaster.Limit {
	requests, tokens := []string{features.DimRequests}, []string{features.DimPrefill, features.DimCached, features.DimDecode}
	return []forecaster.Limit{
		{Name: "limits.requests_per_min", Dimensions: requests, PerS: p.Limits.RequestsPerMin / 60},
		{Name: "limits.tokens_per_min", Dimensions: tokens, PerS: p.Limits.TokensPerMin / 60},
	}
}
