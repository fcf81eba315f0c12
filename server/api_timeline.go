package server

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// History reads the stored data of one pool. Missing data is no error.
type History interface {
	// Values are the values of a stored series per minute, starting at from; NaN if unknown, nil without a series.
	Values(ctx context.Context, series string, labels map[string]string, from, to time.Time) ([]float64, error)
	// Forecast is the newest forecast made from from to at; nil without one. Minutes that are not stored are NaN.
	Forecast(ctx context.Context, key features.Key, dimension string, from, at time.Time) (*forecaster.Forecast, error)
	PoolDecisions(ctx context.Context, pool string, from, to time.Time) ([]alerting.Decision, error)
	Alerts(ctx context.Context, pool string) ([]alerting.Alert, error)
}

const (
	timelinePast  = 3 * time.Hour
	timelineReach = 24 * time.Hour   // how far back the slider of the page goes
	timelineOld   = 10 * time.Minute // how much older than requested a stored forecast may be
)

// timelineJSON is a resource of a pool over time: load and capacity, the forecast made at one time, and the actual
// load. Loads include retries.
type timelineJSON struct {
	Pool     string    `json:"pool"`
	Resource string    `json:"resource"`
	Unit     string    `json:"unit"`
	From     time.Time `json:"from"`
	At       time.Time `json:"at"` // when the forecast was made
	To       time.Time `json:"to"`
	Newest   time.Time `json:"newest"` // up to which loads are known
	Past     bool      `json:"past"`   // a stored forecast: only some of its minutes are kept

	Actual   []pointJSON        `json:"actual"`
	Forecast []bandJSON         `json:"forecast"`
	Steps    []stepJSON         `json:"steps"`
	Marks    []markJSON         `json:"marks"`
	Decision *alerting.Prescale `json:"decision"` // of that time, as its event has it
}

// bandJSON is the forecast of the minute that starts at a time.
type bandJSON struct {
	At  time.Time `json:"at"`
	P10 number    `json:"p10"`
	P50 number    `json:"p50"`
	P90 number    `json:"p90"`
	P95 number    `json:"p95"`
}

// stepJSON is the replicas from a time on.
type stepJSON struct {
	At       time.Time `json:"at"`
	Ready    int       `json:"ready"`
	Pending  int       `json:"pending"`
	Desired  number    `json:"desired_replicas"` // null ahead
	Capacity number    `json:"capacity"`
	Ahead    bool      `json:"ahead"` // expected, when starting replicas become ready
}

// markJSON is an event on the timeline.
type markJSON struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // scale_out, scale_in, warning or page
	ID   string    `json:"id"`   // of the decision, or the alert's name
	Text string    `json:"text"`
}

// timeline answers /api/v1/pools/{pool}/timeline, by default of the binding resource:
// /api/v1/pools/{pool}/timeline?resource=kv&at=2026-11-16T09:00:00Z.
func (s *Server) timeline(r *http.Request, p *PoolView) (*timelineJSON, error) {
	resource := cmp.Or(r.FormValue("resource"), riskOf(p).Binding, features.DimRequests)
	if features.ForecastIndex(resource) < 0 {
		return nil, Problemf(http.StatusBadRequest, "resource is %q: it must be one of %s", resource, strings.Join(resourceNames(), ", "))
	}
	at, err := moment(r.FormValue("at"))
	if err != nil {
		return nil, err
	}
	newest, live := p.Forecast.Origin.UTC(), p.Forecast.Of(resource)
	out := &timelineJSON{Pool: p.Pool, Resource: resource, Unit: unit(resource), At: newest, Newest: newest, Forecast: []bandJSON{}}
	if !at.IsZero() && at.Before(newest) {
		out.At, out.Past = at.UTC().Truncate(time.Minute), true
	}
	out.From, out.To = out.At.Add(-timelinePast), out.At.Add(forecaster.Horizon*time.Minute)
	known := newest // the end of what is known of the shown time
	if out.To.Before(newest) {
		known = out.To
	}
	decisions, err := s.History.PoolDecisions(r.Context(), p.Pool, out.From, known.Add(time.Minute))
	if err != nil {
		return nil, err
	}
	then, f := p.Decision, live
	if out.Past {
		then = nil
		for i := range decisions {
			if !decisions[i].Tick.After(out.At) {
				then = &decisions[i]
			}
		}
		key := features.Key{Pool: p.Pool, Class: features.TotalClass}
		if f, err = s.History.Forecast(r.Context(), key, resource, out.At.Add(-timelineOld), out.At); err != nil {
			return nil, err
		}
	}
	if f != nil {
		out.Forecast = bands(f, then.Retried(resource).LoadFactor())
	}
	if out.Actual, err = s.loads(r.Context(), p, resource, out.From, known, decisions); err != nil {
		return nil, err
	}
	out.Steps = steps(decisions, resource, out.From)
	if !out.Past && live != nil {
		out.Steps = append(out.Steps, stepsAhead(p, live)...)
	}
	if then != nil {
		out.Decision = new(alerting.NewPrescale(then))
	}
	out.Marks, err = s.marks(r.Context(), p, decisions, out.From, known)
	return out, err
}

// moment parses a time in RFC 3339 or Unix seconds; zero for none.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < 1<<40 {
		return time.Unix(n, 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, Problemf(http.StatusBadRequest, "at is %q: write a time such as 2026-11-16T09:00:00Z, or Unix seconds", text)
	}
	return t, nil
}

func resourceNames() []string {
	return columnOf(features.Forecast, func(d *features.Dimension) string { return d.Name })
}

// loads are the loads of the minutes of [from, to), with retries; expected ones for minutes that have not settled.
func (s *Server) loads(ctx context.Context, p *PoolView, resource string, from, to time.Time, decisions []alerting.Decision) ([]pointJSON, error) {
	from = from.Truncate(time.Minute)
	values := slices.Repeat([]float64{math.NaN()}, max(int(to.Sub(from)/time.Minute), 0))
	d, _ := features.DimensionByName(resource)
	stored, err := s.History.Values(ctx, d.Series, map[string]string{"pool": p.Pool, "class": features.TotalClass}, from, to)
	if err != nil {
		return nil, err
	}
	copy(values, stored)
	out := make([]pointJSON, len(values))
	for i, v := range values {
		start := from.Add(time.Duration(i) * time.Minute)
		for len(decisions) > 1 && !decisions[1].Tick.After(start.Add(time.Minute)) {
			decisions = decisions[1:]
		}
		if len(decisions) > 0 {
			v *= decisions[0].Retried(resource).LoadFactor()
		}
		out[i] = pointJSON{start.UTC(), number(v)}
	}
	return out, nil
}

func bands(f *forecaster.Forecast, factor float64) []bandJSON {
	out := []bandJSON{}
	for h := range f.Minute {
		load := func(level int) number { return number(factor * f.Minute[h][level]) }
		if load(forecaster.L50).Known() {
			at := f.Origin.Add(time.Duration(h) * time.Minute).UTC()
			out = append(out, bandJSON{at, load(forecaster.L10), load(forecaster.L50), load(forecaster.L90), load(forecaster.L95)})
		}
	}
	return out
}

// steps are the replicas at each decision that changed them, and their capacity.
func steps(decisions []alerting.Decision, resource string, from time.Time) []stepJSON {
	out := []stepJSON{}
	for i := range decisions {
		d := &decisions[i]
		x := stepJSON{At: d.Tick.UTC(), Ready: d.Ready, Pending: d.Pending, Desired: number(d.Desired), Capacity: value.Unknown}
		for _, of := range []*alerting.Decision{d, d.Prefilling()} {
			if of == nil {
				continue
			}
			for _, r := range of.Resources {
				if r.Dimension == resource && r.PerReplica > 0 {
					x.Ready, x.Pending, x.Desired, x.Capacity = of.Ready, of.Pending, number(of.Desired), number(r.PerReplica*float64(of.Ready))
				}
			}
		}
		if len(out) == 0 || !x.same(&out[len(out)-1]) {
			out = append(out, x)
		}
	}
	if len(out) > 0 && out[0].At.Sub(from) <= time.Minute {
		out[0].At = from
	}
	return out
}

// same reports whether two steps have the same replicas and capacity, which may be unknown.
func (x *stepJSON) same(y *stepJSON) bool {
	capacity := x.Capacity == y.Capacity || !x.Capacity.Known() && !y.Capacity.Known()
	return x.Ready == y.Ready && x.Pending == y.Pending && x.Desired == y.Desired && capacity
}

// stepsAhead are the replicas at each future minute in which some become ready.
func stepsAhead(p *PoolView, f *forecaster.Forecast) (out []stepJSON) {
	for r, of := range resources(p.Projection) {
		if r.Dimension != f.Dimension {
			continue
		}
		for h, ready := range readyAhead(of, f.Origin) {
			if len(out) > 0 && ready == out[len(out)-1].Ready {
				continue
			}
			out = append(out, stepJSON{
				At:       f.Origin.Add(time.Duration(h) * time.Minute).UTC(),
				Ready:    ready,
				Pending:  of.Supply.Ready + len(of.Supply.Pending) - ready,
				Desired:  value.Unknown,
				Capacity: number(float64(ready) * r.PerReplica),
				Ahead:    true,
			})
		}
		return out
	}
	return nil
}

// marks are the changes of the requested replicas, and the starts of alerts.
func (s *Server) marks(ctx context.Context, p *PoolView, decisions []alerting.Decision, from, to time.Time) ([]markJSON, error) {
	out := []markJSON{}
	var before *alerting.Decision
	for i := range decisions {
		d := &decisions[i]
		other := before == nil || before.Desired != d.Desired || before.PrefillReplicas() != d.PrefillReplicas()
		if action := d.PoolAction(); d.Publish && other && action != alerting.Hold {
			out = append(out, markJSON{d.Tick.UTC(), string(action), d.EventID(), d.Reason})
		}
		before = d
	}
	alerts, err := s.History.Alerts(ctx, p.Pool)
	if err != nil {
		return nil, err
	}
	for i := range alerts {
		if a := &alerts[i]; !a.StartsAt.Before(from) && !a.StartsAt.After(to) {
			out = append(out, markJSON{a.StartsAt.UTC(), a.Labels["severity"], string(a.Name), a.Annotations["summary"]})
		}
	}
	slices.SortStableFunc(out, func(a, b markJSON) int { return a.At.Compare(b.At) })
	return out, nil
}

// readyAhead is the replicas that serve in each minute from origin on: ready ones, and pending ones after their lead time.
func readyAhead(of *forecaster.Projection, origin time.Time) []int {
	out := make([]int, forecaster.Horizon)
	for h := range out {
		out[h] = of.Supply.Ready
		for _, asked := range of.Supply.Pending {
			if !asked.Add(of.Lead).After(origin.Add(time.Duration(h) * time.Minute)) {
				out[h]++
			}
		}
	}
	return out
}
