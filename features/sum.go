package features

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// AddSum counts traffic that its producer has summed, in the minute of its Start. It returns "" or the reason of a
// refusal, as AddRequest does. Fields that are NaN stay unknown. The caller has checked that the pool is known and the
// time not in the future.
//
// KV occupancy of a sum follows by Little's law from its means, if it does not have its own. The error is up to 2× on
// mixed traffic, because the product of means is not the mean of products. It is unknown if requests, prompt or output is
// unknown.
func (a *Aggregator) AddSum(s *ingest.Sum) ingest.Reason {
	at := unixTimeOf(s.Start)
	minute := at.minute()
	a.begin(minute)
	if reason := a.refuse(minute); reason != "" {
		if reason == ingest.ReasonLate {
			a.addLateSum(s)
		}
		return reason
	}
	a.counters.Sums++
	if minute < a.open {
		a.counters.Amended++
	}

	p := a.pool(s.Pool)
	a.evidence(p, minute, at)
	c := a.class(p, s.Class, minute)
	w := a.bucket(c, minute)
	w.Records++
	if s.Requests >= 0 {
		c.Reports |= ReportsRequests
		w.RequestsKnown++
		w.Requests += s.Requests
	}
	cached := min(s.CachedTokens, s.PromptTokens) // NaN when either is
	if s.PromptTokens >= 0 {
		c.Reports |= ReportsPrompt
		w.PromptKnown++
		w.PromptTokens += s.PromptTokens
	}
	if cached >= 0 {
		c.Reports |= ReportsCached
		w.CachedKnown++
		w.CachedTokens += cached
		w.PromptOfCachedKnown += s.PromptTokens
	}
	if s.OutputTokens >= 0 {
		c.Reports |= ReportsOutput
		w.OutputKnown++
		w.OutputTokens += s.OutputTokens
	}
	area := modelledSum(s, cached, p.service)
	if s.KVTokens != nil {
		area = *s.KVTokens * seconds
	}
	if area >= 0 {
		c.Reports |= ReportsKV
		w.KVKnown++
		w.KVModelled += area
	}
	return ""
}

// modelledSum is the area that the requests of a sum hold, in token-seconds; NaN when unknown.
func modelledSum(s *ingest.Sum, cached float64, service Service) float64 {
	if s.Requests == 0 && s.PromptTokens == 0 && s.OutputTokens == 0 {
		return 0
	}
	if !(s.Requests > 0) {
		return math.NaN()
	}
	if !(cached >= 0) {
		cached = 0
	}
	prompt, output := s.PromptTokens/s.Requests, s.OutputTokens/s.Requests
	return s.Requests * modelled(prompt, (s.PromptTokens-cached)/s.Requests, output, service)
}
