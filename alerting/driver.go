package alerting

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/forecaster"
)

// The smallest changes of a class within the hour that are mentioned besides its main cause.
const (
	minFactor = 1.2 // of a rate or a length
	minLoss   = 0.1 // of the cache hit ratio, absolute
)

// principal is the driver to name first: the first one with a known cause, or else the one with the largest share.
func principal(drivers []forecaster.Driver) *forecaster.Driver {
	for i := range drivers {
		if d := &drivers[i]; d.Cause != "" {
			return d
		}
	}
	return heaviestOf(drivers)
}

// heaviestOf is the driver with the largest share.
func heaviestOf(drivers []forecaster.Driver) *forecaster.Driver {
	best := &drivers[0]
	for i := range drivers {
		if drivers[i].Share > best.Share {
			best = &drivers[i]
		}
	}
	return best
}

// describe is the principal of drivers in words, with all changes of its class: class agent, tenant acme (62 % of it,
// 90 % of its rise), feature search (40 % of it): prompts 2.1 times as long, since 14:05 UTC. pf may be nil.
func describe(drivers []forecaster.Driver, pf *forecaster.PoolForecast, dimension string) string {
	first := principal(drivers)
	text := "class " + first.Class
	if first.Tenant != "" {
		text += ", tenant " + first.Tenant + portion(first.TenantShare, first.TenantMargin, first.TenantRise)
	}
	if first.Feature != "" {
		text += ", feature " + first.Feature + portion(first.FeatureShare, first.FeatureMargin, first.FeatureRise)
	}
	causes := changes(first.Class, drivers, pf, dimension)
	if causes == nil {
		return fmt.Sprintf("%s has %s of the demand, and no change of it within the hour is certain yet", text, percent(first.Share))
	}
	text += ": " + strings.Join(causes, ", ")
	if !first.Since.IsZero() {
		text += ", since " + clock(first.Since)
	}
	return text
}

// changes are the changes of a class within the hour: the causes of its drivers, then others from its forecast.
func changes(class string, drivers []forecaster.Driver, pf *forecaster.PoolForecast, dimension string) (out []string) {
	c := changesOf(pf, class, dimension)
	var causes []string
	for i := range drivers {
		if d := &drivers[i]; d.Class == class && d.Cause != "" && !slices.Contains(causes, d.Cause) {
			causes = append(causes, d.Cause)
			if text := c.cache(); d.Cause == forecaster.CauseCache && text != "" {
				out = append(out, text)
				continue
			}
			out = append(out, Change(d.Cause, d.Factor))
		}
	}
	// Without a known cause, other differences may be chance.
	for _, factor := range []struct{ cause, key string }{
		{forecaster.CauseRate, "rate_factor"}, {forecaster.CausePrompt, "prompt_length_factor"}, {forecaster.CauseOutput, "output_length_factor"},
	} {
		if v := c[factor.key]; len(out) > 0 && v != nil && *v >= minFactor && !slices.Contains(causes, factor.cause) {
			out = append(out, Change(factor.cause, *v))
		}
	}
	if text := c.cache(); text != "" && !slices.Contains(causes, forecaster.CauseCache) {
		out = append(out, text)
	}
	return out
}

// hourly are the changes of a class from an hour before, from forecaster.Explain; nil is unknown.
type hourly map[string]*float64

func changesOf(pf *forecaster.PoolForecast, class, dimension string) hourly {
	if pf == nil {
		return nil
	}
	for i := range pf.Classes {
		if f := &pf.Classes[i]; f.Class == class && f.Dimension == dimension {
			return forecaster.Explain(f).Changes
		}
	}
	return nil
}

// loss is the absolute loss of the cache hit ratio; 0 if unknown.
func (h hourly) loss() float64 {
	now, before := h["cache_hit_now"], h["cache_hit_before"]
	if now == nil || before == nil {
		return 0
	}
	return *before - *now
}

// cache is the loss of the cache hit ratio in words; "" if it is small.
func (h hourly) cache() string {
	if h.loss() < minLoss {
		return ""
	}
	return fmt.Sprintf("cache hits down from %s to %s", percent(*h["cache_hit_before"]), percent(*h["cache_hit_now"]))
}

// Change is one change of a class within the hour in words.
func Change(cause string, factor float64) string {
	switch cause {
	case forecaster.CauseCache:
		return "cache hits down to " + percent(factor)
	case forecaster.CauseMix:
		return fmt.Sprintf("a higher share of the requests (%s)", percent(factor))
	case forecaster.CauseRetries:
		return percent(factor) + " retries among its requests"
	case forecaster.CauseRate:
		return fmt.Sprintf("%.1f times as many requests", factor)
	case forecaster.CausePrompt:
		return fmt.Sprintf("prompts %.1f times as long", factor)
	case forecaster.CauseOutput:
		return fmt.Sprintf("answers %.1f times as long", factor)
	}
	return fmt.Sprintf("%s ×%.1f", strings.ReplaceAll(cause, "_", " "), factor)
}

// portion is a share of a class in parentheses, with a large error margin and the share of the rise; "" if the share is
// unknown or 100 %.
func portion(share, margin, rise float64) string {
	if !(share > 0) || share >= .995 && margin < 0.05 {
		return ""
	}
	text := percent(share)
	if margin >= 0.05 {
		text += fmt.Sprintf(" ± %.0f %%", math.Ceil(100*margin))
	}
	text += " of it"
	switch {
	case rise >= .995:
		text += ", all of its rise"
	case rise > 0:
		text += ", " + percent(rise) + " of its rise"
	}
	return " (" + text + ")"
}
