package alerting

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
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
		stale := condition(d, TelemetryStale, "", Warning, cfg, words{
			Summary:     "no current telemetry, so an overload would come without a warning",
			Description: capital(d.Reason) + " Until telemetry is back, autoscalers get no number (KEDA uses its fallback).",
			Action:      "Check that gateways run and reach NATS, and that their clocks are right. Forewarm's page /readyz says what was refused.",
		})
		return append([]Condition{stale}, faulty(d, pf, cfg)...) // a clock that is off makes a pool stale
	}
	out := slices.Concat(faulty(d, pf, cfg), storm(d, pf, cfg), overObjective(d, cfg), contradicted(d, cfg))
	var why []Condition
	for _, side := range d.sides() {
		out = append(out, prospects(side, pf, cfg)...)
		if len(why) == 0 {
			why = causes(side, pf, cfg) // the same for either role
		}
	}
	return append(out, why...)
}

// contradicted are the warnings that replicas were observed to do something else than is configured.
func contradicted(d *Decision, cfg Config) (out []Condition) {
	if d.Basis == nil {
		return nil
	}
	for _, c := range d.Basis.Contradicts {
		said, mend := c.Words()
		out = append(out, condition(d, RateContradicted, c.Dimension, Warning, cfg, words{
			Summary:     noun(c.Dimension) + " of a replica is not what the configuration says",
			Description: said, Action: mend,
		}))
	}
	return out
}

// prospects are the conditions about the replicas that d is of.
func prospects(d *Decision, pf *forecaster.PoolForecast, cfg Config) (out []Condition) {
	who, help := drivenBy(d.Drivers, pf, d.Binding), relief(d, pf)
	out = append(saturation(d, pf, who, help, cfg), limit(d, pf, who, help, cfg)...)
	out = append(out, belowReserve(d, cfg)...)
	return append(out, degraded(d, pf, cfg)...)
}

// faulty is the warning that part of the telemetry is missing or in the wrong minutes.
func faulty(d *Decision, pf *forecaster.PoolForecast, cfg Config) []Condition {
	if pf == nil || len(pf.Minute.Faults) == 0 {
		return nil
	}
	who := "a producer"
	if n := len(pf.Minute.Faults); n > 1 {
		who = fmt.Sprintf("%d producers", n)
	}
	w := words{Summary: "telemetry of " + who + " is missing or in the wrong minutes", Action: "Check that the producers run and reach NATS, and that NTP sets their clocks."}
	for i := range pf.Minute.Faults {
		w = w.and(fault(&pf.Minute.Faults[i]))
	}
	return []Condition{condition(d, TelemetryFault, "", Warning, cfg, w)}
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
func saturation(d *Decision, pf *forecaster.PoolForecast, who, help string, cfg Config) (out []Condition) {
	early, soon := d.early(cfg), d.soon(cfg)
	late := slices.DeleteFunc(d.likely(soon), func(r *ResourceEvidence) bool { return !d.late(r.ETA) })
	if likely := d.likely(early); len(likely) > 0 {
		c := warning(d, likely, pf, who, help, cfg)
		// A page for the same thing is enough: the warning stays if it fires, and is not raised beside it. Where a limit blocks
		// what is needed, the page is that of the limit.
		c.Fading = early.at(likely[0]) < early.from || len(late) > 0
		out = append(out, c)
	}
	if len(late) > 0 && d.Needed <= d.Limit {
		action := capital(help + ".")
		switch total := d.seen(); {
		case d.Desired > total && (d.Mode == Advisory || d.Withheld != ""):
			action = d.toDo(help) + " " + action
		case d.overdue() && (d.Desired > total || d.Pending > 0):
			action = d.toDo(help)
		}
		page := condition(d, TooLateToWarm, late[0].Dimension, severityOf(d), cfg, words{
			Summary:     d.outcome(late[0], late[0].Probability, soon.window) + ", and new replicas come too late",
			Description: sentence(d.odds(late, soon), who, done(d)), Action: action,
		}.and(fmt.Sprintf("A new replica needs %s to start.", span(d.Lead))).and(d.besides(late)...)).load(d, late, pf, soon)
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
	action := "Wait. If the replicas are late, see why they do not start."
	if d.Needed > d.Limit || d.Desired <= d.Ready || d.Mode == Advisory || d.Withheld != "" || d.overdue() {
		action = d.toDo("accept that a failure overloads the pool")
	}
	c := condition(d, BelowReserve, d.Binding, Warning, cfg, words{
		Summary:     "too few " + d.role() + "replicas if " + failures(d.Reserves.Failure),
		Description: sentence(capital(said)+".", done(d)), Action: action,
	}.and(d.assumed()))
	c.Fading = fading
	return []Condition{c}
}

// failures says that so many replicas fail.
func failures(n int) string {
	if n > 1 {
		return fmt.Sprintf("%d fail", n)
	}
	return "one fails"
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
	rest := "none is left"
	if left > 0 {
		rest = "the rest is overloaded"
	}
	return fmt.Sprintf("demand needs %d of %d ready %sreplicas: if %s, %s", takes, d.Ready, d.role(), failures(d.Reserves.Failure), rest), fading
}

// warning says that the pool runs out, as seen early.
func warning(d *Decision, likely []*ResourceEvidence, pf *forecaster.PoolForecast, who, help string, cfg Config) Condition {
	early := d.early(cfg)
	c := condition(d, SaturationAhead, likely[0].Dimension, Warning, cfg, words{
		Summary:     d.outcome(likely[0], early.at(likely[0]), early.window),
		Description: sentence(d.odds(likely, early), who, done(d)), Action: d.toDo(help),
	}.and(d.besides(likely)...)).load(d, likely, pf, early)
	if d.WarnFrom > 0 {
		c.Annotations["warning_threshold"] = d.threshold()
	}
	return c
}

// threshold is from which probability on the pool is warned, for people.
func (d *Decision) threshold() string {
	text := fmt.Sprintf("A warning begins at a chance of %s within %s.", percent(d.WarnFrom), span(forecaster.WarningWindow(d.Lead)))
	if d.FalsePerWeek > 0 {
		text += fmt.Sprintf(" Expected false warnings a week: about %.0f.", max(d.FalsePerWeek, 1))
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
func limit(d *Decision, pf *forecaster.PoolForecast, who, help string, cfg Config) []Condition {
	likely := d.likely(d.soon(cfg))
	if d.Needed <= d.Limit || len(likely) == 0 {
		return nil
	}
	soon := d.soon(cfg)
	c := condition(d, AtCapacityLimit, likely[0].Dimension, severityOf(d), cfg, words{
		Summary:     d.outcome(likely[0], likely[0].Probability, soon.window) + ", and no more replicas are allowed",
		Description: sentence(d.odds(likely, soon), who, done(d)), Action: d.toDo(help),
	}.and(d.besides(likely)...)).load(d, likely, pf, soon)
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
	poor := words{
		Summary: "the forecast of " + noun(f.Dimension) + " is poor",
		Action:  "Expect later warnings than usual. Long queues and full KV memory still add replicas. If that is not enough, raise replicas.min.",
	}
	if f.Fallback {
		poor.Description = "Lately the assumption that demand stays as it is was more accurate than the forecast, so Forewarm uses it."
		c := condition(d, ForecastDegraded, f.Dimension, Warning, cfg, poor)
		c.Ticks = degradedTicks
		return []Condition{c}
	}
	covered := &f.Basis.Covered[1]
	if below := float64(covered.Below[forecaster.L95]); covered.N >= driftOutcomes && below <= driftShare {
		poor.Description = fmt.Sprintf("In the last %s demand was above the forecast's upper limit in %s of the minutes, where 5 %% is right.",
			days(float64(covered.N)/forecaster.OriginsPerDay), percent(1-below))
		return []Condition{condition(d, ForecastDegraded, f.Dimension, Warning, cfg, poor)}
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
	for i := range d.Drivers {
		driver := &d.Drivers[i]
		if driver.Cause != forecaster.CauseCache && changesOf(pf, driver.Class, d.Binding).loss() < collapseLoss {
			continue
		}
		c := condition(d, CacheHitCollapse, features.DimPrefill, Warning, cfg, words{
			Summary:     "prefix " + cmp.Or(changesOf(pf, driver.Class, d.Binding).cache(), Change(driver.Cause, driver.Factor)) + " in class " + shorten(driver.Class, mostName),
			Description: sentence(capital(d.outcome(r, r.Probability, d.soon(cfg).window))+".", drivenBy(d.Drivers[i:i+1], pf, d.Binding), done(d)),
			Action:      "Check what changed in the prompts or the routing of class " + driver.Class + ".",
		}.and("Prompts that are not cached must be computed again.")).load(d, []*ResourceEvidence{r}, pf, d.soon(cfg))
		c.Class, c.Fading = driver.Class, d.Probability < cfg.AlertProbability
		return append(out, c) // the heaviest class is enough
	}
	return nil
}

// condition fills in what every condition says.
func condition(d *Decision, name AlertName, resource string, severity Severity, cfg Config, said words) Condition {
	role := ""
	if d.ofPrefill() {
		role = string(capacity.PrefillRole)
	}
	said.Summary = d.of(said.Summary)
	c := Condition{Name: name, Pool: d.Pool, Role: role, Resource: resource, Severity: severity, Annotations: said.annotations(name, d.Pool, cfg)}
	c.Annotations["decision"], c.Annotations["mode"] = d.EventID(), string(d.Mode)
	return c
}

// annotations are those that every alert has.
func (w words) annotations(name AlertName, pool string, cfg Config) map[string]string {
	out := map[string]string{"summary": zoneOnce(w.Summary), "description": zoneOnce(w.Description), "action": zoneOnce(w.Action), "mode": string(cfg.Mode)}
	if runbook := Runbook(cfg.RunbookURL, name); runbook != "" {
		out["runbook_url"] = runbook
	}
	if cfg.DashboardURL != "" {
		out["dashboard_url"] = strings.ReplaceAll(cfg.DashboardURL, "{pool}", url.PathEscape(pool))
	}
	return out
}

// load adds to a condition what runs out, how likely, how soon and by whom.
func (c Condition) load(d *Decision, likely []*ResourceEvidence, pf *forecaster.PoolForecast, l look) Condition {
	c.Annotations["saturation_probability"], c.Annotations["saturation_at"] = fmt.Sprintf("%.2f", l.at(likely[0])), written(d.Tick, likely[0].ETA.P50)
	var names []string
	for _, r := range likely {
		names = append(names, r.Dimension)
	}
	c.Annotations["resources"] = strings.Join(names, ", ")
	if said := d.Diagnosed(); said != "" {
		c.Annotations["diagnosis"], c.Annotations["diagnosis_evidence"] = string(d.Diagnosis), said
	}
	if len(d.Drivers) > 0 {
		c.Class, c.Annotations["driver"] = principal(d.Drivers).Class, describe(d.Drivers, pf, d.Binding)
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

// share100 is a ratio that may exceed 1, for people; 1 is nothing special to it, and nobody wants more than 10, or an infinite
// one, in figures.
func share100(p float64) string {
	if p > 10 {
		return "more than 1000 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

// seen is how many replicas are known to be there or on their way, without those that do not report yet.
func (d *Decision) seen() int { return d.Ready + d.Pending - d.Unreported }

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

// limits are the keys of the bounds that held a decision back, from constraints such as "replicas.max 16: 19 wanted".
func limits(constraints []string) string {
	var keys []string
	for _, c := range constraints {
		key, _, _ := strings.Cut(strings.TrimPrefix(c, prefillPrefix), " ")
		keys = append(keys, key)
	}
	return strings.Join(keys, ", ")
}
