package features

import (
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// maxLife is the longest life of a request that is believed; beyond it the times are taken to be wrong.
const maxLife = 24 * time.Hour

const maxLifeMinutes = int64(maxLife / Minute)

// life is what one request holds in the KV cache: prompt tokens from its start, output tokens that grow linearly in
// time from first to end, nothing after the end. Times are in seconds since its start.
type life struct {
	start          time.Time
	first, end     float64
	prompt, output float64
	contradictory  bool // the times exist, but cannot be true
}

// lifeOf tells the life of a request whose start and end are known: it starts when it leaves the queue, or else when
// it arrives. Without the time of its first token, that is where the pool's prefill speed puts it.
func lifeOf(r *ingest.Request, s Service) (l life, ok bool) {
	l.start = r.StartedAt
	if l.start.Before(r.ArrivedAt) {
		l.start = r.ArrivedAt
	}
	if l.start.IsZero() || r.FinishedAt.IsZero() || r.FinishedAt.Equal(l.start) {
		return l, false
	}
	lasts := r.FinishedAt.Sub(l.start)
	if lasts < 0 || lasts > maxLife {
		l.contradictory = true
		return l, false
	}
	l.prompt, l.output = max(float64(r.PromptTokens), 0), max(float64(r.OutputTokens), 0)
	l.end = lasts.Seconds()
	l.first = uncached(r) / s.PrefillTokensPerS
	if !r.FirstTokenAt.IsZero() {
		l.first = r.FirstTokenAt.Sub(l.start).Seconds()
	}
	l.first = min(max(l.first, 0), l.end)
	return l, true
}

// held is the area under the occupancy curve in the first x seconds: prompt·x + output·(x − first)²/(2·(end − first)),
// in token-seconds.
func (l *life) held(x float64) float64 {
	x = min(max(x, 0), l.end)
	area := l.prompt * x
	if x > l.first {
		area += l.output * (x - l.first) * (x - l.first) / (2 * (l.end - l.first))
	}
	return area
}

// generated is the number of output tokens generated in the first x seconds.
func (l *life) generated(x float64) float64 {
	switch {
	case x >= l.end:
		return l.output
	case x <= l.first:
		return 0
	}
	return l.output * (x - l.first) / (l.end - l.first)
}

// begins is the minute a life begins in, and how many seconds into it.
func (l *life) begins() (minute int64, offset float64) {
	minute = minuteOf(l.start)
	return minute, l.start.Sub(startOf(minute)).Seconds()
}

// occupy spreads the occupancy of a life over the minutes and slots it touches. What falls outside the open span is
// only counted.
func (a *Aggregator) occupy(c *class, l *life) {
	begin, offset := l.begins()
	at := func(minute int64) float64 { return float64(minute-begin)*seconds - offset }

	first := max(begin, a.oldest())
	before := l.held(at(first))
	a.counters.KVBeforeOpen += before
	held := before
	for m := first; m < a.end() && at(m) < l.end; m++ {
		w := a.cell(c, m)
		w.KVTimed = true
		x := at(m)
		for i := 0; i < KVSlotCount && x < l.end; i++ {
			x += slotSeconds
			next := l.held(x)
			w.KVSlots[i] += next - held
			w.KVTokenSeconds += next - held
			held = next
		}
	}
	a.counters.KVBeyondOpen += l.held(l.end) - held
}

// generate books the output tokens of a request; w is the minute of its arrival, or the oldest open one.
func (a *Aggregator) generate(c *class, w *cell, r *ingest.Request, l *life, timed bool) {
	if !timed || r.FirstTokenAt.IsZero() {
		if !r.FinishedAt.IsZero() && minuteOf(r.EventTime()) < a.oldest() {
			w = a.cell(c, min(max(minuteOf(r.FinishedAt), a.oldest()), a.end()-1))
		}
		w.OutputTokens += float64(r.OutputTokens)
		return
	}
	begin, offset := l.begins()
	at := func(minute int64) float64 { return float64(minute-begin)*seconds - offset }

	first := max(minuteOf(l.start.Add(time.Duration(l.first*float64(time.Second)))), a.oldest())
	a.counters.OutputBroughtAhead += l.generated(at(first))
	done := 0.0
	for m := first; m < a.end() && done < l.output; m++ {
		next := l.generated(at(m + 1))
		a.cell(c, m).OutputTokens += next - done
		done = next
	}
	a.counters.OutputBeyondOpen += l.output - done
}

// modelled is the area that a request without times holds, token-seconds by Little's law: prompt·T_prefill +
// ITL·(prompt·output + output²/2), with T_prefill the time to prefill what is not cached.
func modelled(prompt, uncached, output float64, s Service) float64 {
	return prompt*uncached/s.PrefillTokensPerS + s.ITL.Seconds()*(prompt*output+output*output/2)
}

// uncached is the number of prompt tokens to prefill; all of them when the cached ones are not known.
func uncached(r *ingest.Request) float64 {
	return float64(max(r.PromptTokens, 0) - min(max(r.CachedTokens, 0), max(r.PromptTokens, 0)))
}
