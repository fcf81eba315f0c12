package server

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// states are the states of a pool, the most urgent first.
var states = []string{"page", "warning", "stale", "undecided", "cold", "calm"}

type poolsJSON struct {
	Pools []summaryJSON `json:"pools"` // the most urgent first
}

// summaryJSON is a pool in one line.
type summaryJSON struct {
	headJSON
	Desired  *int       `json:"desired_replicas"`
	Alerts   int        `json:"alerts"` // firing ones
	Decision *briefJSON `json:"decision"`
}

// headJSON is the state of a pool.
type headJSON struct {
	Pool     string       `json:"pool"`
	State    string       `json:"state"`    // page, warning, stale, undecided, cold or calm
	Tick     *time.Time   `json:"tick"`     // of the decision
	Replicas replicasJSON `json:"replicas"` // as the decision counted them
	riskJSON
}

func head(p *PoolView) headJSON {
	s := &p.Forecast.Minute.State
	out := headJSON{p.Pool, stateOf(p), nil, replicasJSON{Observed: s.Observed}, riskOf(p)}
	if s.Observed {
		out.Replicas = replicasJSON{&s.Ready, &s.Pending, &s.Draining, true}
	}
	if d := p.Decision; d != nil {
		out.Tick, out.Replicas.Ready, out.Replicas.Pending, out.Replicas.Observed = value.Instant(d.Tick), &d.Ready, &d.Pending, !d.SupplyAssumed
	}
	return out
}

// briefJSON is a decision in one sentence.
type briefJSON struct {
	ID       string          `json:"id"`
	Mode     alerting.Mode   `json:"mode"`
	Action   alerting.Action `json:"action"`
	Withheld string          `json:"withheld,omitempty"`
	Reason   string          `json:"reason"`
}

// riskJSON is the resource of a pool that is most likely to saturate within the next hour.
type riskJSON struct {
	Binding       string     `json:"binding_resource,omitempty"` // that needs most replicas
	HeadroomNow   number     `json:"headroom_now"`               // free share of the capacity
	HeadroomWorst *worstJSON `json:"headroom_worst_60m"`         // of the single minute with the smallest free share in the next hour
	Probability   number     `json:"saturation_probability_60m"` // that a resource saturates in any minute of the next hour
	ETA           etaJSON    `json:"saturation_eta_seconds"`     // until a resource saturates; null is beyond the hour
}

// worstJSON is the headroom in the worst minute ahead: the median and the 10 % quantile of that minute alone. The
// probability of riskJSON is about all minutes together, so it can exceed 10 % while p10 is above 0.
type worstJSON struct {
	P10 number    `json:"p10"` // null without a ready replica
	P50 number    `json:"p50"` // likewise
	At  time.Time `json:"at"`
}

// riskOf is the risk of the resource that is most likely to saturate, the fullest of equals; unknown for a stale pool.
func riskOf(p *PoolView) (out riskJSON) {
	out = riskJSON{HeadroomNow: value.Unknown, Probability: value.Unknown, ETA: etaJSON{value.Unknown, value.Unknown, value.Unknown}}
	if p.Forecast.Stale {
		return out
	}
	for r, of := range resources(p.Projection) {
		x := riskJSON{
			Binding:     r.Dimension,
			HeadroomNow: number(1 - r.Utilisation),
			Probability: number(r.Probability[forecaster.Horizon-1]),
			ETA:         eta(r.ETA),
		}
		if f := p.Forecast.Of(r.Dimension); f != nil {
			x.HeadroomWorst = worst(r, of, f, p.Decision.Retried(r.Dimension).LoadFactor())
		}
		if out.Binding == "" || x.Probability > out.Probability || x.Probability == out.Probability && x.HeadroomNow < out.HeadroomNow {
			out = x
		}
	}
	return out
}

// worst is the minute with the least headroom, the first without a ready replica if there is one; nil if none is known.
// factor is of the load over the demand.
func worst(r *forecaster.ResourceProjection, of *forecaster.Projection, f *forecaster.Forecast, factor float64) (out *worstJSON) {
	lowest := math.Inf(1)
	for h, ready := range readyAhead(of, f.Origin) {
		headroom := func(level int) float64 { return 1 - factor*f.Minute[h][level]/(r.PerReplica*float64(ready)) }
		if p10 := headroom(forecaster.L90); p10 < lowest {
			lowest = p10
			out = &worstJSON{number(p10), number(headroom(forecaster.L50)), f.Origin.Add(time.Duration(h) * time.Minute).UTC()}
		}
	}
	return out
}

func summary(p *PoolView) summaryJSON {
	out := summaryJSON{headJSON: head(p), Alerts: len(p.Alerts)}
	if d := p.Decision; d != nil {
		out.Desired = &d.Desired
		out.Decision = &briefJSON{d.EventID(), d.Mode, d.PoolAction(), d.Withheld, d.Reason}
	}
	return out
}

func stateOf(p *PoolView) string {
	state := "calm"
	switch {
	case p.Decision == nil:
		state = "undecided"
	case p.Projection == nil || p.Projection.Confidence == forecaster.Cold:
		state = "cold"
	}
	for i := range p.Alerts {
		switch p.Alerts[i].Labels["severity"] {
		case "page":
			return "page"
		case "warning":
			state = "warning"
		}
	}
	if p.Forecast.Stale {
		return "stale"
	}
	return state
}

// getPools answers with all pools, the most urgent first.
func (s *Server) getPools(*http.Request) (any, error) {
	all := columnOf(s.reader.Pools(), summary)
	slices.SortStableFunc(all, func(a, b summaryJSON) int {
		return cmp.Or(cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State)),
			cmp.Compare(b.Probability, a.Probability), cmp.Compare(a.HeadroomNow, b.HeadroomNow))
	})
	return poolsJSON{all}, nil
}
