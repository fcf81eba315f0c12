package server

import (
	"fmt"
	"math"
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

type statusJSON struct {
	Version  string        `json:"version"`             // of the program
	Mode     alerting.Mode `json:"mode"`                // advisory or active
	Clock    string        `json:"clock"`               // wall or event
	Tick     *time.Time    `json:"tick"`                // the newest
	Sequence uint64        `json:"stream_sequence"`     // newest message read from the telemetry stream
	Lag      *uint64       `json:"stream_lag_messages"` // messages that are not read yet
	Pools    int           `json:"pools"`               // number of pools

	Producers []features.ProducerState `json:"producers"` // of telemetry
	Alerts    []alerting.Alert         `json:"alerts"`    // about the daemon itself
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
	LastEvent *time.Time         `json:"last_event"`        // newest telemetry
	Stale     bool               `json:"stale"`             // telemetry is too old to forecast from
	Decision  *alerting.Prescale `json:"decision"`          // the newest, as its event has it
	Lead      number             `json:"lead_time_seconds"` // warm-up lag used by decisions
	Resources []resourceJSON     `json:"resources"`
	Service   *serviceJSON       `json:"service"` // rates of a replica, and their source
	Limits    []limitJSON        `json:"limits"`  // of the whole pool; more replicas do not raise them
	Alerts    []alerting.Alert   `json:"alerts"`
}

// serviceJSON is the assumed rates of one replica within its objective, and their source.
type serviceJSON struct {
	Prefill     basisJSON                `json:"prefill"`
	Decode      basisJSON                `json:"decode"`
	Contradicts []capacity.Contradiction `json:"contradicts,omitempty"` // of observed and stated rates
	Curve       *curveJSON               `json:"curve"`
}

// curveJSON is how the time per output token of a replica grows with its load; null if unknown.
type curveJSON struct {
	Source    capacity.Source `json:"source"`
	Knee      number          `json:"knee_tokens_per_s"`
	Objective number          `json:"objective_seconds"`
	Now       number          `json:"now_tokens_per_s"` // demand over the ready replicas
	Points    [][2]number     `json:"points"`           // output tokens a second, and seconds a token
}

func curveToJSON(s *capacity.ServiceCurve, now float64) *curveJSON {
	if s == nil {
		return nil
	}
	out := &curveJSON{Source: s.Source, Knee: positive(s.Knee), Objective: positive(s.Objective), Now: number(now), Points: [][2]number{}}
	for _, x := range s.Points {
		out.Points = append(out.Points, [2]number{number(x.TokensPerS), positive(x.ITL)})
	}
	return out
}

// positive is v, or null if it is 0 (unknown).
func positive(v float64) number {
	if v > 0 {
		return number(v)
	}
	return value.Unknown
}

// limitJSON is a limit of the whole pool; more replicas do not raise it.
type limitJSON struct {
	Limit       string            `json:"limit"`                  // requests or tokens
	PerS        number            `json:"per_s"`                  // the limit
	Demand      number            `json:"demand"`                 // of the newest minute
	Utilisation number            `json:"utilisation"`            // demand over the limit
	ETA         etaJSON           `json:"saturation_eta_seconds"` // until it is reached; null is beyond the hour
	Probability map[string]number `json:"saturation_probability"` // that it is reached, by horizon in minutes
}

// basisJSON is one rate: given by a benchmark, learned from telemetry, or stated in the configuration. Learned is null
// before an hour of traffic.
type basisJSON struct {
	TokensPerS   number          `json:"tokens_per_s"`
	Source       capacity.Source `json:"source"`
	Extrapolated bool            `json:"extrapolated"`
	Note         string          `json:"note,omitempty"` // why no rate was learned, or that it is extrapolated
	Learned      *boundsJSON     `json:"learned"`
}

type boundsJSON struct {
	Value number `json:"value"`
	Low   number `json:"low"`
	High  number `json:"high"`

	Extrapolated bool `json:"extrapolated,omitempty"` // no similar load was observed
}

func basisToJSON(rate float64, b *capacity.Basis) basisJSON {
	out := basisJSON{TokensPerS: positive(rate), Source: b.Source, Extrapolated: b.Extrapolated, Note: b.Note}
	if e := b.Learned; e.Value > 0 {
		out.Learned = &boundsJSON{number(e.Value), number(e.Low), number(e.High), e.Extrapolated}
	}
	return out
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
	Resource    string            `json:"resource"`               // prefill, decode, kv or requests
	Unit        string            `json:"unit"`                   // of demand and replica_capacity
	PerReplica  number            `json:"replica_capacity"`       // planned capacity of one replica
	Demand      number            `json:"demand"`                 // of the newest minute
	Utilisation number            `json:"utilisation"`            // demand over the capacity of ready replicas
	Headroom    *etaJSON          `json:"headroom"`               // null without a replica
	ETA         etaJSON           `json:"saturation_eta_seconds"` // until it saturates; null is beyond the hour
	Probability map[string]number `json:"saturation_probability"` // by horizon in minutes

	AfterFailure *afterFailureJSON `json:"after_failure,omitempty"` // if replicas are reserved for failures
	Retries      *alerting.Retried `json:"retries,omitempty"`       // that they add to the demand
}

// afterFailureJSON is the state of a resource without the replicas reserved for failures.
type afterFailureJSON struct {
	Replicas    int      `json:"replicas"`    // ready
	Utilisation number   `json:"utilisation"` // null, like headroom, if no replica is left
	Headroom    *etaJSON `json:"headroom"`
	ETA         etaJSON  `json:"saturation_eta_seconds"`
	Probability number   `json:"saturation_probability"` // within the lead window
}

func (s *Server) getStatus(*http.Request) (any, error) {
	st, pools := s.reader.Status(), s.reader.Pools()
	out := statusJSON{Version: st.Version, Mode: st.Mode, Clock: st.Clock, Tick: value.Instant(st.Tick), Sequence: st.Sequence,
		Pools: len(pools), Producers: append([]features.ProducerState{}, st.Producers...), Alerts: append([]alerting.Alert{}, st.Alerts...)}
	if st.LagKnown {
		out.Lag = &st.Lag
	}
	return out, nil
}

func getPool(_ *http.Request, p *PoolView) (any, error) { return poolToJSON(p), nil }

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
		headJSON: head(p), LastEvent: value.Instant(p.LastEvent), Stale: p.Forecast.Stale, Lead: value.Unknown,
		Resources: []resourceJSON{}, Limits: []limitJSON{}, Alerts: append([]alerting.Alert{}, p.Alerts...),
	}
	slices.SortStableFunc(out.Alerts, func(a, b alerting.Alert) int { return strings.Compare(a.Labels["severity"], b.Labels["severity"]) }) // pages first
	if d := p.Decision; d != nil {
		out.Decision = new(alerting.NewPrescale(d))
	}
	if s := p.Service; s != nil {
		out.Service = &serviceJSON{basisToJSON(s.Rates.PrefillTokensPerS, &s.Prefill), basisToJSON(s.Rates.DecodeTokensPerS, &s.Decode), s.Contradictions, curveToJSON(s.Curve, p.decodePerReplica())}
		for i := range s.Limits {
			l := resourceToJSON(&s.Limits[i])
			out.Limits = append(out.Limits, limitJSON{l.Resource, l.PerReplica, l.Demand, l.Utilisation, l.ETA, l.Probability})
		}
	}
	if p.Projection != nil {
		out.Lead = number(p.Projection.Lead.Seconds())
	}
	for _, of := range p.roles() {
		for i := range of.Resources {
			r := resourceToJSON(&of.Resources[i])
			r.AfterFailure = afterFailureToJSON(of, &of.Resources[i])
			r.Retries = p.Decision.Retried(r.Resource)
			out.Resources = append(out.Resources, r)
		}
	}
	return out
}

func resourceToJSON(r *forecaster.ResourceProjection) resourceJSON {
	out := resourceJSON{
		Resource: r.Dimension, Unit: unit(r.Dimension), PerReplica: number(r.PerReplica), Demand: number(r.Demand),
		Utilisation: number(r.Utilisation), ETA: eta(r.ETA), Probability: map[string]number{},
		Headroom: headroom(r.Headroom),
	}
	for _, h := range probabilityHorizons {
		out.Probability[strconv.Itoa(h)] = number(r.Probability[h-1])
	}
	return out
}

func headroom(s forecaster.Span) *etaJSON {
	if math.IsNaN(s.P90) { // the others are NaN, too
		return nil
	}
	return &etaJSON{number(s.P10), number(s.P50), number(s.P90)}
}

func afterFailureToJSON(of *forecaster.Projection, r *forecaster.ResourceProjection) *afterFailureJSON {
	left := r.AfterFailure
	if left == nil {
		return nil
	}
	replicas := max(of.Supply.Ready-of.Reserve, 0)
	utilisation := r.Demand / (r.PerReplica * float64(replicas)) // not finite, and so null, without replicas
	return &afterFailureJSON{replicas, number(utilisation), headroom(left.Headroom), eta(left.ETA), number(left.Probability)}
}

// unit is the unit of a dimension; "" if it is not one of features.Dimensions.
func unit(dimension string) string {
	d, _ := features.DimensionByName(dimension)
	return d.Unit
}
