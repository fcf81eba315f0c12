package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
)

// planDays is how many days of history a plan uses.
const planDays = 7

// getPlan answers with the launch sheet of a pool, from its last week, replicas and rates:
// /api/v1/plan?pool=chat&launch=3&prompt=1.5&output=1&cache_hit=0.5&retry=0.1&replicas=4&ramp=20m. Others:
// prefill_replicas, format.
func (d *Daemon) getPlan(w http.ResponseWriter, r *http.Request) error {
	format, err := documentFormat(r, "html")
	if err != nil {
		return err
	}
	sheet, err := d.plan(r.Context(), r.Form)
	if err != nil {
		return err
	}
	document, err := plan.Render(sheet, format)
	if err != nil {
		return err
	}
	writeDocument(w, format, document)
	return nil
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
	end := view.State.At.Add(-d.cfg.Features.Revise) // unsettled minutes are not stored
	err = in.ReadHistory(ctx, storage.History{Store: d.store, Log: d.reader}, "the last week", end, planDays)
	if errors.Is(err, plan.ErrNoTraffic) {
		return nil, server.Problemf(http.StatusNotFound, "%v", err)
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
	if view == nil {
		return nil, server.Problemf(http.StatusNotFound, "pool is %q: it must be one that /api/v1/pools lists", name)
	}
	p, _ := d.served.Load().pool(view.Pool)
	if err := in.UsePool(&p, d.cfg.Decision.WaitingPerReplica, view.Decision); err != nil {
		return nil, server.Problemf(http.StatusBadRequest, "prefill_replicas: %v", err)
	}
	if view.Service != nil {
		in.Pool.Rates = view.Service.Rates
	}
	return view, nil
}
