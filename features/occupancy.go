package features

import "time"

// maxLife is the longest plausible life of a request. Beyond it the times are treated as wrong.
const maxLife = 24 * time.Hour

// life is what one request holds in the KV cache: prompt tokens from its start, output tokens that grow linearly in
// time from first to end, nothing after the end. Times are in seconds since its start.
type life struct {
	start          unixTime
	first, end     float64
	prompt, output float64
	rate           float64 // of output, tokens per second from first to end
	contradictory  bool    // the times exist, but cannot be true
}

// life is the life of a request with known start and end. It starts when the request leaves the queue, or else at its
// arrival. An unknown time of the first token is computed from the pool's prefill speed.
func (e *delta) life(s Service) (l life, ok bool) {
	l.start = max(e.started, e.arrived)
	if l.start == never || e.finished == never || e.finished == l.start {
		return l, false
	}
	lasts := e.finished - l.start
	if lasts < 0 || lasts > unixTime(maxLife) {
		l.contradictory = true
		return l, false
	}
	l.prompt, l.output = max(float64(e.prompt), 0), max(float64(e.output), 0)
	l.end = l.start.secondsTo(e.finished)
	if e.first != never {
		l.first = l.start.secondsTo(e.first)
	} else {
		l.first = e.uncached() / s.PrefillTokensPerS
	}
	l.first = min(max(l.first, 0), l.end)
	if l.end > l.first {
		l.rate = l.output / (l.end - l.first)
	}
	return l, true
}

// held is the area under the occupancy curve in the first x seconds: prompt·x + output·(x − first)²/(2·(end − first)),
// in token-seconds.
func (l *life) held(x float64) float64 {
	x = min(max(x, 0), l.end)
	area := l.prompt * x
	if grown := x - l.first; grown > 0 {
		area += l.rate / 2 * grown * grown
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
	return l.rate * (x - l.first)
}

// secondsAt is the beginning of a minute in seconds of the life.
func (l *life) secondsAt(minute int64) float64 {
	return l.start.secondsTo(unixTime(minute) * minuteLength)
}

// decodes is the minute of the first output token.
func (l *life) decodes() int64 { return (l.start + unixTime(l.first*float64(second))).minute() }

// occupy adds the occupancy of a life to its minutes, by kind. Occupancy outside the open span is not counted.
func (a *Aggregator) occupy(c *class, l *life, to demandKind) {
	first := max(l.start.minute(), a.oldest())
	x := l.secondsAt(first)
	held := l.held(x)
	for m := first; m < a.end() && x < l.end; m++ {
		x += seconds
		area := l.held(x)
		w := c.bucket(m)
		w.Known |= ReportsKV
		w.KVTokenSeconds += area - held
		to.throughput(&w.Window, 0, area-held)
		held = area
	}
}

// generate counts the output tokens of a request by kind; w is the minute of its arrival, or the oldest open one.
func (a *Aggregator) generate(c *class, w *bucket, e *delta, l *life, timed bool, to demandKind) {
	if !timed || e.first == never {
		if e.finished != never && e.minute < a.oldest() {
			w = c.bucket(min(max(e.finished.minute(), a.oldest()), a.end()-1))
		}
		to.generated(&w.Window, float64(e.output))
		return
	}
	a.generateFrom(c, l, max(l.decodes(), a.oldest()), 0, to)
}

// generated adds output tokens. They make the output known, though no record of the minute may report it.
func (to demandKind) generated(w *Window, tokens float64) {
	if tokens > 0 {
		w.OutputTokens += tokens
		w.Known |= ReportsOutput
		to.throughput(w, tokens, 0)
	}
}

// generateFrom counts the output tokens of a life after the first done ones. Those from before the minute first are
// counted in first; those beyond the open span are not counted.
func (a *Aggregator) generateFrom(c *class, l *life, first int64, done float64, to demandKind) {
	x := l.secondsAt(first)
	for m := first; m < a.end() && done < l.output; m++ {
		x += seconds
		next := l.generated(x)
		to.generated(&c.bucket(m).Window, next-done)
		done = next
	}
}

// modelled is the area that a request without times holds, in token-seconds by Little's law: prompt·T_prefill +
// ITL·(prompt·output + output²/2), where T_prefill is the time to prefill the uncached tokens.
func modelled(prompt, uncached, output float64, s Service) float64 {
	return prompt*uncached/s.PrefillTokensPerS + s.ITL.Seconds()*(prompt*output+output*output/2)
}
