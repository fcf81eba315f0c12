package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/features"
)

// resource is a dimension in words.
func resource(dimension string) string {
	if dimension == features.DimKV {
		return "KV memory"
	}
	return dimension
}

// money shows dollars.
func money(usd Number) string {
	if math.IsNaN(float64(usd)) {
		return unknown
	}
	return "$" + quantity(usd, "")
}

// cell shows GPU-hours, or replica-hours where the GPUs of one are not known, and what they cost.
func (a Amount) cell() string {
	text := quantity(a.GPUHours, "GPU-h")
	if text == unknown {
		text = quantity(a.ReplicaHours, "replica-h")
	}
	if cost := money(a.USD); cost != unknown && text != unknown {
		text += ", " + cost
	}
	return text
}

// causeWords say what a cause is when it raised utilisation above what was forecast, and when it lowered it.
var causeWords = map[Cause][2]string{
	CauseDemand:    {"more requests", "fewer requests"},
	CauseMix:       {"more of heavy classes", "more of light classes"},
	CausePrompt:    {"longer prompts", "shorter prompts"},
	CauseOutput:    {"longer answers", "shorter answers"},
	CauseCache:     {"fewer cache hits", "more cache hits"},
	CauseHeld:      {"slower generation", "faster generation"},
	CauseRetries:   {"more retries", "fewer retries"},
	CauseCapacity:  {"replicas that carry less than believed", "replicas that carry more than believed"},
	CauseWarmup:    {"replicas later than the warm-up lag says", "replicas sooner than the warm-up lag says"},
	CauseTelemetry: {"telemetry that was late when it was forecast", "telemetry that was late or lost when it came"},
}

// words say what a cause did that added or took so much.
func (c Cause) words(amount Number) string {
	if amount < 0 {
		return causeWords[c][1]
	}
	return causeWords[c][0]
}

// classNamed is the share of a cause from which the class is named that it is of.
const classNamed = 0.8

// causeShown is the share of all that parts move, up or down, from which one is named.
const causeShown = 0.1

// because names the largest causes of an error, at most n, with the class that a cause is mostly of.
func (e *ErrorEpisode) because(n int) string {
	parts, moved := slices.Clone(e.Parts), 0.0
	for _, p := range parts {
		moved += math.Abs(float64(p.Amount))
	}
	slices.SortStableFunc(parts, func(x, y ErrorPart) int {
		return cmp.Compare(math.Abs(float64(y.Amount)), math.Abs(float64(x.Amount)))
	})
	var named []string
	for _, p := range parts[:min(n, len(parts))] {
		if math.Abs(float64(p.Amount)) < causeShown*moved || p.Amount == 0 {
			break
		}
		words := p.Cause.words(p.Amount)
		for _, d := range e.Drivers {
			if d.Cause == p.Cause && d.Class != features.TotalClass && d.Amount/p.Amount >= classNamed {
				if words += " of " + d.Class; p.Cause == CauseMix {
					words = map[bool]string{true: "more of ", false: "less of "}[p.Amount > 0] + d.Class
				}
				break
			}
		}
		named = append(named, fmt.Sprintf("%s (%s)", words, inPoints(p.Amount)))
	}
	if len(named) == 0 {
		return "no single cause"
	}
	return strings.Join(named, ", ")
}

// inPoints shows a difference of utilisation in points of a percent of capacity.
func inPoints(n Number) string {
	s := signed(n)
	return strings.TrimSuffix(s, " %") + " points"
}
