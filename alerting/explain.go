package alerting

import (
	_ "embed" // the template
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
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
	Path      []PathPoint         `json:"path,omitempty"` // of the resource that binds
	Basis     *Basis              `json:"basis,omitempty"`
	Steps     []Step              `json:"steps"`
	Prefill   []Step              `json:"prefill_steps,omitempty"` // of a disaggregated pool's prefill replicas
	After     *Aftermath          `json:"after,omitempty"`         // nil before the next decision
}

// ExplainedResource is the evidence of a decision on one resource, with the times at which it saturates.
type ExplainedResource struct {
	ResourceEvidence
	ETA SaturationETA `json:"saturation_at"`
}

// Step is one step of the calculation of the requested replicas.
type Step struct {
	Replicas int    `json:"replicas"`
	What     string `json:"what"`
}

// Aftermath is what happened in the hour after a decision, as far as known.
type Aftermath struct {
	Until time.Time `json:"until"`
	// Changes are the ticks at which the replicas changed.
	Changes []Supply `json:"changes"`
	// Peak is the busiest tick of the binding resource. Without is the busiest tick if the replicas (ready and pending)
	// had stayed as at the decision.
	Peak    *Peak `json:"peak,omitempty"`
	Without *Peak `json:"without,omitempty"`
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
	Replicas int       `json:"replicas"` // that the capacity is of
	Demand   float64   `json:"demand"`
	Use      float64   `json:"utilisation"` // demand over capacity
}

// Explain explains d. after are the later decisions of the same pool, in order.
func Explain(d *Decision, after []Decision) Explanation {
	x := Explanation{ID: d.EventID(), Decision: *d, Event: NewPrescale(d), Resources: []ExplainedResource{},
		Path: d.Path, Basis: d.Basis, Steps: steps(d)}
	for _, side := range d.byRole() {
		for i := range side.Resources {
			r := side.Resources[i]
			x.Resources = append(x.Resources, ExplainedResource{r, at(d.Tick.UTC(), r.ETA)})
		}
	}
	if v := d.Prefilling(); v != nil {
		x.Prefill = steps(v)
	}
	if len(after) > 0 {
		x.After = aftermath(d, after)
	}
	return x
}

// steps are the steps from demand to the requested replicas.
func steps(d *Decision) []Step {
	var out []Step
	thisTick := d.Floor
	for i := range d.Resources {
		r := &d.Resources[i]
		thisTick = max(thisTick, r.NeedReplicas+d.Reserves.Total())
		out = append(out, Step{r.NeedReplicas, fmt.Sprintf("for %s: at most %s expected (%s certain), a replica carries %s", resourceWithUnit(r.Dimension), value.Short(r.NeedQuantile), percent(d.Quantile), value.Short(r.PerReplica))})
	}
	for _, x := range d.Reserves.Each() {
		if x.Replicas > 0 {
			out = append(out, Step{x.Replicas, "more as a reserve, kept " + x.For})
		}
	}
	if !d.ofPrefill() && d.SeenFloor() != nil { // prefill replicas have no floor
		out = append(out, Step{d.Floor, "for what is seen now: demand, queues, KV use and latencies"})
	}
	out = append(out, Step{d.Needed, d.neededFor(thisTick)})
	if len(d.Constraints) > 0 {
		return append(out, Step{d.Desired, "asked for, limited by " + strings.Join(texts(d.Constraints), "; ")})
	}
	return append(out, Step{d.Desired, fmt.Sprintf("asked for (at most %d are allowed)", d.Limit)})
}

// neededFor explains Needed, compared with the replicas that this tick alone needs.
func (d *Decision) neededFor(thisTick int) string {
	switch {
	case len(d.Resources) == 0:
		return "needed without a forecast"
	case d.Needed > thisTick:
		return "kept: fewer must be enough for a while before any goes"
	case d.Needed < thisTick:
		return "needed by the demand of now alone: the history is too short for the forecast"
	}
	return "needed: the largest of these and the reserves"
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
	for i := range x.Resources {
		if r := &x.Resources[i]; r.Dimension == resource && r.PerReplica > 0 && replicas > 0 {
			return &Peak{Tick: x.Tick.UTC(), Resource: resource, Replicas: replicas, Demand: r.Demand, Use: r.Demand / (r.PerReplica * float64(replicas))}
		}
	}
	return nil
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
		"clock": clock, "percent": percent, "span": span, "driver": driverText, "ahead": minutesAhead, "resource": resourceWithUnit, "name": ResourceName,
		"replicas": (*Decision).replicasText, "sides": (*Decision).byRole, "binding": (*Decision).binding,
		"warned":   func(lead time.Duration) string { return span(forecaster.WarningWindow(lead)) },
		"minutes":  func(seconds float64) string { return fmt.Sprintf("%.1f min", seconds/60) },
		"short":    func(v any) string { return value.Short(reflect.ValueOf(v).Float()) },
		"capacity": func(r *ResourceEvidence, ready int) string { return value.Short(r.PerReplica * float64(ready)) },
	}).Parse(explainText))
)

// WriteText writes x for a person.
func (x *Explanation) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return errors.Join(explainTemplate.Execute(t, x), t.Flush())
}

// resourceWithUnit is a resource in words with the unit of its quantities.
func resourceWithUnit(dimension string) string {
	return ResourceName(dimension) + resourceTexts[dimension].unit
}

// minutesAhead is a time ahead in a table.
func minutesAhead(d time.Duration) string {
	if d == forecaster.Never {
		return fmt.Sprintf(">%d min", forecaster.Horizon)
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// PathPoint is the forecast of the binding resource some minutes ahead: demand in its unit, and the replicas that are
// ready by then if no more are requested.
type PathPoint struct {
	_ struct{} `cbor:",toarray"`

	Minute   int     `json:"minute"`
	Median   float32 `json:"p50"`
	Quantile float32 `json:"demand_quantile"` // at the decision's quantile
	Ready    int     `json:"ready"`           // pending ones after the median warm-up lag
}

// pathEvery is the distance of the points in minutes.
const pathEvery = 5

// path is the forecast of r over the horizon, as far as known.
func (p *plan) path(r *resource) []PathPoint {
	var out []PathPoint
	for h := pathEvery; h <= forecaster.Horizon; h += pathEvery {
		at := &r.forecast.Minute[h-1]
		point := PathPoint{Minute: h, Median: float32(at.At(.5)), Quantile: float32(at.At(p.tau)), Ready: p.own.supply.Ready}
		if sum := float64(point.Median + point.Quantile); math.IsNaN(sum) || math.IsInf(sum, 0) {
			return out
		}
		for _, asked := range p.own.supply.Pending {
			if p.in.Pool.Warmup.ReadyBy(asked, p.now, p.now.Add(time.Duration(h)*time.Minute)) >= .5 {
				point.Ready++
			}
		}
		out = append(out, point)
	}
	return out
}

// SeenFloor is the reactive floor; nil if it is 0 because no resource has a capacity.
func (d *Decision) SeenFloor() *int {
	if d.Floor == 0 && len(d.Resources) == 0 {
		return nil
	}
	return new(d.Floor)
}

// binding is the evidence on the binding resource; nil without one.
func (d *Decision) binding() *ResourceEvidence {
	for i := range d.Resources {
		if d.Resources[i].Dimension == d.Binding {
			return &d.Resources[i]
		}
	}
	return nil
}
