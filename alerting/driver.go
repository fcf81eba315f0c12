package alerting

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/forecaster"
)

// What a class has to have changed by within the hour to be said beside its main cause.
const (
	leastFactor = 1.2 // of a rate or a length
	leastLoss   = 0.1 // of the cache hit ratio, absolute
)

// principal is who to name first: the first driver about whom something changed, or else the one with the largest share.
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

// describe is the principal of drivers in words, with all that changed about its class and how much of the growth it is:
// class agent, tenant acme (62 % of it, 90 % of its rise), feature search (40 % of it): prompt length ×2.1, cache hit ratio 0.71→0.32, since 14:05 UTC. pf says what was before,
// and may be nil.
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

// changes are what changed about a class within the hour: the causes of its drivers, then what else the sums behind its
// forecast show.
func changes(class string, drivers []forecaster.Driver, pf *forecaster.PoolForecast, dimension string) (out []string) {
	c := changesOf(pf, class, dimension)
	var said []string
	for i := range drivers {
		if d := &drivers[i]; d.Class == class && d.Cause != "" && !slices.Contains(said, d.Cause) {
			said = append(said, d.Cause)
			if text := c.cache(); d.Cause == forecaster.CauseCache && text != "" {
				out = append(out, text)
				continue
			}
			out = append(out, Change(d.Cause, d.Factor))
		}
	}
	// Where nothing is named as a cause, other differences may be chance.
	for _, factor := range []struct{ cause, key string }{
		{forecaster.CauseRate, "rate_factor"}, {forecaster.CausePrompt, "prompt_length_factor"}, {forecaster.CauseOutput, "output_length_factor"},
	} {
		if v := c[factor.key]; len(out) > 0 && v != nil && *v >= leastFactor && !slices.Contains(said, factor.cause) {
			out = append(out, Change(factor.cause, *v))
		}
	}
	if text := c.cache(); text != "" && !slices.Contains(said, forecaster.CauseCache) {
		out = append(out, text)
	}
	return out
}

// hourly is how a class compares with an hour before, as forecaster.Explanation has it; what is not known is nil.
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

// loss is by how much the cache hit ratio fell; 0 when that is not known.
func (h hourly) loss() float64 {
	now, before := h["cache_hit_now"], h["cache_hit_before"]
	if now == nil || before == nil {
		return 0
	}
	return *before - *now
}

// cache says how the cache hit ratio fell, "" when it hardly did.
func (h hourly) cache() string {
	if h.loss() < leastLoss {
		return ""
	}
	return fmt.Sprintf("cache hits down from %s to %s", percent(*h["cache_hit_before"]), percent(*h["cache_hit_now"]))
}

// Change is what changed about a class within the hour, for people.
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

// portion says in brackets which share of a class somebody has, how far off that may be where it matters, and the share of
// the rise; nothing when it is not known or all.
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
