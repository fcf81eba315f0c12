package promapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"
)

var errTruncated = errors.New("results truncated due to limit")

// query evaluates an expression at one time.
func (a *API) query(ctx context.Context, r *http.Request) (answer, *failure) {
	limit, f := limitParam(r)
	if f != nil {
		return answer{}, f
	}
	at, f := timeParam(r, "time", a.now())
	if f != nil {
		return answer{}, f
	}
	return a.evaluate(ctx, r, limit, func(ctx context.Context, o promql.QueryOpts, q string) (promql.Query, error) {
		return a.engine.NewInstantQuery(ctx, a.data, o, q, at)
	})
}

// queryRange evaluates an expression at every step from start to end.
func (a *API) queryRange(ctx context.Context, r *http.Request) (answer, *failure) {
	limit, f := limitParam(r)
	if f != nil {
		return answer{}, f
	}
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
	return a.evaluate(ctx, r, limit, func(ctx context.Context, o promql.QueryOpts, q string) (promql.Query, error) {
		return a.engine.NewRangeQuery(ctx, a.data, o, q, start, end, step)
	})
}

// evaluate runs a query within the shorter of the requested and the configured timeout.
func (a *API) evaluate(ctx context.Context, r *http.Request, limit int,
	prepare func(context.Context, promql.QueryOpts, string) (promql.Query, error),
) (answer, *failure) {
	if s := r.Form.Get("timeout"); s != "" {
		timeout, err := parseDuration(s)
		if err != nil {
			return answer{}, invalid("timeout", err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var lookback time.Duration
	if s := r.Form.Get("lookback_delta"); s != "" {
		var err error
		if lookback, err = parseDuration(s); err != nil {
			return answer{}, refuse(fmt.Errorf("error parsing lookback delta duration: %w", err))
		}
	}
	q, err := prepare(ctx, promql.NewPrometheusQueryOpts(false, lookback), r.Form.Get("query"))
	if late := ctx.Err(); err != nil && late != nil {
		return answer{}, failed(fmt.Errorf("no turn for the query came in time: %w", late))
	}
	if err != nil {
		return answer{}, invalid("query", err)
	}
	x := answer{done: q.Close}
	res := q.Exec(ctx)
	if res.Err != nil {
		return x, failed(res.Err)
	}
	x.warnings = truncate(res, limit)
	x.data = res.Value
	return x, nil
}

// truncate cuts a result to a number of series (0 for all), and returns its warnings.
func truncate(res *promql.Result, limit int) annotations.Annotations {
	cut := false
	switch v := res.Value.(type) {
	case promql.Matrix:
		if cut = limit > 0 && len(v) > limit; cut {
			res.Value = v[:limit]
		}
	case promql.Vector:
		if cut = limit > 0 && len(v) > limit; cut {
			res.Value = v[:limit]
		}
	}
	if cut {
		return res.Warnings.Add(errTruncated)
	}
	return res.Warnings
}

// queryExemplars answers with no exemplars: stored series have none.
func (a *API) queryExemplars(context.Context, *http.Request) (answer, *failure) {
	return answer{data: []string{}}, nil
}

// formatQuery formats an expression over lines.
func (a *API) formatQuery(_ context.Context, r *http.Request) (answer, *failure) {
	expr, err := a.parser.ParseExpr(r.Form.Get("query"))
	if err != nil {
		return answer{}, invalid("query", err)
	}
	return answer{data: expr.Pretty(0)}, nil
}
