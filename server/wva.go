package server

import (
	"slices"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/pipeline"
)

// WVA is the labels of pools in the gauges of llm-d's Workload Variant Autoscaler.
type WVA struct {
	Namespace       string `yaml:"namespace"`        // of the workloads; "" leaves the gauges out
	AcceleratorType string `yaml:"accelerator_type"` // of every pool
}

// ExportWVA also exports decisions with the metric names and labels of llm-d's Workload Variant Autoscaler
// (internal/constants/metrics.go there), so that its autoscalers can follow Forewarm: the variant is the pool. The
// gauges exist only for advice that autoscalers may follow; without the metric, an autoscaler keeps its replicas. Call
// it before the first tick.
func (e *Exporter) ExportWVA(c WVA) {
	gauge := func(name, help string, value func(d *alerting.Decision) float64) family {
		return family{name, "gauge", help, func(out *pipeline.Output, add add) {
			for i := range out.Decisions {
				if d := &out.Decisions[i]; withheld(d) == nil {
					add(value(d), "variant_name", d.Pool, "namespace", c.Namespace, "accelerator_type", c.AcceleratorType)
				}
			}
		}}
	}
	current := func(d *alerting.Decision) float64 { return float64(d.Ready + d.Pending) }
	e.families = append(slices.Clip(e.families),
		gauge("wva_current_replicas", "Replicas that are ready or on the way.", current),
		gauge("wva_desired_ratio", "Desired over current replicas; from none, the desired ones.", func(d *alerting.Decision) float64 {
			return float64(d.Desired) / max(current(d), 1)
		}),
		gauge("wva_desired_replicas", "Replicas that the pool should have, of advice that may be obeyed.", func(d *alerting.Decision) float64 {
			return float64(d.Desired)
		}),
	)
}
