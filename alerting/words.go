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
	"github.com/forewarm/forewarm/internal/value"
)

// The sentences of alerts and reasons. Each fact has one sentence, in this file. docs/style.md has the rules.

// alertText are the texts of an alert. Summary is what will happen and when, in at most maxSummary characters.
// Description is the probability, the cause and what was done. Action is what to do. Description and Action together
// have at most maxWords words.
type alertText struct{ Summary, Description, Action string }

const (
	maxSummary = 120
	maxWords   = 60
	maxName    = 40  // characters of a class or receiver in a summary
	maxError   = 120 // characters of an error in a description
	maxRelief  = 2   // admission limits in an alert; the event lists all
	minorShare = 0.1 // of demand, below which a class is not named as the cause
	minLoss    = 0.1 // of the cache hit ratio, that is mentioned besides the main cause

	limitPrefix      = "limits." // of the names of limits of the whole pool
	limitProbability = 0.5       // least probability of reaching one that raises an alert
)

// with adds sentences to the description as far as maxWords allows.
func (w alertText) with(sentences ...string) alertText {
	for _, s := range sentences {
		if longer := joinSentences(w.Description, s); len(strings.Fields(longer+" "+w.Action)) <= maxWords {
			w.Description = longer
		}
	}
	return w
}

// joinSentences joins the parts that are not empty.
func joinSentences(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

func capitalise(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// likelihood is a probability in steps of five percent.
func likelihood(p float64) string {
	switch {
	case p < .05:
		return "less than 5 %"
	case p > .95:
		return "more than 95 %"
	}
	return fmt.Sprintf("%.0f %%", 5*math.Round(20*p))
}

// overCapacity reports whether demand exceeds the ready capacity, as any does if no replica is ready.
func (d *Decision) overCapacity(r *ResourceEvidence) bool {
	have := r.PerReplica * float64(d.Ready)
	return r.Demand > 0 && r.Demand >= have
}

// saturationText is which resource saturates and when: "KV memory will be full in about 14 min".
func (d *Decision) saturationText(r *ResourceEvidence, probability float64, window time.Duration) string {
	what, end := ResourceName(r.Dimension), cmp.Or(resourceTexts[r.Dimension].end, "run out")
	if role := d.role(); role != "" && !strings.HasPrefix(what, strings.TrimSpace(role)) {
		what = role + what
	}
	none := "no " + d.role() + "replica is ready"
	if d.Ready == 0 {
		what, end = none+", and requests", "come"
	}
	switch {
	case d.overCapacity(r) && d.Ready == 0:
		return none
	case d.overCapacity(r):
		return what + " is over its planned limit now"
	case probability >= .5 && r.ETA.P50 != forecaster.Never:
		when := "within a minute"
		if ahead := min(r.ETA.P50, window); ahead > time.Minute { // half of the chance lies before the window ends
			when = "in about " + wholeMinutes(ahead)
		}
		return what + " will " + end + " " + when
	}
	return fmt.Sprintf("%s may %s within %s (%s likely)", what, end, wholeMinutes(window), likelihood(probability))
}

// limitText is that a limit of the whole pool is exceeded or will be reached within the window; "" if that is unlikely.
func (d *Decision) limitText(r *ResourceEvidence, window time.Duration) string {
	unit := strings.ReplaceAll(strings.TrimPrefix(r.Dimension, limitPrefix), "_", " ")
	what := fmt.Sprintf("the limit of %s %s", value.Short(60*r.PerReplica), unit)
	switch {
	case r.Demand > r.PerReplica:
		return what + " is exceeded"
	case r.Probability < FadeShare*limitProbability:
		return ""
	}
	verb := "may"
	if r.Probability >= limitProbability {
		verb = "will probably"
	}
	return fmt.Sprintf("%s %s be reached within %s (%s likely)",
		what, verb, wholeMinutes(window), likelihood(r.Probability))
}

// probabilitySentence is a sentence about the probability of an outcome, or about the utilisation if it is present.
func (d *Decision) probabilitySentence(r *ResourceEvidence, l alertWindow) string {
	switch p := l.at(r); {
	case d.overCapacity(r):
		return d.utilisationSentence(r)
	case p >= .5:
		return fmt.Sprintf("That is %s likely by %s.", likelihood(p), clock(d.Tick.Add(l.window)))
	}
	return ""
}

// utilisationSentence is a sentence about demand as a share of the capacity; "" if no replica is ready.
func (d *Decision) utilisationSentence(r *ResourceEvidence) string {
	have := r.PerReplica * float64(d.Ready)
	if !(have > 0) {
		return ""
	}
	return fmt.Sprintf("Demand is %s of the planned capacity of %s.", percent(r.Demand/have), d.replicasText(d.Ready))
}

// Cause is a sentence about the class that drives demand, and its changes; "" if no driver is known.
func (d *Decision) Cause() string {
	if len(d.Drivers) == 0 {
		return ""
	}
	first := mainDriver(d.Drivers)
	if first.Share > 0 && first.Share < minorShare {
		return "No single class causes it."
	}
	return d.driverSentence(first)
}

// driverSentence is a sentence about a class and its changes, such as "Class agent (mostly tenant acme) causes it:
// prompts 2.1 times as long within an hour."
func (d *Decision) driverSentence(x *forecaster.Driver) string {
	changed := changes(x, d.Binding)
	if len(changed) == 0 {
		return fmt.Sprintf("%s has %s of the demand.", capitalise(classText(x)), percent(x.Share))
	}
	return fmt.Sprintf("%s causes it: %s within an hour.", capitalise(classText(x)), strings.Join(changed, " and "))
}

// classText is a class, with the tenant or feature that has most of it.
func classText(d *forecaster.Driver) string {
	class := features.ClassText(d.Class)
	switch {
	case d.Tenant != "" && d.TenantRise >= .5 && d.TenantShare < .5:
		return fmt.Sprintf("%s (tenant %s grew most)", class, d.Tenant)
	case d.Tenant != "" && (d.TenantShare >= .5 || d.TenantShare == 0):
		return fmt.Sprintf("%s (mostly tenant %s)", class, d.Tenant)
	case d.Feature != "" && d.FeatureShare >= .5:
		return fmt.Sprintf("%s (mostly feature %s)", class, d.Feature)
	}
	return class
}

// overdue reports whether the requested replicas should be ready by now.
func (d *Decision) overdue() bool { return !d.AskedAt.IsZero() && d.AskedAt.Add(d.Lead).Before(d.Tick) }

// requestSentence is a sentence about the requested replicas, and when they are due.
func requestSentence(d *Decision) string {
	total, by := d.reportedReplicas(), clock(d.AskedAt.Add(d.Lead))
	switch {
	case d.Desired > total && d.Mode == Advisory:
		return fmt.Sprintf("Forewarm advises %s (%d now), but scales nothing in advisory mode.", d.replicasText(d.Desired), total)
	case d.Desired > total && d.Withheld != "":
		return fmt.Sprintf("Forewarm wants %s (%d now). Autoscalers get no advice yet: %s.", d.replicasText(d.Desired), total, d.Withheld)
	case d.Desired > total:
		return fmt.Sprintf("Forewarm asked for %s (%d now) at %s, due by %s.", d.replicasText(d.Desired), total, clock(d.AskedAt), by)
	case d.Pending > 0 && !d.AskedAt.IsZero():
		return fmt.Sprintf("Forewarm waits for %d of %s to start, due by %s.", d.Pending, d.replicasText(total), by)
	case d.Pending > 0:
		return fmt.Sprintf("Forewarm waits for %d of %s to start.", d.Pending, d.replicasText(total))
	case d.Needed > d.Limit:
		return fmt.Sprintf("Forewarm can ask for no more than %s.", d.replicasText(d.Limit))
	}
	return ""
}

// lostSentence is a sentence about replicas that no longer report, if more are wanted than report; else "".
func (d *Decision) lostSentence() string {
	left := d.reportedReplicas()
	if d.Lost == 0 || d.SupplyAssumed || d.Desired <= left {
		return ""
	}
	return fmt.Sprintf("%d of %s stopped reporting before %s, so Forewarm counts %d.",
		d.Lost, d.replicasText(left+d.Lost), clock(d.LostAt), left)
}

// assumptionSentence is a sentence that the number of replicas is assumed; "" if it is reported.
func (d *Decision) assumptionSentence() string {
	switch {
	case d.ofPrefill():
		return "The number of ready prefill replicas is assumed."
	case d.SupplyAssumed:
		return "The number of ready replicas is assumed, because none reports."
	}
	return ""
}

// chase is what a person can do to get the replicas that Desired counts; "" if they are there, or not late yet.
func (d *Decision) chase() string {
	switch more := d.Desired > d.reportedReplicas(); {
	case more && !d.delivered():
		return fmt.Sprintf("Scale to %s by hand.", d.replicasText(d.Desired))
	case more && d.overdue():
		return "Check the autoscaler."
	case d.Pending > 0 && d.overdue():
		return "Check why the starting replicas do not become ready."
	}
	return ""
}

// advice is what a person can do to get more replicas. shed is what helps otherwise, for the middle of a sentence.
func (d *Decision) advice(shed string) string {
	switch {
	case d.Needed > d.Limit:
		takes := d.replicasText(d.Needed)
		if d.Reserves.String() != "" {
			takes += " (reserve included)"
		}
		raise := fmt.Sprintf("Raise %s: %s are needed, %d are allowed.", d.limitKey(), takes, d.Limit)
		return joinSentences(d.chase(), raise, "Or "+shed+".")
	case d.FromZero:
		return "Nothing, if requests wait until a replica is ready. If they fail, set replicas.min to 1."
	case d.Desired > d.reportedReplicas() && !d.delivered():
		return d.chase()
	case d.chase() != "":
		return joinSentences(d.chase(), capitalise(shed+" until they serve."))
	case d.Desired > d.Ready:
		return "If the new replicas are late, " + shed + "."
	}
	return fmt.Sprintf("Nothing yet: %s will probably do.", d.replicasText(d.Ready))
}

// limitKey is the configuration key of the limit on d.
func (d *Decision) limitKey() string {
	for _, c := range d.Constraints {
		if c.Key == budgetKey || strings.HasSuffix(c.Key, "replicas.max") {
			return c.Key
		}
	}
	return "the limit"
}

// loadAdvice is the advice if scaling does not help, for the middle of a sentence. It has the lowest admission limits.
func loadAdvice(d *Decision) string {
	admitted := slices.SortedStableFunc(slices.Values(d.Admission), func(a, b AdmissionLimit) int { return cmp.Compare(a.Share, b.Share) })
	switch {
	case d.Ready == 0:
		return "hold requests, or send them to another pool"
	case len(admitted) == 0 && len(d.Drivers) == 0:
		return "throttle requests"
	case len(admitted) == 0:
		return "throttle " + features.ClassText(largestDriver(d.Drivers).Class)
	}
	var parts []string
	for _, l := range admitted[:min(maxRelief, len(admitted))] {
		if l.TokensPerS < 1 {
			parts = append(parts, "no request of "+features.ClassText(l.Class))
			continue
		}
		parts = append(parts, fmt.Sprintf("at most %s tokens/s of %s", value.Short(l.TokensPerS), features.ClassText(l.Class)))
	}
	return "admit " + strings.Join(parts, " and ")
}

// mainDriver is the driver to name: the first one if its cause is known, else the one with the largest share.
func mainDriver(drivers []forecaster.Driver) *forecaster.Driver {
	if drivers[0].Cause != "" {
		return &drivers[0]
	}
	return largestDriver(drivers)
}

func largestDriver(drivers []forecaster.Driver) *forecaster.Driver {
	return new(slices.MaxFunc(drivers, func(a, b forecaster.Driver) int { return cmp.Compare(a.Share, b.Share) }))
}

// changes are those of a class within the hour: its cause, and a loss of cache hits, which do not spare decode throughput.
func changes(d *forecaster.Driver, resource string) (out []string) {
	lost := d.CacheHit != nil && d.CacheLoss != nil && *d.CacheLoss >= minLoss && resource != features.DimDecode
	if d.Cause != "" && (d.Cause != forecaster.CauseCache || !lost) {
		out = append(out, Change(d.Cause, d.Factor))
	}
	if lost {
		out = append(out, fmt.Sprintf("cache hits down from %s to %s", percent(*d.CacheHit+*d.CacheLoss), percent(*d.CacheHit)))
	}
	return out
}

// changeTexts has the text of each cause; its factor is a share or a ratio.
var changeTexts = map[string]string{
	forecaster.CauseCache:   "cache hits down to %[1]s",
	forecaster.CauseMix:     "a higher share of the requests (%[1]s)",
	forecaster.CauseRetries: "%[1]s retries among its requests",
	forecaster.CauseRate:    "%.1[2]f times as many requests",
	forecaster.CausePrompt:  "prompts %.1[2]f times as long",
	forecaster.CauseOutput:  "answers %.1[2]f times as long",
}

// Change is one change of a class within the hour in words.
func Change(cause string, factor float64) string {
	text, ok := changeTexts[cause]
	if !ok { // of a newer version
		return strings.ReplaceAll(cause, "_", " ")
	}
	return fmt.Sprintf(text, percent(factor), factor)
}
