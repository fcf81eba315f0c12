package promapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// query evaluates an expression at one time.
func (a *API) query(ctx context.Context, r *http.Request) (answer, error) {
	at, err := timeParam(r, "time", time.Now())
	if err != nil {
		return answer{}, err
	}
	return a.evaluate(ctx, func(o promql.QueryOpts) (promql.Query, error) {
		return a.engine.NewInstantQuery(ctx, a.data, o, r.Form.Get("query"), at)
	})
}

// queryRange evaluates an expression at every step from start to end.
func (a *API) queryRange(ctx context.Context, r *http.Request) (answer, error) {
	start, err := parseTime(r.Form.Get("start"))
	if err != nil {
		return answer{}, invalid("start", err)
	}
	end, err := parseTime(r.Form.Get("end"))
	if err != nil {
		return answer{}, invalid("end", err)
	}
	if end.Before(start) {
		return answer{}, invalid("end", errors.New("end timestamp must not be before start time"))
	}
	step, err := parseDuration(r.Form.Get("step"))
	if err != nil {
		return answer{}, invalid("step", err)
	}
	if step <= 0 {
		return answer{}, invalid("step", errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
	}
	if end.Sub(start)/step > maxPoints {
		return answer{}, refuse(errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"))
	}
	return a.evaluate(ctx, func(o promql.QueryOpts) (promql.Query, error) {
		return a.engine.NewRangeQuery(ctx, a.data, o, r.Form.Get("query"), start, end, step)
	})
}

// evaluate runs a query. The wait for a turn counts toward the query's timeout.
func (a *API) evaluate(ctx context.Context, prepare func(promql.QueryOpts) (promql.Query, error)) (answer, error) {
	if err := a.turns.Acquire(ctx, 1); err != nil {
		return answer{}, fmt.Errorf("no turn for the query came in time: %w", err)
	}
	defer a.turns.Release(1)
	q, err := prepare(promql.NewPrometheusQueryOpts(false, 0))
	if err != nil {
		return answer{}, invalid("query", err)
	}
	x := answer{done: q.Close}
	res := q.Exec(ctx)
	if res.Err != nil {
		return x, res.Err
	}
	x.warnings = res.Warnings
	x.data = struct {
		Type   parser.ValueType `json:"resultType"`
		Result parser.Value     `json:"result"`
	}{res.Value.Type(), res.Value}
	return x, nil
}

// parseTime reads Unix seconds, with a fraction rounded to milliseconds, or RFC 3339.
func parseTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		whole, fraction := math.Modf(f)
		fraction = math.Round(fraction*1000) / 1000
		return time.Unix(int64(whole), int64(fraction*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseDuration reads seconds, with a fraction, or a Prometheus duration such as 5m.
func parseDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		ns := f * float64(time.Second)
		if math.IsNaN(ns) || ns > math.MaxInt64 || ns < math.MinInt64 {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}

// timeParam reads an optional time.
func timeParam(r *http.Request, name string, absent time.Time) (time.Time, error) {
	s := r.Form.Get(name)
	if s == "" {
		return absent, nil
	}
	t, err := parseTime(s)
	if err != nil {
		return t, invalid(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return t, nil
}
