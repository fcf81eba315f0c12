package alerting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Severity says who should be told, and how.
type Severity string

// The severities: a page wakes someone, a warning waits for the morning.
const (
	Page    Severity = "page"
	Warning Severity = "warning"
)

// Condition is one thing that is the case at one tick and may deserve an alert. Name, Pool and Role identify it; where there is no
// pool, Name and Resource. Resource and Class stay as they were when the alert was raised.
type Condition struct {
	Name     AlertName
	Pool     string
	Role     string // "prefill" of a disaggregated pool's prefill replicas, else ""
	Resource string // the one that runs out first; of the daemon's own alerts a sink; "" when none is concerned
	Class    string // who drives it; "" when unknown
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
	fadeShare       = 0.6 // of the probability that raises an alert, above which a firing one is kept
	sureProbability = 0.9 // at which a page waits for no second tick
	degradedTicks   = 60  // for which the baseline must answer before it is worth a warning

	collapseLoss = 0.2 // of a driving class's cache hit ratio, absolute, that is worth a warning whatever else changed

	driftOutcomes = forecaster.OriginsPerDay // outcomes before a quantile can be said not to hold
	driftShare    = 0.85                     // of outcomes below the 95 % quantile, at or below which it does not
)

// Conditions are what is the case for one pool at one tick, from its decision and the evidence behind it. The two-clock
// rule: a page needs a probable saturation that scaling cannot avert, because it is nearer than the warm-up lag
// (replicas on their way counted) or because a limit blocks it. Everything else is a warning.
func Conditions(d *Decision, pf *forecaster.PoolForecast, cfg Config) []Condition {
	if d.Stale {
		stale := condition(d, TelemetryStale, "", Warning, cfg, fmt.Sprintf("Pool %s: %s Nothing is scaled in until telemetry is back.", d.Pool, d.Reason))
		return append([]Condition{stale}, faulty(d, pf, cfg)...) // a clock that is off makes a pool stale
	}
	out := slices.Concat(faulty(d, pf, cfg), storm(d, pf, cfg), overObjective(d, cfg), contradicted(d, cfg))
	for _, side := range d.sides() {
		out = append(out, prospects(side, pf, cfg)...)
	}
	return out
}

// contradicted are the warnings that replicas were observed to do something else than is configured.
func contradicted(d *Decision, cfg Config) (out []Condition) {
	if d.Basis == nil {
		return nil
	}
	for _, c := range d.Basis.Contradicts {
		out = append(out, condition(d, RateContradicted, c.Dimension, Warning, cfg, fmt.Sprintf("Pool %s: %s", d.Pool, c)))
	}
	return out
}

// prospects are the conditions about the replicas that d is of.
func prospects(d *Decision, pf *forecaster.PoolForecast, cfg Config) (out []Condition) {
	who := ""
	if len(d.Drivers) > 0 {
		who = describe(d.Drivers, pf, d.Binding)
	}
	help := relief(d, pf)
	out = append(saturation(d, who, help, cfg), limit(d, who, help, cfg)...)
	out = append(out, belowReserve(d, cfg)...)
	out = append(out, degraded(d, pf, cfg)...)
	return append(out, causes(d, pf, cfg)...)
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

// look is how far ahead an alert looks, and from which probability on it is raised.
type look struct {
	from   float64
	window time.Duration
	ahead  bool // by Chance.Ahead in place of its Probability
}

// soon is the look of pages, and of what is said of decisions: at what comes within the lead time and Config.Hold.
func (d *Decision) soon(cfg Config) look {
	return look{from: cfg.AlertProbability, window: d.Lead + cfg.Hold}
}

// early is the look of warnings, further ahead and from a probability of their own; soon where that is not known.
func (d *Decision) early(cfg Config) look {
	if d.WarnFrom == 0 {
		return d.soon(cfg)
	}
	return look{from: d.WarnFrom, window: forecaster.WarningWindow(d.Lead), ahead: true}
}

// at is the probability of r within the look's window.
func (l look) at(r *ResourceEvidence) float64 {
	if l.ahead {
		return r.Ahead
	}
	return r.Probability
}

// likely are the resources whose probability is enough to keep an alert, the most probable first, and of equals the one that binds:
// they run out for the same cause, and share one alert.
func (d *Decision) likely(l look) (out []*ResourceEvidence) {
	for i := range d.Resources {
		if r := &d.Resources[i]; l.at(r) >= fadeShare*l.from {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *ResourceEvidence) int {
		if c := cmp.Compare(l.at(b), l.at(a)); c != 0 || a.Dimension == b.Dimension {
			return c
		} else if a.Dimension == d.Binding {
			return -1
		} else if b.Dimension == d.Binding {
			return 1
		}
		return 0
	})
	return out
}

// saturation is the warning that the pool runs out, and the page when it does so before a new replica can be ready.
func saturation(d *Decision, who, help string, cfg Config) (out []Condition) {
	early, soon := d.early(cfg), d.soon(cfg)
	late := slices.DeleteFunc(d.likely(soon), func(r *ResourceEvidence) bool { return !d.late(r.ETA) })
	if likely := d.likely(early); len(likely) > 0 {
		c := warning(d, likely, len(late) > 0, who, help, cfg)
		// A page for the same thing is enough: the warning stays if it fires, and is not raised beside it. Where a limit blocks
		// what is needed, the page is that of the limit.
		c.Fading = early.at(likely[0]) < early.from || len(late) > 0
		out = append(out, c)
	}
	if len(late) > 0 && d.Needed <= d.Limit {
		page := condition(d, TooLateToWarm, late[0].Dimension, severityOf(d), cfg, fmt.Sprintf("%s A replica takes up to %s to warm up: scaling alone comes too late, so %s.",
			story(d, late, who, soon), span(d.Lead), help)).load(d, late, who, soon)
		page.Fading, page.Immediate = late[0].Probability < cfg.AlertProbability, late[0].Probability >= sureProbability
		out = append(out, page)
	}
	return out
}

// reserveSlack is the share of what a failure would leave that demand must use for an alert about the reserve to be kept.
const reserveSlack = 0.9

// belowReserve is the warning that the pool serves its demand, and would not after a failure that replicas are kept for.
func belowReserve(d *Decision, cfg Config) []Condition {
	said, fading := d.belowReserve()
	if said == "" {
		return nil
	}
	c := condition(d, BelowReserve, d.Binding, Warning, cfg, blocked(d, fmt.Sprintf("Pool %s: %s. %s%s", d.Pool, said, done(d), d.assumed())))
	c.Fading = fading
	return []Condition{c}
}

// BelowReserve says that the pool serves its demand, and would not after a failure that replicas are kept for.
func (d *Decision) BelowReserve() bool {
	said, fading := d.belowReserve()
	return said != "" && !fading
}

// belowReserve says what a failure would leave where that is less than demand takes now; "" where it is enough, or where all
// replicas together do not do. fading is true where it is only nearly too little.
func (d *Decision) belowReserve() (said string, fading bool) {
	left, takes, near := max(d.Ready-d.Reserves.Failure, 0), 0, 0
	for i := range d.Resources {
		r := &d.Resources[i]
		takes = max(takes, replicasFor(r.Demand, r.PerReplica))
		near = max(near, min(replicasFor(r.Demand/reserveSlack, r.PerReplica), d.Ready))
	}
	if takes > d.Ready || max(takes, near) <= left {
		return "", false
	}
	if fading = takes <= left; fading {
		takes = near
	}
	what, rest := "a failure would leave ", "none"
	if d.Reserves.Failure > 1 {
		what = fmt.Sprintf("%d failures would leave ", d.Reserves.Failure)
	}
	if left > 0 {
		rest = fmt.Sprintf("%d, and demand takes %d", left, takes)
	}
	return fmt.Sprintf("%d of %s: %s%s", d.Ready, d.count(takes+d.Reserves.Failure), what, rest), fading
}

// warning says that the pool runs out, as seen early.
func warning(d *Decision, likely []*ResourceEvidence, late bool, who, help string, cfg Config) Condition {
	early := d.early(cfg)
	text := blocked(d, story(d, likely, who, early))
	if !late && d.Needed <= d.Limit && d.Desired > d.Ready {
		text += " If that fails, " + help + "."
	}
	c := condition(d, SaturationAhead, likely[0].Dimension, Warning, cfg, text).load(d, likely, who, early)
	if d.WarnFrom > 0 {
		c.Annotations["threshold"] = d.threshold()
	}
	return c
}

// threshold is from which probability on the pool is warned, for people.
func (d *Decision) threshold() string {
	text := fmt.Sprintf("%s within %s", percent(d.WarnFrom), span(forecaster.WarningWindow(d.Lead)))
	if d.FalsePerWeek > 0 {
		text += fmt.Sprintf(": at that, about %.1f warnings a week come to nothing", d.FalsePerWeek)
	}
	return text
}

// blocked adds to a text what a limit keeps from being asked for.
func blocked(d *Decision, text string) string {
	if d.Needed > d.Limit {
		text += " " + short(d) + "."
	}
	return text
}

// late says that something runs out, at the median, before a replica that is asked for now can be ready.
func (d *Decision) late(e forecaster.ETA) bool {
	return e.P50 != forecaster.Never && e.P50 < d.Lead
}

// severityOf is Page for a saturation that cannot be averted. It is Warning in the first hour of history, and where no replica
// reports.
func severityOf(d *Decision) Severity {
	if d.Confidence != forecaster.Cold && !d.SupplyAssumed {
		return Page
	}
	return Warning
}

// limit is the page that a bound of the pool blocks what a probable saturation needs.
func limit(d *Decision, who, help string, cfg Config) []Condition {
	likely := d.likely(d.soon(cfg))
	if d.Needed <= d.Limit || len(likely) == 0 {
		return nil
	}
	c := condition(d, AtCapacityLimit, likely[0].Dimension, severityOf(d), cfg,
		fmt.Sprintf("%s %s: raise the limit, or %s.", story(d, likely, who, d.soon(cfg)), short(d), help)).load(d, likely, who, d.soon(cfg))
	c.Fading = likely[0].Probability < cfg.AlertProbability
	return []Condition{c}
}

// degraded is the warning that the forecast of what binds is not worth what it should be: it has not beaten a baseline for
// long, or too many outcomes exceed the quantile that decisions rest on.
func degraded(d *Decision, pf *forecaster.PoolForecast, cfg Config) []Condition {
	if pf == nil || d.Confidence == forecaster.Cold {
		return nil
	}
	f := pf.Of(d.Binding)
	if f == nil {
		return nil
	}
	const meanwhile = "Expect less warning than usual; queues and KV use still add replicas."
	if f.Fallback {
		c := condition(d, ForecastDegraded, f.Dimension, Warning, cfg, fmt.Sprintf(
			"Pool %s: the forecast of %s is mostly its last value, because that was better than the network of late. %s", d.Pool, noun(f.Dimension), meanwhile))
		c.Ticks = degradedTicks
		return []Condition{c}
	}
	covered := &f.Basis.Covered[1]
	if below := float64(covered.Below[forecaster.L95]); covered.N >= driftOutcomes && below <= driftShare {
		return []Condition{condition(d, ForecastDegraded, f.Dimension, Warning, cfg, fmt.Sprintf(
			"Pool %s: %s stayed below its forecast 95 %% quantile only %s of the last %s. %s",
			d.Pool, noun(f.Dimension), percent(below), days(float64(covered.N)/forecaster.OriginsPerDay), meanwhile))}
	}
	return nil
}

// days is so many days in words.
func days(d float64) string {
	if n := int(d); n > 1 {
		return fmt.Sprintf("%d days", n)
	}
	return "24 hours"
}

// causes are warnings about what drives a saturation that is at least possible.
func causes(d *Decision, pf *forecaster.PoolForecast, cfg Config) []Condition {
	var out []Condition
	r := d.binding()
	if r == nil || d.Probability < fadeShare*cfg.AlertProbability {
		return nil
	}
	add := func(name AlertName, resource, means string, driver *forecaster.Driver) {
		if slices.ContainsFunc(out, func(c Condition) bool { return c.Name == name }) {
			return // the heaviest class names it
		}
		who := describe([]forecaster.Driver{*driver}, pf, d.Binding)
		c := condition(d, name, resource, Warning, cfg, fmt.Sprintf("Pool %s: %s. %s: %s.", d.Pool, who, means, consequence(d, cfg))).load(d, []*ResourceEvidence{r}, who, d.soon(cfg))
		c.Class, c.Fading = driver.Class, d.Probability < cfg.AlertProbability
		out = append(out, c)
	}
	for i := range d.Drivers {
		driver := &d.Drivers[i]
		if driver.Cause == forecaster.CauseCache || changesOf(pf, driver.Class, d.Binding).loss() >= collapseLoss {
			add(CacheHitCollapse, features.DimPrefill, "Prompts that are not in the cache take prefill and KV memory anew", driver)
		}
	}
	return out
}

// condition fills in what every condition says.
func condition(d *Decision, name AlertName, resource string, severity Severity, cfg Config, summary string) Condition {
	if d.Mode == Advisory {
		summary = "[advisory] " + summary
	}
	action := d.Reason
	role := ""
	if d.ofPrefill() { // the reason is of the pool, and may not speak of them
		action, role = done(d), string(capacity.PrefillRole)
	}
	c := Condition{Name: name, Pool: d.Pool, Role: role, Resource: resource, Severity: severity, Annotations: map[string]string{
		"summary":  zoneOnce(summary),
		"action":   action,
		"mode":     string(d.Mode),
		"decision": d.EventID(),
	}}
	if url := Runbook(cfg.RunbookURL, name); url != "" {
		c.Annotations["runbook_url"] = url
	}
	return c
}

// load adds to a condition what runs out, how likely, how soon and by whom.
func (c Condition) load(d *Decision, likely []*ResourceEvidence, who string, l look) Condition {
	c.Annotations["probability"], c.Annotations["eta"] = fmt.Sprintf("%.2f", l.at(likely[0])), written(d.Tick, likely[0].ETA.P50)
	var names []string
	for _, r := range likely {
		names = append(names, r.Dimension)
	}
	c.Annotations["resources"] = strings.Join(names, ", ")
	if said := d.Diagnosed(); said != "" {
		c.Annotations["diagnosis"] = said
	}
	if who != "" {
		c.Class, c.Annotations["driver"] = principal(d.Drivers).Class, who
	}
	return c
}

// Runbook is the address of an alert's runbook: {alert} in url stands for its name, which else is appended. "" without one.
func Runbook(url string, name AlertName) string {
	if url == "" || strings.Contains(url, "{alert}") {
		return strings.ReplaceAll(url, "{alert}", string(name))
	}
	return url + string(name)
}

func written(tick time.Time, eta time.Duration) string {
	if t := ahead(tick, eta); t != nil {
		return t.Format(time.RFC3339)
	}
	return fmt.Sprintf("beyond %d min", forecaster.Horizon)
}

// story tells a saturation like a colleague would: what, when, how sure, who, and what was done about it.
func story(d *Decision, likely []*ResourceEvidence, who string, l look) string {
	r := likely[0]
	s := fmt.Sprintf("Pool %s: ", d.Pool)
	window := span(l.window)
	have := r.PerReplica * float64(d.Ready)
	chance := forecaster.Chance{Probability: l.at(r), ETA: r.ETA}
	switch {
	case have > 0 && r.Demand >= have: // what is so has no time, and the odds are of what comes
		s += fmt.Sprintf("%s now: demand is %s of the capacity of %s, and %s likely to exceed it in the next %s",
			exhausted(r.Dimension), share100(r.Demand/have), d.count(d.Ready), percent(chance.Probability), window)
	case chance.ETA.P50 != forecaster.Never:
		s += exhausted(r.Dimension) + " " + eta(chance.ETA) + " " + odds(chance, window) + d.load(r)
	default:
		s += noun(r.Dimension) + " may run out " + odds(chance, window) + d.load(r)
	}
	for i, x := range likely[1:] {
		s += [2]string{"; so may ", ", "}[min(i, 1)] + fmt.Sprintf("%s (%s)", noun(x.Dimension), percent(l.at(x)))
	}
	s += "."
	if who != "" {
		s += " Driver: " + who + "."
	}
	if said := d.Diagnosed(); said != "" {
		s += " " + said
	}
	return s + " " + done(d) + d.assumed()
}

// assumed says that the number of replicas is a belief, to follow a sentence.
func (d *Decision) assumed() string {
	switch {
	case d.ofPrefill():
		return " How many prefill replicas are ready is not reported, so it is assumed."
	case d.SupplyAssumed:
		return " No replica reports, so their number is assumed."
	}
	return ""
}

// load is the demand of now against what is ready, to follow a clause; "" where there is nothing to hold it against.
func (d *Decision) load(r *ResourceEvidence) string {
	have := r.PerReplica * float64(d.Ready)
	if !(have > 0) {
		return ""
	}
	text := fmt.Sprintf("; demand is %s of the capacity of %s", share100(r.Demand/have), d.count(d.Ready))
	if kept := min(d.Reserves.Failure, d.Ready); kept > 0 {
		text += fmt.Sprintf(", the %d kept for failures included", kept)
	}
	return text
}

// share100 is a ratio that may exceed 1, for people; 1 is nothing special to it, and nobody wants more than 10, or an infinite
// one, in figures.
func share100(p float64) string {
	if p > 10 {
		return "more than 1000 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

// done says what was asked for, and when it helps.
func done(d *Decision) string {
	total, by := d.seen(), d.AskedAt.Add(d.Lead)
	overdue := !d.AskedAt.IsZero() && by.Before(d.Tick)
	switch {
	case d.Desired > total && d.Mode == Advisory:
		return fmt.Sprintf("Advice since %s: %d→%s. Nothing was scaled, for this is advisory mode; to be ready takes up to %s.", clock(d.AskedAt), total, d.count(d.Desired), span(d.Lead))
	case d.Desired > total && d.Withheld != "":
		return fmt.Sprintf("It would ask for %d→%s. Autoscalers get no advice yet, because %s.", total, d.count(d.Desired), d.Withheld)
	case d.Desired > total && overdue:
		return fmt.Sprintf("Asked for %d→%s at %s, and none reports yet: check the autoscaler.", total, d.count(d.Desired), clock(d.AskedAt))
	case d.Desired > total:
		return fmt.Sprintf("Asked for %d→%s at %s, ready by about %s.", total, d.count(d.Desired), clock(d.AskedAt), clock(by))
	case d.Pending > 0 && overdue:
		return fmt.Sprintf("%s still warming up past %s, when all were due: check why.", d.warming(total), clock(by))
	case d.Pending > 0 && !d.AskedAt.IsZero():
		return fmt.Sprintf("%s still warming up, asked for at %s, ready by about %s.", d.warming(total), clock(d.AskedAt), clock(by))
	case d.Pending > 0:
		return d.warming(total) + " still warming up."
	}
	return fmt.Sprintf("Staying at %s.", d.count(d.Desired))
}

// seen is how many replicas are known to be there or on their way, without those that do not report yet.
func (d *Decision) seen() int { return d.Ready + d.Pending - d.Unreported }

// warming is the beginning of a sentence about replicas on their way.
func (d *Decision) warming(total int) string {
	verb := "are"
	if d.Pending == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%d of %s %s", d.Pending, d.count(total), verb)
}

// consequence is what a cause leads to, in the middle of a sentence.
func consequence(d *Decision, cfg Config) string {
	text := outlook(d, cfg)
	if d.Desired > d.seen() {
		verb := "asked for"
		if d.Mode == Advisory {
			verb = "advises"
		} else if d.Withheld != "" {
			verb = "would ask for"
		}
		text += fmt.Sprintf("; %s %d→%s", verb, d.seen(), d.count(d.Desired))
	}
	return text
}

// maxRelief bounds the classes whose admission an alert names; the event lists all.
const maxRelief = 2

// relief is what is left when scaling does not help, in the middle of a sentence: the admission limits of the decision,
// the hardest first. A limit stands beside what its class sends now and may come to send, by the quantile that is provided for,
// so that nobody takes it for a cut of the one or the other.
func relief(d *Decision, pf *forecaster.PoolForecast) string {
	limits := slices.SortedStableFunc(slices.Values(d.Admission), func(a, b AdmissionLimit) int { return cmp.Compare(a.Share, b.Share) })
	if len(limits) == 0 {
		if len(d.Drivers) == 0 {
			return "shed or delay load"
		}
		first := heaviestOf(d.Drivers)
		return fmt.Sprintf("shed or delay load of class %s (%s of the demand)", first.Class, percent(first.Share))
	}
	var parts []string
	for _, l := range limits[:min(maxRelief, len(limits))] {
		if l.TokensPerS < 1 {
			parts = append(parts, "nothing of class "+l.Class)
			continue
		}
		of := "it may ask for " + coarse(l.TokensPerS/l.Share)
		if now, ok := tokensNow(pf, l.Class); ok {
			of = coarse(now) + " now, and " + of
		}
		parts = append(parts, fmt.Sprintf("at most %s tokens/s of class %s (%s)", coarse(l.TokensPerS), l.Class, of))
	}
	text := "shed or delay load. Let in " + strings.Join(parts, ", ")
	if len(limits) > maxRelief {
		text += ", and of others what the event says"
	}
	return text + "; cached prompt tokens do not count"
}

// tokensNow are the tokens per second, prompt tokens to compute and output tokens, that a class asks for at present; ok is false
// when that is not known.
func tokensNow(pf *forecaster.PoolForecast, class string) (tokensPerS float64, ok bool) {
	if pf == nil || class == features.OverflowClass { // which stands for more classes in a limit
		return 0, false
	}
	for i := range pf.Classes {
		if f := &pf.Classes[i]; f.Class == class && (f.Dimension == features.DimPrefill || f.Dimension == features.DimDecode) {
			tokensPerS, ok = tokensPerS+f.Now.Mean, true
		}
	}
	return tokensPerS, ok && finite(tokensPerS) > 0
}

// coarse is an amount in two digits: nobody sets a rate limit to three.
func coarse(v float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return amount(math.Round(v/unit) * unit)
}

// short says what a limit keeps from being asked for.
func short(d *Decision) string {
	takes := d.count(d.Needed)
	if kept := d.Reserves.String(); kept != "" {
		takes += fmt.Sprintf(" (with the reserve: %s)", kept)
	}
	return fmt.Sprintf("It takes %s, and no more than %d are allowed (%s)", takes, d.Limit, limits(d.own()))
}

// limits are the keys of the bounds that held a decision back, from constraints such as "replicas.max 16: 19 wanted".
func limits(constraints []string) string {
	var keys []string
	for _, c := range constraints {
		key, _, _ := strings.Cut(strings.TrimPrefix(c, prefillPrefix), " ")
		keys = append(keys, key)
	}
	return strings.Join(keys, ", ")
}
