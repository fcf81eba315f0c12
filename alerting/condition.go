package alerting

import (
	"fmt"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Severity says who should be told, and how.
type Severity string

// The severities: a page wakes someone, a warning waits for the morning.
const (
	Page    Severity = "page"
	Warning Severity = "warning"
)

// Condition is one thing that is the case at one tick and may deserve an alert. Name, Pool and Resource identify it.
type Condition struct {
	Name     AlertName
	Pool     string
	Resource string // "" when it concerns the pool as a whole
	Class    string // who drives it; fixed when the alert is raised, "" when unknown
	Severity Severity

	// Fading says that the condition keeps an alert that fires but raises none.
	Fading bool
	// Immediate raises the alert at the first tick, Ticks overrides how many it takes (0: as configured).
	Immediate bool
	Ticks     int

	Annotations map[string]string
}

// Parameters of the conditions.
const (
	fadeShare       = 0.6 // of AlertProbability, above which a firing alert is kept
	sureProbability = 0.9 // at which a page waits for no second tick
	degradedTicks   = 60  // for which the baseline must answer before it is worth a warning
)

// Conditions are what is the case for one pool at one tick, from its decision and the evidence behind it. The two-clock
// rule: a page needs a probable saturation that scaling cannot avert, because it is nearer than the warm-up lag
// (replicas on their way counted) or because a limit blocks it. Everything else is a warning.
func Conditions(d *Decision, pf *forecaster.PoolForecast, cfg Config) []Condition {
	if d.Stale {
		return []Condition{condition(d, TelemetryStale, "", Warning, cfg, fmt.Sprintf("Pool %s: %s", d.Pool, d.Reason))}
	}
	var out []Condition
	for i := range d.Resources {
		out = append(out, saturation(d, &d.Resources[i], cfg)...)
	}
	out = append(out, limit(d, cfg)...)
	out = append(out, degraded(d, pf, cfg)...)
	out = append(out, faulty(d, pf, cfg)...)
	return append(out, causes(d, cfg)...)
}

// faulty is the warning that part of the telemetry is missing or in the wrong minutes.
func faulty(d *Decision, pf *forecaster.PoolForecast, cfg Config) []Condition {
	if pf == nil || len(pf.Minute.Faults) == 0 {
		return nil
	}
	const most = 3
	var faults []string
	for i := range pf.Minute.Faults {
		if i == most {
			faults = append(faults, fmt.Sprintf("and %d more", len(pf.Minute.Faults)-most))
			break
		}
		faults = append(faults, fault(&pf.Minute.Faults[i]))
	}
	return []Condition{condition(d, TelemetryFault, "", Warning, cfg, fmt.Sprintf("Pool %s: %s.", d.Pool, strings.Join(faults, "; ")))}
}

// saturation is the warning that a resource runs out, and the page when it does so before a new replica can be ready.
func saturation(d *Decision, r *ResourceEvidence, cfg Config) []Condition {
	if r.Probability < fadeShare*cfg.AlertProbability {
		return nil
	}
	probable := r.Probability >= cfg.AlertProbability
	late := r.ETA.P50 != forecaster.Never && r.ETA.P50 < d.Lead
	out := []Condition{condition(d, SaturationAhead, r.Dimension, Warning, cfg, story(d, r))}
	// A page for the same thing is enough: the warning stays if it fires, and is not raised beside it.
	out[0].Fading = !probable || late
	if late {
		page := condition(d, TooLateToWarm, r.Dimension, gravity(d, r.Dimension), cfg, fmt.Sprintf("%s Warm-up takes up to %s: scaling alone comes too late.", story(d, r), span(d.Lead)))
		page.Fading, page.Immediate = !probable, r.Probability >= sureProbability
		out = append(out, page)
	}
	return out
}

// gravity is whether a saturation that cannot be averted is worth waking someone: only for the resource that binds, so that
// one cause makes one page; and only on evidence, not in the first hour of history or on replicas that nobody reported.
func gravity(d *Decision, resource string) Severity {
	if resource == d.Binding && d.Confidence != forecaster.Cold && !d.SupplyAssumed {
		return Page
	}
	return Warning
}

// limit is the page that a bound of the pool blocks what a probable saturation needs.
func limit(d *Decision, cfg Config) []Condition {
	if d.Needed <= d.Limit || d.Probability < fadeShare*cfg.AlertProbability {
		return nil
	}
	for i := range d.Resources {
		if r := &d.Resources[i]; r.Dimension == d.Binding {
			c := condition(d, AtCapacityLimit, r.Dimension, gravity(d, r.Dimension), cfg, fmt.Sprintf("%s It takes %d replicas, and the limit is %d (%s).", story(d, r), d.Needed, d.Limit, strings.Join(d.Constraints, ", ")))
			c.Fading = d.Probability < cfg.AlertProbability
			return []Condition{c}
		}
	}
	return nil
}

// degraded is the warning that the forecaster has not beaten a baseline for long.
func degraded(d *Decision, pf *forecaster.PoolForecast, cfg Config) []Condition {
	if pf == nil || d.Confidence == forecaster.Cold {
		return nil
	}
	for i := range pf.Total {
		if f := &pf.Total[i]; f.Fallback && f.Dimension == d.Binding {
			c := condition(d, ForecastDegraded, f.Dimension, Warning, cfg, fmt.Sprintf("Pool %s: the forecast of %s is no better than its baseline, which answers instead.", d.Pool, noun(f.Dimension)))
			c.Ticks = degradedTicks
			return []Condition{c}
		}
	}
	return nil
}

// causes are warnings about what drives a saturation that is at least possible.
func causes(d *Decision, cfg Config) []Condition {
	var out []Condition
	if d.Probability < fadeShare*cfg.AlertProbability {
		return nil
	}
	named := map[AlertName]bool{}
	for _, driver := range d.Drivers {
		var c Condition
		switch {
		case driver.Cause == forecaster.CauseCache:
			c = condition(d, CacheHitCollapse, features.DimPrefill, Warning, cfg, fmt.Sprintf("Pool %s: %s; uncached prompts take prefill and KV memory.", d.Pool, describe(driver)))
		case driver.Cause == forecaster.CauseRetries:
			c = condition(d, RetryStorm, features.DimRequests, Warning, cfg, fmt.Sprintf("Pool %s: %s; retries add load without adding users.", d.Pool, describe(driver)))
		default:
			continue
		}
		if named[c.Name] {
			continue // the heaviest class names it
		}
		named[c.Name] = true
		c.Class, c.Fading = driver.Class, d.Probability < cfg.AlertProbability
		out = append(out, c)
	}
	return out
}

// condition fills in what every condition says.
func condition(d *Decision, name AlertName, resource string, severity Severity, cfg Config, summary string) Condition {
	c := Condition{Name: name, Pool: d.Pool, Resource: resource, Severity: severity, Annotations: map[string]string{
		"summary":     summary,
		"action":      d.Reason,
		"decision":    d.EventID(),
		"probability": fmt.Sprintf("%.2f", d.Probability),
		"eta":         written(d.Tick, d.ETA.P50),
	}}
	if len(d.Drivers) > 0 {
		c.Class = d.Drivers[0].Class
		c.Annotations["driver"] = describe(d.Drivers[0])
	}
	for i := range d.Resources {
		if r := &d.Resources[i]; r.Dimension == resource {
			c.Annotations["probability"], c.Annotations["eta"] = fmt.Sprintf("%.2f", r.Probability), written(d.Tick, r.ETA.P50)
		}
	}
	if cfg.RunbookURL != "" {
		c.Annotations["runbook_url"] = cfg.RunbookURL + string(name)
	}
	return c
}

func written(tick time.Time, eta time.Duration) string {
	if t := ahead(tick, eta); t != nil {
		return t.Format(time.RFC3339)
	}
	return fmt.Sprintf("beyond %d min", forecaster.Horizon)
}

// story tells a saturation like a colleague would: what, when, how sure, who, and what was done about it.
func story(d *Decision, r *ResourceEvidence) string {
	what := noun(r.Dimension) + " may run out"
	if r.ETA.P50 != forecaster.Never {
		what = exhausted(r.Dimension) + " " + eta(r.ETA.P50)
	}
	s := fmt.Sprintf("Pool %s: %s (%s; %s).", d.Pool, what, between(r.ETA), percent(r.Probability))
	if len(d.Drivers) > 0 {
		s += " Driver: " + describe(d.Drivers[0]) + "."
	}
	switch total := d.Ready + d.Pending; {
	case d.Desired > total:
		verb := "Asked for"
		if d.Mode == Advisory {
			verb = "Advised"
		}
		s += fmt.Sprintf(" %s %d→%d replicas at %s, ready by about %s.", verb, total, d.Desired, clock(d.AskedAt), clock(d.AskedAt.Add(d.Lead)))
	case d.Pending > 0:
		s += fmt.Sprintf(" %d of %d replicas are still warming up.", d.Pending, total)
	}
	return s
}
