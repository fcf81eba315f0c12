package alerting

import (
	"fmt"
	"math"
	"strings"

	"github.com/forewarm/forewarm/forecaster"
)

// minLoss is the smallest absolute loss of the cache hit ratio that is mentioned besides the main cause.
const minLoss = 0.1

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

// describe is the principal of drivers in words: class agent, tenant acme (62 % of it, 90 % of its rise), feature search
// (40 % of it): prompts 2.1 times as long.
func describe(drivers []forecaster.Driver) string {
	first := principal(drivers)
	text := "class " + first.Class
	if first.Tenant != "" {
		text += ", tenant " + first.Tenant + portion(first.TenantShare, first.TenantMargin, first.TenantRise)
	}
	if first.Feature != "" {
		text += ", feature " + first.Feature + portion(first.FeatureShare, first.FeatureMargin, first.FeatureRise)
	}
	if causes := changes(first); causes != nil {
		return text + ": " + strings.Join(causes, ", ")
	}
	return fmt.Sprintf("%s has %s of the demand, and no change of it within the hour is certain yet", text, percent(first.Share))
}

// changes are the changes of a class within the hour: its cause, and a loss of cache hits.
func changes(d *forecaster.Driver) (out []string) {
	lost := cacheLoss(d)
	if d.Cause != "" && (d.Cause != forecaster.CauseCache || lost == "") {
		out = append(out, Change(d.Cause, d.Factor))
	}
	if lost != "" {
		out = append(out, lost)
	}
	return out
}

// cacheLoss is the loss of the cache hit ratio in words; "" if it is small.
func cacheLoss(d *forecaster.Driver) string {
	if d.CacheLoss < minLoss {
		return ""
	}
	return fmt.Sprintf("cache hits down from %s to %s", percent(d.CacheHit+d.CacheLoss), percent(d.CacheHit))
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
