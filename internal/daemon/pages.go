package daemon

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/markdown"
	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/server/promapi"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// openPages gives the server the data of pages and API beyond the last tick.
func (d *Daemon) openPages() {
	d.server.History = stored{storage.History{Series: d.store.Queryable()}, d.reader}
	d.server.Explain = d.explanation
	d.server.Plan = d.plan
	promapi.Register(d.server.Handle, d.store.Queryable(), storage.SeriesHelp(), d.version, slogFrom(d.log))
	d.handleDocument("GET /api/v1/report", "md", d.getReport)
	d.handleDocument("GET /api/v1/plan", "html", d.getPlan)
}

// stored reads the history from the series and the log.
type stored struct {
	storage.History
	*stream.Reader
}

// handleDocument answers with a document in the format that the query asks for.
func (d *Daemon) handleDocument(pattern, usual string, render func(r *http.Request, format string) ([]byte, error)) {
	d.server.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format := cmp.Or(r.FormValue("format"), usual)
		if markdown.MediaTypes[format] == "" {
			server.WriteProblem(w, server.Problemf(http.StatusBadRequest, "format is %q: it must be md, json or html", format))
			return
		}
		document, err := render(r, format)
		if err != nil {
			server.WriteProblem(w, err)
			return
		}
		w.Header().Set("Content-Type", markdown.MediaTypes[format])
		w.Header().Set("Content-Security-Policy", server.DocumentPolicy)
		_, _ = w.Write(document) // the client may have disconnected
	}))
}

// explanation returns the server's explanation of a decision.
func (d *Daemon) explanation(ctx context.Context, ref string) (alerting.Explanation, error) {
	x, err := d.reader.Explain(ctx, ref)
	if errors.Is(err, stream.ErrNoDecision) {
		err = server.Problemf(http.StatusNotFound, "%v", err)
	}
	return x, err
}

const planDays = 7

// getPlan answers with the launch sheet of a pool, from its last week, replicas and rates:
// /api/v1/plan?pool=chat&launch=3&prompt=1.5&output=1&cache_hit=0.5&retry=0.1&replicas=4&ramp=20m. Others:
// prefill_replicas, format.
func (d *Daemon) getPlan(r *http.Request, format string) ([]byte, error) {
	sheet, err := d.plan(r.Context(), r.Form)
	if err != nil {
		return nil, err
	}
	return plan.Render(sheet, format)
}

// plan makes the launch sheet of a query. One runs at a time.
func (d *Daemon) plan(ctx context.Context, query url.Values) (*plan.Sheet, error) {
	if !d.planning.TryLock() {
		return nil, server.Problemf(http.StatusTooManyRequests, "another plan is being made: ask again in a moment")
	}
	defer d.planning.Unlock()
	in := plan.NewInput()
	for name, values := range query {
		if values[0] == "" {
			continue
		}
		if err := in.Set(name, values[0]); err != nil {
			return nil, server.Problemf(http.StatusBadRequest, "%s is %q: %v", name, values[0], err)
		}
	}
	view, err := d.planned(&in, query.Get("pool"))
	if err != nil {
		return nil, err
	}
	end := view.Forecast.Origin.Add(-d.cfg.Features.Revise) // unsettled minutes are not stored
	demand := map[string][]float64{}
	history, start := storage.History{Series: d.store}, end.AddDate(0, 0, -planDays).Truncate(features.Minute)
	err = history.Observed(ctx, start, end, func(key features.Key, dimension string, values []float64) error {
		if key.Pool == view.Pool && key.Class == features.TotalClass {
			demand[dimension] = slices.Clone(values)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = in.SetTraffic(demand, "the last week")
	if errors.Is(err, plan.ErrNoTraffic) {
		return nil, server.Problemf(http.StatusNotFound, "%v before %s; a later minute is used %s after it ends (features.revise), when late records no longer change it",
			err, end.UTC().Format("15:04 MST"), value.Minutes(value.Number(d.cfg.Features.Revise.Minutes())))
	}
	if err != nil {
		return nil, err
	}
	sheet, err := plan.New(in)
	if err != nil {
		return nil, server.Problemf(http.StatusNotFound, "%v", err)
	}
	return sheet, nil
}

// planned sets the pool of a plan to its configuration and current state.
func (d *Daemon) planned(in *plan.Input, name string) (view *server.PoolView, err error) {
	views := d.Pools()
	for i := range views {
		if views[i].Pool == name || name == "" && len(views) == 1 {
			view = &views[i]
		}
	}
	switch {
	case views == nil:
		return nil, server.Problemf(http.StatusServiceUnavailable, "no minute was evaluated since the start: ask again in a minute")
	case view == nil:
		return nil, server.Problemf(http.StatusNotFound, "pool is %q: it must be one that /api/v1/pools lists", name)
	}
	p, _ := d.pipelineConfig.Pool(view.Pool)
	if err := in.UsePool(&p, d.cfg.Decision.WaitingPerReplica, view.Decision); err != nil {
		return nil, server.Problemf(http.StatusBadRequest, "prefill_replicas: %v", err)
	}
	if view.Projection != nil {
		in.Pool.Rates = view.Trusted.Rates
	}
	return view, nil
}
