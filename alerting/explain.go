package alerting

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forewarm/forewarm/features"
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

// ExplainedResource is the evidence of a decision on one resource. Demand and capacities are in the resource's own
// unit.
type ExplainedResource struct {
	Resource     string        `json:"resource"`
	Demand       float64       `json:"demand"`
	PerReplica   float64       `json:"replica_capacity"`
	Need         float64       `json:"demand_quantile"` // demand at the decision quantile in the lead window
	NeedReplicas int           `json:"needed_replicas"`
	Probability  float64       `json:"saturation_probability"`
	ETA          SaturationETA `json:"saturation_at"`
	AfterFailure *Outage       `json:"after_failure,omitempty"` // the two above without the replicas reserved for failures
	Retries      *Retried      `json:"retries,omitempty"`       // what they add to demand and need
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
	x := Explanation{ID: d.EventID(), Decision: *d, Event: NewEvent(d).Data, Resources: []ExplainedResource{},
		Path: d.Path, Basis: d.Basis, Steps: steps(d)}
	tick := d.Tick.UTC()
	for _, side := range d.byRole() {
		for i := range side.Resources {
			r := &side.Resources[i]
			x.Resources = append(x.Resources, ExplainedResource{r.Dimension, r.Demand, r.PerReplica, r.NeedQuantile, r.NeedReplicas, round(r.Probability), at(tick, r.ETA), r.outage(tick), r.Retries})
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
	takes := d.Floor
	for i := range d.Resources {
		r := &d.Resources[i]
		out = append(out, Step{r.NeedReplicas, fmt.Sprintf("for %s: at most %s expected (%s certain), a replica carries %s", ResourceName(r.Dimension)+units[r.Dimension], value.Short(r.NeedQuantile), percent(d.Quantile), value.Short(r.PerReplica))})
		takes = max(takes, r.NeedReplicas+d.Reserves.Total())
	}
	for _, x := range d.Reserves.Each() {
		if x.Replicas > 0 {
			out = append(out, Step{x.Replicas, "more as a reserve, kept " + x.For})
		}
	}
	if !d.ofPrefill() && d.SeenFloor() != nil { // prefill replicas have no floor
		out = append(out, Step{d.Floor, "for what is seen now: demand, queues, KV use and latencies"})
	}
	out = append(out, Step{d.Needed, d.neededFor(takes)})
	if own := d.ownConstraints(); len(own) > 0 {
		return append(out, Step{d.Desired, "asked for, limited by " + boundsText(own)})
	}
	return append(out, Step{d.Desired, fmt.Sprintf("asked for (at most %d are allowed)", d.Limit)})
}

// neededFor explains Needed, compared with the need of this tick alone.
func (d *Decision) neededFor(takes int) string {
	switch {
	case len(d.Resources) == 0:
		return "needed without a forecast"
	case d.Needed > takes:
		return "kept: fewer must be enough for a while before any goes"
	case d.Needed < takes:
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

// WriteText writes x for a person.
func (x *Explanation) WriteText(w io.Writer) error {
	d := &x.Decision
	var b strings.Builder
	fmt.Fprintf(&b, "%s, decided at %s, %s mode, valid until %s\n\n  %s\n", x.ID, d.Tick.UTC().Format("2006-01-02 15:04 UTC"), d.Mode, clock(d.Expires), d.Reason)
	writeSteps(&b, d, x.Steps)
	if v := d.Prefilling(); v != nil {
		writeSteps(&b, v, x.Prefill)
	}
	if len(d.Resources) > 0 {
		b.WriteString("\nDemand and capacity (* is the resource that decides)\n")
		writeResources(&b, d)
	}
	d.writePath(&b)
	x.After.write(&b, d)
	b.WriteString("\nWhat it rests on\n")
	writeFacts(&b, d)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeSteps(w io.Writer, d *Decision, steps []Step) {
	fmt.Fprintf(w, "\nWhy %s\n", d.replicasText(d.Desired))
	for _, s := range steps {
		fmt.Fprintf(w, "  %5d  %s\n", s.Replicas, s.What)
	}
}

// history and madeFrom are the data and the model of a forecast in words.
var (
	history  = map[forecaster.Confidence]string{forecaster.Cold: "less than an hour of traffic", forecaster.Warm: "less than two days of traffic", forecaster.Seasonal: "two days of traffic or more"}
	madeFrom = map[string]string{modelNetwork: "by the neural network, ", modelLast: "mostly that demand stays as it is, which was the better forecast lately, "}
)

// writeFacts are the inputs, one a line.
func writeFacts(w io.Writer, d *Decision) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fact := func(name, format string, a ...any) {
		fmt.Fprintf(t, "  %s\t"+format+"\n", append([]any{name}, a...)...)
	}
	source := "reported"
	switch {
	case d.SupplyAssumed:
		source = "assumed: none reports"
	case d.Unreported > 0:
		source = fmt.Sprintf("reported, but for %d that no report shows yet", d.Unreported)
	}
	fact("replicas", "%d ready, %d starting (%s)", d.Ready, d.Pending, source)
	if v := d.Prefilling(); v != nil {
		fact("prefill replicas", "%d ready, %d starting (as asked for before: they do not report)", v.Ready, v.Pending)
	}
	fact("forecast", "%sfrom %s", madeFrom[d.Model], history[d.Confidence])
	fact("a start takes", "up to %s", span(d.Lead))
	if b := d.Basis; b != nil {
		writeBasis(fact, b, slices.Concat(d.Prompts, d.Resources))
	}
	if d.WarnFrom > 0 {
		fact("warnings", "%s", d.threshold())
	}
	fact("certainty", "%s that the replicas are enough (%s)", percent(d.Quantile), d.QuantileFrom)
	if d.KeepQuantile > d.Quantile {
		fact("", "%s before a replica is given up, because a start is needed to get it back", percent(d.KeepQuantile))
	}
	for i := range d.Drivers {
		fact("cause", "%s", driverText(d.Drivers[i:i+1]))
	}
	if v := d.Prefilling(); v != nil {
		for i := range v.Drivers {
			fact("cause (prefill)", "%s", driverText(v.Drivers[i:i+1]))
		}
	}
	for i := range d.Events {
		fact("event", "%s: %.1f times the demand (%.1f to %.1f)", d.Events[i].Name, d.Events[i].Learned, d.Events[i].Low, d.Events[i].High)
	}
	for _, warning := range d.Warnings {
		fact("warning", "%s", warning)
	}
	_ = t.Flush() // of a builder
}

// writeBasis writes the start-up time and the capacity that the decision used, and the stated ones.
func writeBasis(fact func(name, format string, a ...any), b *Basis, resources []ResourceEvidence) {
	if w := &b.Warmup; w.P50 > 0 {
		fact("", "half of them within %s, 90 %% within %s, by %d starts that were seen and the stated %s and %s", seconds(w.P50), seconds(w.P90), w.Seen, seconds(w.StatedP50), seconds(w.StatedP90))
	}
	for _, note := range b.Notes {
		fact("note", "%s", note)
	}
	for i := range b.Rates {
		r := &b.Rates[i]
		stated, learned := "not stated", "not learned yet"
		if r.Stated > 0 {
			stated = "stated " + value.Short(r.Stated)
		}
		if r.Learned > 0 {
			learned = "seen " + value.Short(r.Learned)
			if r.High > r.Low {
				learned += fmt.Sprintf(" (%s to %s)", value.Short(r.Low), value.Short(r.High))
			}
		}
		if i := slices.IndexFunc(resources, func(x ResourceEvidence) bool { return x.Dimension == r.Dimension }); i >= 0 && r.Used > 0 && resources[i].PerReplica != r.Used {
			learned += "; planned with " + value.Short(resources[i].PerReplica)
		}
		fact("a replica carries", "%s: %s, %s", ResourceName(r.Dimension)+units[r.Dimension], stated, learned)
	}
}

// units are the units of resources, if shown.
var units = map[string]string{features.DimKV: " (tokens)", features.DimPrefill: " (tokens/s)", features.DimDecode: " (tokens/s)"}

func seconds(s float64) string { return fmt.Sprintf("%.1f min", s/60) }

// writePath writes a table of the forecast of the binding resource and of its capacity.
func (d *Decision) writePath(w io.Writer) {
	r := d.binding()
	if r == nil || len(d.Path) == 0 {
		return
	}
	fmt.Fprintf(w, "\nForecast of %s\n", ResourceName(d.Binding)+units[d.Binding])
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := [5]string{"  minutes ahead\t", "  demand, middle forecast\t", fmt.Sprintf("  at most (%s certain)\t", percent(d.Quantile)), "  replicas ready\t", "  their capacity\t"}
	for _, p := range append([]PathPoint{{Median: float32(r.Demand), Quantile: float32(r.Demand), Ready: d.Ready}}, d.Path...) {
		if p.Minute > 20 && p.Minute%15 != 0 {
			continue
		}
		for i, cell := range [5]string{fmt.Sprint(p.Minute), value.Short(float64(p.Median)), value.Short(float64(p.Quantile)), fmt.Sprint(p.Ready), value.Short(r.PerReplica * float64(p.Ready))} {
			rows[i] += cell + "\t"
		}
	}
	for _, row := range rows {
		fmt.Fprintln(t, row)
	}
	_ = t.Flush() // of a builder
}

// writeResources writes a table of the evidence. The binding resource of each role has a star.
func writeResources(w io.Writer, d *Decision) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "  \tdemand now\tat most\ta replica carries\treplicas needed\tchance to run out in %s\tearliest (10 %%)\tmiddle (50 %%)\tlatest (90 %%)\t\n", span(forecaster.WarningWindow(d.Lead)))
	for _, side := range d.byRole() {
		for i := range side.Resources {
			r := &side.Resources[i]
			mark := ""
			if r.Dimension == side.Binding {
				mark = " *"
			}
			fmt.Fprintf(t, "  %s%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t\n", ResourceName(r.Dimension)+units[r.Dimension], mark, value.Short(r.Demand), value.Short(r.NeedQuantile), value.Short(r.PerReplica), r.NeedReplicas,
				percent(r.Ahead), minutesAhead(r.ETA.P10), minutesAhead(r.ETA.P50), minutesAhead(r.ETA.P90))
			if x := r.Retries; x != nil {
				fmt.Fprintf(t, "  without retries\t%s\t%s\t\t%d\t\t\t\t\t\n", value.Short(x.Demand), value.Short(r.NeedQuantile/x.Factor), x.NeedReplicas)
			}
			if a := r.AfterFailure; a != nil {
				fmt.Fprintf(t, "  after a failure\t\t\t\t\t%s\t%s\t%s\t%s\t\n", percent(a.Ahead), minutesAhead(a.ETA.P10), minutesAhead(a.ETA.P50), minutesAhead(a.ETA.P90))
			}
		}
	}
	_ = t.Flush() // of a builder
}

func (a *Aftermath) write(w io.Writer, d *Decision) {
	if a == nil {
		return
	}
	fmt.Fprintf(w, "\nWhat came of it, until %s\n", clock(a.Until))
	for _, s := range a.Changes {
		fmt.Fprintf(w, "  %s  %d ready, %d starting, %d asked for\n", clock(s.Tick), s.Ready, s.Pending, s.Desired)
	}
	if len(a.Changes) == 0 {
		fmt.Fprintf(w, "  The replicas stayed as they were.\n")
	}
	if p := a.Peak; p != nil {
		fmt.Fprintf(w, "  Demand was at most %s of the capacity for %s, at %s with %s.\n", percent(p.Use), ResourceName(p.Resource), clock(p.Tick), d.replicasText(p.Replicas))
	}
	if p := a.Without; p != nil {
		fmt.Fprintf(w, "  With the %s at the decision, it would have been %s, at %s.\n", d.replicasText(p.Replicas), percent(p.Use), clock(p.Tick))
	}
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
		point := PathPoint{Minute: h, Median: float32(at.At(.5)), Quantile: float32(at.At(p.tau)), Ready: p.supply.Ready}
		if sum := float64(point.Median + point.Quantile); math.IsNaN(sum) || math.IsInf(sum, 0) {
			return out
		}
		for _, asked := range p.supply.Pending {
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
