package features

import "slices"

// Attempts counts the attempts of one minute of a pool. Demand counts each call once; the other attempts are load
// beyond demand. The arrays are indexed by forecast dimension, in its unit.
type Attempts struct {
	_ struct{} `cbor:",toarray"`

	Minute      int64   // Unix time
	Retries     float32 // attempts at calls that were counted before
	Failed      float32 // attempts of any number that were rejected, cancelled or failed
	FailedCalls float32 // those of Failed that are counted as calls

	Calls    [forecastDimensions]float32 // demand, without the correction for queues
	Again    [forecastDimensions]float32 // work of engines for Retries
	Unserved [forecastDimensions]float32 // the part of Calls that failed attempts still needed
}

// forecastDimensions is how many rows of Dimensions are forecast.
const forecastDimensions = 4

// attemptsSpan is for how many minutes after the last retry a pool's attempts are still returned.
const attemptsSpan = 10

// LoadFactor is the load of all attempts divided by the load of the calls, for a forecast dimension, over some minutes:
// 1 + (again − unserved · retried) / calls, at least 1. The unserved part of a failed attempt is in its call's demand.
// If the call was retried, later attempts did that work, and it must count once. retried is the share of failed calls
// that were retried.
func LoadFactor(rows []Attempts, dimension string) float64 {
	d := slices.IndexFunc(nowcasted, func(i int) bool { return Dimensions[i].Name == dimension })
	var calls, again, unserved, retries, failed, failedCalls float64
	for i := range rows {
		r := &rows[i]
		calls, again, unserved = calls+float64(r.Calls[d]), again+float64(r.Again[d]), unserved+float64(r.Unserved[d])
		retries, failed, failedCalls = retries+float64(r.Retries), failed+float64(r.Failed), failedCalls+float64(r.FailedCalls)
	}
	retried := 1.0
	if failedCalls > 0 {
		retried -= min(max((failed-retries)/failedCalls, 0), 1)
	}
	if more := again - max(unserved, 0)*retried; more > 0 && calls > 0 {
		return 1 + more/calls
	}
	return 1
}

// attempts sums the classes of a pool, for each minute of the open span that has begun. It is nil without recent
// retries. O(classes × Revise in minutes).
func (a *Aggregator) attempts(p *pool) []Attempts {
	if p.Retried < a.oldest()-attemptsSpan {
		return nil
	}
	rows := make([]Attempts, 0, a.open-a.oldest()+1)
	for m := a.oldest(); m <= a.open; m++ {
		s := &p.Coverage[a.slot(m)].Queue
		row, prompts := Attempts{Minute: m, Failed: s.Failed, FailedCalls: s.FailedCalls}, 0.0
		for _, c := range p.classes {
			at := a.find(c, m)
			if at == nil {
				continue
			}
			w := &at.Window
			row.Retries += float32(w.Retries)
			prompts += w.PromptTokens
			for d, i := range nowcasted {
				calls, again, unserved := Dimensions[i].attempts(w)
				row.Calls[d] += float32(calls)
				row.Again[d] += float32(again)
				row.Unserved[d] += float32(unserved)
			}
		}
		if prompts > 0 { // an engine would compute the uncached share of the unseen prompts
			row.Unserved[prefillPlace] += s.Unseen * row.Calls[prefillPlace] / float32(prompts)
		}
		rows = append(rows, row)
	}
	return rows
}

// prefillPlace is the index of DimPrefill among the forecast dimensions.
const prefillPlace = 1

// reached reports that an engine worked on an attempt: the record shows service, or an error came so late that the
// prompt can have been computed.
func (e *delta) reached(s Service) bool {
	if !e.neverServed() {
		return true
	}
	return e.failed && e.arrived != never && e.finished != never &&
		e.arrived.secondsTo(e.finished) >= max(e.uncached(), 1)/s.PrefillTokensPerS
}

// tried counts an attempt in its minute.
func (p *pool) tried(s *queuePressure, e *delta, minute int64) {
	if !e.call {
		p.Retried = max(p.Retried, minute)
	}
	if !e.ends || e.how == finished {
		return
	}
	s.Failed++
	if e.call {
		s.FailedCalls++
		if !e.reached(p.service) {
			s.Unseen += float32(max(e.prompt, 0))
		}
	}
}

// countRetried counts the computed prompt tokens of a retry. It subtracts a prompt that was counted at arrival and
// never reached an engine.
func countRetried(c *class, w *bucket, e *delta) {
	reached := !e.ends || e.reached(c.pool.service)
	switch {
	case e.prompts && reached:
		w.PromptRetried += float64(e.prompt)
	case !e.prompts && e.ends && !reached:
		w.PromptRetried -= float64(max(e.prompt, 0))
	}
	if e.caches && reached {
		w.PromptRetried -= float64(min(e.cached, e.prompt))
	}
}
