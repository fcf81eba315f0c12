package server

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
)

// The states of a pool, the most urgent first.
const (
	statePage      = "page"
	stateWarning   = "warning"
	stateStale     = "stale"
	stateUndecided = "undecided"
	stateCold      = "cold"
	stateCalm      = "calm"
)

var urgency = []string{statePage, stateWarning, stateStale, stateUndecided, stateCold, stateCalm}

type poolsJSON struct {
	Pools []summaryJSON `json:"pools"`
}

// summaryJSON is a pool in one line.
type summaryJSON struct {
	headJSON
	Decision *briefJSON `json:"decision"`
}

// briefJSON is a decision in one sentence.
type briefJSON struct {
	ID       string          `json:"id"`
	Mode     alerting.Mode   `json:"mode"`
	Action   alerting.Action `json:"action"`
	Desired  int             `json:"desired_replicas"`
	Withheld string          `json:"withheld,omitempty"`
	Reason   string          `json:"reason"`
}

// outlookJSON is the resource of a pool that is most likely to saturate within the next hour.
type outlookJSON struct {
	Binding       string     `json:"binding_resource,omitempty"` // that needs most replicas
	HeadroomNow   number     `json:"headroom_now"`               // free share of the capacity
	HeadroomWorst *worstJSON `json:"headroom_worst_60m"`         // smallest free share in the next hour
	Probability   number     `json:"saturation_probability_60m"` // that a resource saturates within the hour
	ETA           etaJSON    `json:"saturation_eta_seconds"`     // until a resource saturates; null is beyond the hour
}

// worstJSON is the smallest headroom of the minutes ahead: the median and the 10 % quantile.
type worstJSON struct {
	P10 number    `json:"p10"`
	P50 number    `json:"p50"`
	At  time.Time `json:"at"`
}

// outlook is the outlook of the resource that is most likely to saturate; of equals, the fullest one. It is unknown for
// a stale pool.
func outlook(p *PoolView) (out outlookJSON) {
	unknown := number(math.NaN())
	out = outlookJSON{HeadroomNow: unknown, Probability: unknown, ETA: etaJSON{unknown, unknown, unknown}}
	if p.Stale {
		return out
	}
	for _, of := range p.roles() {
		for i := range of.Resources {
			r := &of.Resources[i]
			x := outlookJSON{Binding: r.Dimension, HeadroomNow: number(1 - r.Utilisation), Probability: number(r.Probability[forecaster.Horizon-1]), ETA: eta(r.ETA)}
			if f := p.total(r.Dimension); f != nil {
				x.HeadroomWorst = worst(p, f)
			}
			if out.Binding == "" || x.Probability > out.Probability || x.Probability == out.Probability && x.HeadroomNow < out.HeadroomNow {
				out = x
			}
		}
	}
	return out
}

// worst is nil if no capacity is known.
func worst(p *PoolView, f *forecaster.Forecast) (out *worstJSON) {
	factor := loadFactor(p.Decision, f.Dimension)
	for h, capacity := range capacityAhead(p, f) {
		likely, bad := 1-factor*f.Minute[h][forecaster.L50]/capacity, 1-factor*f.Minute[h][forecaster.L90]/capacity
		if !math.IsNaN(bad) && !math.IsInf(bad, 0) && (out == nil || number(bad) < out.P10) {
			out = &worstJSON{number(bad), number(likely), f.Origin.Add(time.Duration(h) * time.Minute).UTC()}
		}
	}
	return out
}

// loadFactor is the factor of demand through retries.
func loadFactor(d *alerting.Decision, dimension string) float64 {
	if x := d.Retried(dimension); x != nil {
		return x.Factor
	}
	return 1
}

// head has the replicas as the decision counted them.
func head(p *PoolView) headJSON {
	out := headJSON{Pool: p.Pool, State: stateOf(p), Replicas: replicasJSON{p.State.Ready, p.State.Pending, p.State.Draining, p.State.Observed}, outlookJSON: outlook(p)}
	if d := p.Decision; d != nil {
		out.Tick, out.Replicas.Ready, out.Replicas.Pending = instant(d.Tick), d.Ready, d.Pending
	}
	return out
}

func stateOf(p *PoolView) string {
	state := stateCalm
	switch {
	case p.Decision == nil:
		state = stateUndecided
	case p.Projection == nil || p.Projection.Confidence == forecaster.Cold:
		state = stateCold
	}
	for i := range p.Alerts {
		switch p.Alerts[i].Labels["severity"] {
		case "page":
			return statePage
		case "warning":
			state = stateWarning
		}
	}
	if p.Stale {
		return stateStale
	}
	return state
}

// summaries are all pools, the most urgent first.
func (s *Server) summaries() []summaryJSON {
	pools := s.reader.Pools()
	all := make([]summaryJSON, len(pools))
	for i := range pools {
		all[i].headJSON = head(&pools[i])
		if d := pools[i].Decision; d != nil {
			all[i].Decision = &briefJSON{d.EventID(), d.Mode, d.Action, d.Desired, d.Withheld, d.Reason}
		}
	}
	slices.SortStableFunc(all, func(a, b summaryJSON) int {
		return cmp.Or(cmp.Compare(slices.Index(urgency, a.State), slices.Index(urgency, b.State)),
			cmp.Compare(b.Probability, a.Probability), cmp.Compare(a.HeadroomNow, b.HeadroomNow))
	})
	return all
}

func (s *Server) getPools(*http.Request) (any, error) { return poolsJSON{s.summaries()}, nil }
