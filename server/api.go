package server

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// number may be unknown.
type number = value.Number

// columnOf returns one value of each element of a list.
func columnOf[T, V any](list []T, value func(*T) V) []V {
	out := make([]V, len(list))
	for i := range list {
		out[i] = value(&list[i])
	}
	return out
}

type statusJSON struct {
	Status
	Tick  *time.Time `json:"tick"`  // the newest
	Pools int        `json:"pools"` // number of pools
}

type etaJSON struct {
	P10 number `json:"p10"` // one case in ten is below
	P50 number `json:"p50"` // half of the cases are below
	P90 number `json:"p90"` // nine cases in ten are below
}

func eta(e forecaster.ETA) etaJSON {
	second := func(d time.Duration) number { return number(forecaster.Seconds(d)) }
	return etaJSON{second(e.P10), second(e.P50), second(e.P90)}
}

type poolJSON struct {
	headJSON
	LastEvent *time.Time         `json:"last_event"` // newest telemetry
	Stale     bool               `json:"stale"`      // telemetry is too old to forecast from
	Decision  *alerting.Prescale `json:"decision"`   // the newest, as its event has it
	Basis     *alerting.Basis    `json:"basis"`      // what it assumes of a replica
	Rates     []rateJSON         `json:"rates"`      // of one replica
	Resources []resourceJSON     `json:"resources"`
	Limits    []limitJSON        `json:"limits"` // of the whole pool; more replicas do not raise them
	Alerts    []alerting.Alert   `json:"alerts"`
}

// rateJSON is one rate of a replica within its objective, in tokens per second. What is unknown is missing: nothing is
// learned before an hour of traffic.
type rateJSON struct {
	Resource string          `json:"resource"`
	Used     number          `json:"used,omitempty"` // by decisions
	Source   capacity.Source `json:"source"`         // of what is used: given by a benchmark, learned from telemetry, or stated
	Learned  number          `json:"learned,omitempty"`
	Low      number          `json:"low,omitempty"` // the 90 % interval of what is learned
	High     number          `json:"high,omitempty"`
	Note     string          `json:"note,omitempty"` // why no rate was learned, or that it is extrapolated
}

func rateToJSON(resource string, used float64, b *capacity.Basis) rateJSON {
	e := &b.Learned
	return rateJSON{resource, number(used), b.Source, number(e.Value), number(e.Low), number(e.High), b.Note}
}

type limitJSON struct {
	Limit       string            `json:"limit"`                  // requests or tokens
	PerS        number            `json:"per_s"`                  // the limit
	Demand      number            `json:"demand"`                 // of the newest minute
	Utilisation number            `json:"utilisation"`            // demand over the limit
	ETA         etaJSON           `json:"saturation_eta_seconds"` // until it is reached; null is beyond the hour
	Probability map[string]number `json:"saturation_probability"` // that it is reached, by horizon in minutes
}

// replicasJSON is null where a number is unknown.
type replicasJSON struct {
	Ready    *int `json:"ready"`    // serving
	Pending  *int `json:"pending"`  // starting
	Draining *int `json:"draining"` // stopping; null if no replica reports
	Observed bool `json:"observed"` // false if no replica reports and the number is assumed
}

// String is such as "3 ready, 1 starting".
func (r replicasJSON) String() string {
	switch {
	case r.Ready == nil:
		return "unknown"
	case r.Pending == nil || *r.Pending == 0:
		return fmt.Sprintf("%d ready", *r.Ready)
	}
	return fmt.Sprintf("%d ready, %d starting", *r.Ready, *r.Pending)
}

type resourceJSON struct {
	Resource     string            `json:"resource"`                            // prefill, decode, kv or requests
	Unit         string            `json:"unit"`                                // of demand and replica_capacity
	PerReplica   number            `json:"replica_capacity"`                    // planned capacity of one replica
	Demand       number            `json:"demand"`                              // of the newest minute
	Utilisation  number            `json:"utilisation"`                         // demand over the capacity of ready replicas
	AfterFailure *number           `json:"utilisation_after_failure,omitempty"` // of the replicas that are not kept for failures; missing if none are kept
	ETA          etaJSON           `json:"saturation_eta_seconds"`              // until it saturates; null is beyond the hour
	Probability  map[string]number `json:"saturation_probability"`              // by horizon in minutes
}

func (s *Server) status() statusJSON {
	st := s.reader.Status()
	st.Producers, st.Alerts = append([]features.ProducerState{}, st.Producers...), append([]alerting.Alert{}, st.Alerts...)
	return statusJSON{st, value.Instant(st.Tick), len(s.reader.Pools())}
}

// ofPool answers for the pool that the path names.
func ofPool[T any](s *Server, get func(r *http.Request, p *PoolView) (T, error)) answer {
	return func(r *http.Request) (any, error) {
		p, err := find(s.reader, r.PathValue("pool"))
		if err != nil {
			return nil, err
		}
		return get(r, p)
	}
}

func poolToJSON(p *PoolView) poolJSON {
	out := poolJSON{
		headJSON:  head(p),
		LastEvent: value.Instant(p.Forecast.Minute.LastEvent),
		Stale:     p.Forecast.Stale,
		Rates:     []rateJSON{},
		Resources: []resourceJSON{},
		Limits:    []limitJSON{},
		Alerts:    append([]alerting.Alert{}, p.Alerts...),
	}
	slices.SortStableFunc(out.Alerts, func(a, b alerting.Alert) int { // pages first
		return strings.Compare(a.Labels["severity"], b.Labels["severity"])
	})
	if d := p.Decision; d != nil {
		out.Decision, out.Basis = new(alerting.NewPrescale(d)), d.Basis
	}
	if t := &p.Trusted; p.Projection != nil {
		out.Rates = []rateJSON{
			rateToJSON(features.DimPrefill, t.Rates.PrefillTokensPerS, &t.Prefill),
			rateToJSON(features.DimDecode, t.Rates.DecodeTokensPerS, &t.Decode),
		}
	}
	for i := range p.Limits {
		l := resourceToJSON(&p.Limits[i])
		out.Limits = append(out.Limits, limitJSON{l.Resource, l.PerReplica, l.Demand, l.Utilisation, l.ETA, l.Probability})
	}
	for r, of := range resources(p.Projection) {
		x := resourceToJSON(r)
		if r.AfterFailure != nil {
			left := max(of.Supply.Ready-of.Reserve, 0)
			x.AfterFailure = new(x.Demand / (x.PerReplica * number(left))) // not finite, and so null, without replicas
		}
		out.Resources = append(out.Resources, x)
	}
	return out
}

func resourceToJSON(r *forecaster.ResourceProjection) resourceJSON {
	out := resourceJSON{
		Resource: r.Dimension, Unit: unit(r.Dimension), PerReplica: number(r.PerReplica), Demand: number(r.Demand),
		Utilisation: number(r.Utilisation), ETA: eta(r.ETA), Probability: map[string]number{},
	}
	for _, h := range probabilityHorizons {
		out.Probability[strconv.Itoa(h)] = number(r.Probability[h-1])
	}
	return out
}

// unit is the unit of a dimension; "" if it is not one of features.Dimensions.
func unit(dimension string) string {
	d, _ := features.DimensionByName(dimension)
	return d.Unit
}
