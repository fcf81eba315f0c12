package alerting

import (
	_ "embed" // the template
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// ExplainSpan is the period after a decision that an explanation covers.
const ExplainSpan = time.Hour

// Explanation is one decision with its reasons and what happened afterwards.
type Explanation struct {
	ID        string              `json:"id"`
	Decision  Decision            `json:"-"`
	Event     Prescale            `json:"decision"` // as published, or as it would have been
	Resources []ExplainedResource `json:"resources"`
	Basis     *Basis              `json:"basis,omitempty"`
	After     *Aftermath          `json:"after,omitempty"` // missing before the next decision
}

// ExplainedResource is the evidence of a decision on one resource, with the times at which it saturates.
type ExplainedResource struct {
	ResourceEvidence
	ETA SaturationETA `json:"saturation_at"`
}

// Aftermath is what happened in the hour after a decision, as far as known.
type Aftermath struct {
	Until time.Time `json:"until"`
	// Changes are the ticks at which the replicas changed.
	Changes []Supply `json:"changes"`
	Peak    *Peak    `json:"peak,omitempty"`    // the busiest tick of the binding resource
	Without *Peak    `json:"without,omitempty"` // the same if the replicas (ready and pending) had stayed as at the decision
}

// Supply is the replicas at one tick.
type Supply struct {
	Tick    time.Time `json:"tick"`
	Ready   int       `json:"ready"`
	Pending int       `json:"pending"`
	Desired int       `json:"desired_replicas"`
}

// Peak is demand against capacity at one tick.
type Peak struct {
	Tick     time.Time `json:"tick"`
	Resource string    `json:"resource"`
	Replicas int       `json:"replicas"` // with this number the capacity is computed
	Demand   float64   `json:"demand"`
	Use      float64   `json:"utilisation"` // demand over capacity
}

// Explain explains d. after are the later decisions of the same pool, in order.
func Explain(d *Decision, after []Decision) Explanation {
	x := Explanation{ID: d.EventID(), Decision: *d, Event: NewPrescale(d), Resources: []ExplainedResource{}, Basis: d.Basis}
	for _, side := range d.byRole() {
		for _, r := range side.Resources {
			x.Resources = append(x.Resources, ExplainedResource{r, saturationTimes(d.Tick.UTC(), r.ETA)})
		}
	}
	if len(after) > 0 {
		x.After = aftermath(d, after)
	}
	return x
}

func aftermath(d *Decision, after []Decision) *Aftermath {
	a := &Aftermath{}
	last := Supply{Ready: d.Ready, Pending: d.Pending, Desired: d.Desired}
	for i := range after {
		x := &after[i]
		a.Until = x.Tick.UTC()
		now := Supply{Ready: x.Ready, Pending: x.Pending, Desired: x.Desired}
		if now != last {
			last = now
			now.Tick = x.Tick.UTC()
			a.Changes = append(a.Changes, now)
		}
		a.Peak = busier(a.Peak, utilisationAt(d.Binding, x, x.Ready))
		a.Without = busier(a.Without, utilisationAt(d.Binding, x, d.Ready+d.Pending))
	}
	return a
}

// utilisationAt is the utilisation of a resource at the tick of x with a number of replicas; nil if unknown.
func utilisationAt(resource string, x *Decision, replicas int) *Peak {
	r := x.evidence(resource)
	if r == nil || !(r.PerReplica > 0) || replicas <= 0 {
		return nil
	}
	use := r.Demand / (r.PerReplica * float64(replicas))
	return &Peak{Tick: x.Tick.UTC(), Resource: resource, Replicas: replicas, Demand: r.Demand, Use: use}
}

// busier is the busier of two ticks, the earlier of equals; either may be nil.
func busier(a, b *Peak) *Peak {
	if a == nil || b != nil && b.Use > a.Use {
		return b
	}
	return a
}

var (
	//go:embed templates/explain.txt
	explainText string

	explainTemplate = template.Must(template.New("explain").Funcs(template.FuncMap{
		"clock": clock, "percent": percent, "short": value.Short, "wholeMinutes": wholeMinutes, "ahead": minutesAhead,
		"name": ResourceName, "driver": (*Decision).driverSentence, "replicas": (*Decision).replicasText,
		"sides": (*Decision).byRole, "prefill": (*Decision).ofPrefill,
		"list":     func(c []Constraint) string { return strings.Join(texts(c), "; ") },
		"resource": func(dimension string) string { return ResourceName(dimension) + resourceTexts[dimension].unit },
		"warned":   func(lead time.Duration) string { return wholeMinutes(forecaster.WarningWindow(lead)) },
		"minutes":  func(seconds float64) string { return fmt.Sprintf("%.1f min", seconds/60) },
	}).Parse(explainText))
)

// WriteText writes x for a person.
func (x *Explanation) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return errors.Join(explainTemplate.Execute(t, x), t.Flush())
}

func minutesAhead(d time.Duration) string {
	if d == forecaster.Never {
		return fmt.Sprintf(">%d min", forecaster.Horizon)
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// SeenFloor is Floor; nil if that is 0 because no resource has a known capacity.
func (d *Decision) SeenFloor() *int {
	if d.Floor == 0 && len(d.Resources) == 0 {
		return nil
	}
	return new(d.Floor)
}

// evidence is the evidence on a resource of either role; nil without any.
func (d *Decision) evidence(dimension string) *ResourceEvidence {
	for _, all := range [][]ResourceEvidence{d.Resources, d.Prompts} {
		if i := slices.IndexFunc(all, func(r ResourceEvidence) bool { return r.Dimension == dimension }); i >= 0 {
			return &all[i]
		}
	}
	return nil
}
