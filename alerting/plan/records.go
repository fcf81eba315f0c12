package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
)

// Records sums up the records of a trace by minute. The zero value is empty.
type Records struct {
	start    time.Time
	minutes  []Load
	calls    float64
	contexts sketch.Quantile
	longest  float64

	uncached, outputs float64 // records without cached tokens, and without output tokens
	records           float64
	binned            bool
}

// maxMinutes bounds a trace: a year.
const maxMinutes = 366 * 1440

// AddSum counts a sum over requests. The error means that the trace is too long.
func (g *Records) AddSum(s *ingest.Sum) error {
	n := known(s.Requests)
	if n == 0 {
		return nil
	}
	g.binned = true
	load := Request(known(s.PromptTokens)/n, known(s.CachedTokens)/n, known(s.OutputTokens)/n).Times(n)
	g.calls += n
	return g.addTo(s.Start, load)
}

// Add counts a request. The error means that the trace is too long.
func (g *Records) Add(r *ingest.Request) error {
	if r.Phase == ingest.PhaseArrived {
		return nil // its end is another record
	}
	g.records++
	if r.CachedTokens < 0 {
		g.uncached++
	}
	if r.OutputTokens < 0 {
		g.outputs++
	}
	prompt, output := float64(max(r.PromptTokens, 0)), float64(max(r.OutputTokens, 0))
	load := Request(prompt, min(float64(max(r.CachedTokens, 0)), prompt), output)
	rejected := r.Phase == ingest.PhaseRejected || r.Status == ingest.StatusRejected
	if r.Attempt <= 1 {
		g.calls++
		g.contexts.Add(prompt + output)
		g.longest = max(g.longest, prompt+output)
	} else if rejected {
		load = Load{Requests: 1} // no replica computes it again
	}
	return g.addTo(r.EventTime(), load)
}

// addTo adds a sum over requests to its minute.
func (g *Records) addTo(at time.Time, l Load) error {
	minute := at.Truncate(features.Minute)
	if g.start.IsZero() {
		g.start = minute
	}
	i := int(minute.Sub(g.start) / features.Minute)
	if i < 0 {
		i = 0 // records come at their end: this one arrived before the first to end
	}
	if i >= maxMinutes {
		return fmt.Errorf("the trace is longer than %d days: cut it, or check its times", maxMinutes/1440)
	}
	for len(g.minutes) <= i {
		g.minutes = append(g.minutes, Load{})
	}
	g.minutes[i] = g.minutes[i].Plus(l.Times(1 / features.Minute.Seconds()))
	return nil
}

// Fill sets the traffic and the lengths of its requests.
func (g *Records) Fill(in *Input, source string) {
	if in.Lengths = (Contexts{}); g.contexts.Count() > 0 {
		in.Lengths = Contexts{P50: g.contexts.Quantile(0.5), P95: g.contexts.Quantile(0.95), Longest: g.longest}
	}
	seconds := float64(len(g.minutes)) * features.Minute.Seconds()
	t := Traffic{
		Source: fmt.Sprintf("%s (%s)", source, count(len(g.minutes), "minute")), Minutes: g.minutes,
		Calls: g.calls / seconds,
	}
	if g.binned {
		t.Notes = append(t.Notes, "The trace has sums, not requests: lengths are assumed equal within a bin, so active KV tokens are too low if lengths vary.")
	}
	if g.records > 0 && g.uncached/g.records > 0.5 {
		t.Notes = append(t.Notes, "The trace has no cached tokens: all prompt tokens count as prefill.")
	}
	if g.records > 0 && g.outputs/g.records > 0.5 {
		t.Notes = append(t.Notes, "The trace has no output tokens: decode and KV tokens are too low.")
	}
	in.Traffic = t
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func known(x float64) float64 {
	if math.IsNaN(x) || x < 0 {
		return 0
	}
	return x
}
