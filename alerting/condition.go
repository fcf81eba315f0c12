package alerting

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// Severity is the severity label of an alert.
type Severity string

// The severities: a page wakes someone, a warning waits for the morning.
const (
	Page    Severity = "page"
	Warning Severity = "warning"
)

// Condition is a problem at one tick that may raise an alert. Name, Pool and Role identify it; without a pool, Name and
// Resource. Resource, Class and Severity keep their values from when the alert was raised.
type Condition struct {
	Name     AlertName `cbor:"1,keyasint"`
	Pool     string    `cbor:"2,keyasint"`
	Role     string    `cbor:"12,keyasint,omitempty"` // "prefill" of a disaggregated pool's prefill replicas, else ""
	Resource string    `cbor:"3,keyasint"`            // that runs out first; a sink for the daemon's own alerts; "" if none
	Class    string    `cbor:"4,keyasint"`            // that drives demand; "" if unknown
	Severity Severity  `cbor:"5,keyasint"`

	Annotations map[string]string `cbor:"6,keyasint"`

	// Fading conditions keep a firing alert active, but raise no new one.
	Fading bool `cbor:"-"`
	// Ticks is how many ticks in a row raise the alert; 0 is the usual number, two.
	Ticks int `cbor:"-"`
}

// FadeShare is the share of the alert threshold above which a firing alert stays active.
const FadeShare = 0.6

// Parameters of the conditions.
const (
	sureProbability = 0.9 // from here, a page is raised at the first tick
	degradedTicks   = 60  // ticks on the fallback forecast before the warning

	driftOutcomes = forecaster.OriginsPerDay // fewest outcomes to judge a quantile
	driftShare    = 0.85                     // of outcomes below the 95 % quantile; at or below this, it drifts
)

// Conditions are the conditions of one pool at one tick, from its decision and forecast. A page needs a probable
// saturation that scaling cannot avert: it comes before a new replica is ready (pending replicas count), or a limit
// blocks scaling. Everything else is a warning.
func Conditions(d *Decision, pf *forecaster.PoolForecast, cfg Config) []Condition {
	b := &conditions{Decision: d, pf: pf, cfg: cfg}
	b.telemetryFaults() // also of a stale pool: a clock that is off makes it stale
	if d.Stale {
		what := "no current telemetry"
		if d.Withheld == requestsMissing {
			what = requestsMissing
		}
		b.add(TelemetryStale, "", alertText{
			Summary:     what + ", so an overload would come without a warning",
			Description: capitalise(d.Reason) + " Until telemetry is back, autoscalers get no number (KEDA uses its fallback).",
			Action:      "Check that gateways run and reach NATS, and that their clocks are right. Forewarm's page /readyz says what was refused.",
		})
		return b.all
	}
	b.retryStorm()
	b.latency()
	b.contradictedRates()
	b.poolLimits()
	for _, ofRole := range d.byRole() {
		b.Decision = ofRole
		b.saturation()
		b.reserve()
		b.poorForecast()
	}
	return b.all
}

// conditions collects the conditions of one tick: of Decision's pool or role; of the daemon itself if Decision is nil.
type conditions struct {
	*Decision
	pf  *forecaster.PoolForecast // nil for the daemon itself
	cfg Config
	all []Condition
}

// add adds a warning with the annotations that every alert has. The result is valid until the next call.
func (b *conditions) add(name AlertName, resource string, w alertText) *Condition {
	c := Condition{Name: name, Resource: resource, Severity: Warning, Annotations: map[string]string{"mode": string(b.cfg.Mode)}}
	if d := b.Decision; d != nil {
		const before, after = "Pool ", ": "
		room := maxSummary - len(before+after) - len([]rune(w.Summary)) // a long name is cut
		w.Summary = before + value.Cut(d.Pool, max(room, 8)) + after + w.Summary
		c.Pool = d.Pool
		if d.ofPrefill() {
			c.Role = string(capacity.PrefillRole)
		}
		c.Annotations["decision"], c.Annotations["mode"] = d.EventID(), string(d.Mode)
		if b.cfg.DashboardURL != "" {
			c.Annotations["dashboard_url"] = strings.ReplaceAll(b.cfg.DashboardURL, "{pool}", url.PathEscape(d.Pool))
		}
	}
	for key, text := range map[string]string{"summary": w.Summary, "description": w.Description, "action": w.Action} {
		c.Annotations[key] = zoneOnce(text)
	}
	if b.cfg.RunbookURL != "" {
		c.Annotations["runbook_url"] = strings.ReplaceAll(b.cfg.RunbookURL, "{alert}", string(name))
	}
	b.all = append(b.all, c)
	return &b.all[len(b.all)-1]
}

// contradictedRates warns that observed rates of replicas differ from the configuration.
func (b *conditions) contradictedRates() {
	if b.Basis == nil {
		return
	}
	for _, c := range b.Basis.Contradicts {
		w := alertText{Summary: ResourceName(c.Dimension) + " of a replica is not what the configuration says"}
		w.Description, w.Action = c.Words()
		b.add(RateContradicted, c.Dimension, w)
	}
}

// addSaturation adds a condition about a resource that saturates. end ends the summary; more is for the description.
func (b *conditions) addSaturation(
	name AlertName, first *ResourceEvidence, l alertWindow, end, action string, more ...string,
) *Condition {
	d := b.Decision
	if !d.overCapacity(first) { // else the probability sentence says it
		more = append(more, d.utilisationSentence(first))
	}
	c := b.add(name, first.Dimension, alertText{
		Summary:     d.saturationText(first, l.at(first), l.window) + end,
		Description: joinSentences(d.probabilitySentence(first, l), d.Cause(), requestSentence(d)), Action: action,
	}.with(d.lostSentence()).with(more...).with(d.assumptionSentence()))
	c.Annotations["saturation_probability"] = fmt.Sprintf("%.2f", l.at(first))
	c.Annotations["saturation_at"] = fmt.Sprintf("beyond %d min", forecaster.Horizon)
	if t := ahead(d.Tick, first.ETA.P50); t != nil {
		c.Annotations["saturation_at"] = t.Format(time.RFC3339)
	}
	if len(d.Drivers) > 0 {
		main := mainDriver(d.Drivers)
		c.Class, c.Annotations["driver"] = main.Class, d.driverSentence(main)
	}
	c.Fading = l.at(first) < l.threshold
	// In the first hour of history, or if no replica reports, nobody is woken.
	if name != SaturationAhead && d.Confidence != forecaster.Cold && !d.SupplyAssumed {
		c.Severity = Page
	}
	return c
}

// saturation adds that a resource of one role saturates: at all, before a new replica can be ready, or while a bound of
// the pool blocks the replicas that this needs.
func (b *conditions) saturation() {
	d, help := b.Decision, loadAdvice(b.Decision)
	early, soon := d.warningWindow(b.cfg), d.pageWindow(b.cfg)
	likely, late := d.likeliest(soon, anyTime), d.likeliest(soon, d.late)
	if first := d.likeliest(early, anyTime); first != nil {
		c := b.addSaturation(SaturationAhead, first, early, "", d.advice(help))
		// A page for the same problem is enough: a firing warning stays active, but no new one is raised.
		c.Fading = c.Fading || late != nil
	}
	switch blocked := d.Needed > d.Limit; {
	case blocked && likely != nil:
		end := ", and no more replicas are allowed"
		if d.Desired > d.reportedReplicas() {
			end = fmt.Sprintf(", and the limit of %s will not do", d.replicasText(d.Limit))
		}
		b.addSaturation(AtCapacityLimit, likely, soon, end, d.advice(help))
	case blocked && d.Floor > d.Limit: // because of queues, full caches or latencies; the demand itself would fit
		b.add(AtCapacityLimit, d.Binding, alertText{
			Summary:     fmt.Sprintf("%s are needed now, and no more than %d are allowed", d.replicasText(d.Needed), d.Limit),
			Description: joinSentences(d.Reason, d.Cause()), Action: d.advice(help),
		})
	case !blocked && late != nil:
		lead := fmt.Sprintf("A new replica needs %s to start.", wholeMinutes(d.Lead))
		c := b.addSaturation(TooLateToWarm, late, soon, ", and new replicas come too late",
			joinSentences(d.chase(), capitalise(help+".")), lead)
		if late.Probability >= sureProbability {
			c.Ticks = 1
		}
	}
}

// poolLimits warns that demand exceeds a limit of the whole pool, or probably will within the window of pages.
func (b *conditions) poolLimits() {
	window := b.pageWindow(b.cfg).window
	for i := range b.Limits {
		l := &b.Limits[i]
		text := b.limitText(l, window)
		if text == "" {
			continue
		}
		b.add(AtCapacityLimit, l.Dimension, alertText{
			Summary:     text,
			Description: fmt.Sprintf("Demand is %s of the limit. More replicas do not help.", percent(l.Demand/l.PerReplica)),
			Action:      fmt.Sprintf("Raise the quota and then %s, or throttle requests.", l.Dimension),
		}).Fading = l.Demand <= l.PerReplica && l.Probability < limitProbability
	}
}

// telemetryFaults warns that part of the telemetry is missing or in the wrong minutes.
func (b *conditions) telemetryFaults() {
	faults := b.pf.Minute.Faults
	if len(faults) == 0 {
		return
	}
	w := alertText{
		Summary: "telemetry of " + value.Count(len(faults), "producer") + " is missing or in the wrong minutes",
		Action:  "Check that the producers run, reach NATS, and set their clocks by NTP.",
	}
	for i := range faults {
		w = w.with(faultText(&faults[i]))
	}
	b.add(TelemetryFault, "", w)
}

// alertWindow is how far ahead an alert looks, and its threshold.
type alertWindow struct {
	threshold float64 // lowest probability that raises the alert
	window    time.Duration
	ahead     bool // the probability is ResourceEvidence.Ahead, not ResourceEvidence.Probability
}

// pageWindow is the window of pages and of reasons: the lead time plus Config.Hold.
func (d *Decision) pageWindow(cfg Config) alertWindow {
	return alertWindow{threshold: cfg.AlertProbability, window: d.Lead + cfg.Hold}
}

// warningWindow is the longer window of warnings, with its own threshold; pageWindow if that threshold is unknown.
func (d *Decision) warningWindow(cfg Config) alertWindow {
	if d.WarnFrom == 0 {
		return d.pageWindow(cfg)
	}
	return alertWindow{threshold: d.WarnFrom, window: forecaster.WarningWindow(d.Lead), ahead: true}
}

// at is the probability of r within the window.
func (l alertWindow) at(r *ResourceEvidence) float64 {
	if l.ahead {
		return r.Ahead
	}
	return r.Probability
}

// likeliest is the resource with the highest probability among those whose ETA counts, the binding one of equals; nil
// if none keeps an alert active. The other resources run out for the same cause and have no alert.
func (d *Decision) likeliest(l alertWindow, counts func(forecaster.ETA) bool) (most *ResourceEvidence) {
	for i := range d.Resources {
		r := &d.Resources[i]
		if l.at(r) < FadeShare*l.threshold || !counts(r.ETA) {
			continue
		}
		if most == nil || l.at(r) > l.at(most) || l.at(r) == l.at(most) && r.Dimension == d.Binding {
			most = r
		}
	}
	return most
}

// reserve warns that the pool serves its demand now, but would not after the failure it reserves for.
func (b *conditions) reserve() {
	d, text := b.Decision, b.belowReserve()
	if text == "" {
		return
	}
	help := "see why they do not start"
	if d.Needed > d.Limit {
		help = "accept that a failure overloads the pool"
	}
	b.add(BelowReserve, d.Binding, alertText{
		Summary:     "a failure of " + d.replicasText(d.Reserves.Failure) + " would overload it",
		Description: joinSentences(capitalise(text)+".", requestSentence(d)), Action: d.advice(help),
	}.with(d.lostSentence(), d.assumptionSentence()))
}

// BelowReserve reports whether the pool serves its demand now, but would not after the failure it reserves for.
func (d *Decision) BelowReserve() bool { return d.belowReserve() != "" }

// belowReserve describes a failure that would leave fewer replicas than demand needs now. It is "" if enough would be
// left, or if even all replicas are too few.
func (d *Decision) belowReserve() string {
	left, takes := max(d.Ready-d.Reserves.Failure, 0), 0
	for i := range d.Resources {
		takes = max(takes, ReplicasFor(d.Resources[i].Demand, d.Resources[i].PerReplica))
	}
	if takes > d.Ready || takes <= left {
		return ""
	}
	return fmt.Sprintf("demand needs %d of %s, and after a failure of %d there would be %d",
		takes, d.replicasText(d.Ready), d.Reserves.Failure, left)
}

func anyTime(forecaster.ETA) bool { return true }

// late reports whether a saturation comes, at the median, before a replica requested now can be ready. It is false in a
// pool that starts from zero: requests wait for the first replica.
func (d *Decision) late(e forecaster.ETA) bool {
	return !d.FromZero && e.P50 != forecaster.Never && e.P50 < d.Lead
}

// poorForecast warns that the forecast of the binding resource is poor: a baseline has been better for long, or too
// many outcomes exceed its 95 % quantile.
func (b *conditions) poorForecast() {
	f := b.pf.Of(b.Binding)
	if f == nil || b.Confidence == forecaster.Cold {
		return
	}
	poor := alertText{
		Summary: "the forecast of " + ResourceName(f.Dimension) + " is poor",
		Action:  "Expect later warnings than usual. Long queues and full KV memory still add replicas. If that is not enough, raise replicas.min.",
	}
	covered := &f.Basis.Covered
	below := float64(covered.Below[forecaster.L95])
	switch {
	case f.Fallback:
		poor.Description = "Lately the assumption that demand stays as it is was more accurate than the forecast, so Forewarm uses it."
		b.add(ForecastDegraded, f.Dimension, poor).Ticks = degradedTicks
	case covered.N >= driftOutcomes && below <= driftShare:
		poor.Description = fmt.Sprintf("In the last %d hours demand was above the forecast's upper limit in %s of the minutes, where 5 %% is right.",
			24*int(covered.N/forecaster.OriginsPerDay), percent(1-below))
		b.add(ForecastDegraded, f.Dimension, poor)
	}
}

// reportedReplicas is the number of ready and pending replicas, without those that do not report yet.
func (d *Decision) reportedReplicas() int { return d.Ready + d.Pending - d.Unreported }
