package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
)

// planDays is how many days of history a plan uses.
const planDays = 7

// getPlan answers with the launch sheet of a pool, from its last week, replicas and rates:
// /api/v1/plan?pool=chat&launch=3&prompt=1.5&output=1&cache_hit=0.5&retry=0.1&replicas=4&ramp=20m. Others: prefill_replicas,
// format.
func (d *Daemon) getPlan(w http.ResponseWriter, r *http.Request) {
	write, kind := plan.WriteHTML, "text/html; charset=utf-8"
	switch f := r.FormValue("format"); f {
	case "", "html":
		w.Header().Set("Content-Security-Policy", server.DocumentPolicy)
	case "md":
		write, kind = plan.WriteMarkdown, "text/markdown; charset=utf-8"
	case "json":
		write, kind = plan.WriteJSON, codec.ContentTypeJSON
	default:
		server.WriteProblem(w, server.Problemf(http.StatusBadRequest, "format is %q: it must be html, md or json", f))
		return
	}
	sheet, err := d.plan(r.Context(), r.Form)
	if err != nil {
		server.WriteProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	if err := write(w, sheet); err != nil {
		d.log.Debug("the client of a plan disconnected", zap.Error(err))
	}
}

// plan makes the launch sheet of a query. One runs at a time.
func (d *Daemon) plan(ctx context.Context, query url.Values) (*plan.Sheet, error) {
	if !d.planning.TryLock() {
		return nil, server.Problemf(http.StatusTooManyRequests, "another plan is being made: ask again in a moment")
	}
	defer d.planning.Unlock()
	in := plan.Input{Launch: plan.Same, Ramp: 20 * time.Minute, Today: time.Now().UTC()}
	if err := readLaunch(&in, query); err != nil {
		return nil, server.Problemf(http.StatusBadRequest, "%v", err)
	}
	view, status, err := d.planned(&in, query.Get("pool"))
	if err != nil {
		return nil, server.Problemf(status, "%v", err)
	}
	end := view.State.At.Add(-d.cfg.Features.Revise) // unsettled minutes are not stored
	err = in.ReadHistory(ctx, storage.History{Store: d.store, Log: d.reader}, "the last week", end, planDays)
	if errors.Is(err, plan.ErrNoTraffic) {
		return nil, server.Problemf(http.StatusNotFound, "%v", err)
	}
	if err != nil {
		return nil, err
	}
	in.Fit = in.Pool.Fit
	sheet, err := plan.New(in)
	if err != nil {
		return nil, server.Problemf(http.StatusNotFound, "%v", err)
	}
	return sheet, nil
}

// planned fills in the configuration and current state of the pool.
func (d *Daemon) planned(in *plan.Input, name string) (view *server.PoolView, status int, err error) {
	views := d.Pools()
	for i := range views {
		if views[i].Pool == name || name == "" && len(views) == 1 {
			view = &views[i]
		}
	}
	if view == nil {
		return nil, http.StatusNotFound, fmt.Errorf("no pool %q at the last tick; /api/v1/pools lists them", name)
	}
	if p := d.served.Load().pool(view.Pool); p != nil {
		in.Pool.Pool = *p
	} else {
		return nil, http.StatusNotFound, fmt.Errorf("pool %q is served by default_pool: list it under pools to plan for it", view.Pool)
	}
	in.Pool.WaitingPerReplica = d.cfg.Decision.WaitingPerReplica
	replicas, prefill := in.Pool.Replicas, in.Pool.Prefill // from the query
	if replicas == 0 {
		in.Pool.Replicas = in.Pool.Pool.Replicas.Initial
	}
	switch {
	case prefill > 0 && !in.Pool.Disaggregated:
		return nil, http.StatusBadRequest, fmt.Errorf("prefill_replicas: pool %q has no replicas of that role: leave it out", view.Pool)
	case prefill == 0:
		in.Pool.Prefill = in.Pool.PrefillReplicas.Initial
	}
	if view.Decision != nil {
		in.Pool.ApplyDecision(view.Decision, replicas, prefill)
	}
	if view.Service != nil {
		in.Pool.Rates = view.Service.Rates
	}
	return view, 0, nil
}

func readLaunch(in *plan.Input, query url.Values) error {
	in.Launch.Rate = 3
	var replicas, prefill float64
	for _, x := range []struct {
		name     string
		into     *float64
		min, max float64
	}{
		{"launch", &in.Launch.Rate, 1e-3, 1000}, {"prompt", &in.Launch.Prompt, 1e-3, 1000}, {"output", &in.Launch.Output, 1e-3, 1000},
		{"cache_hit", &in.Launch.CacheHit, 0, 1000}, {"retry", &in.Launch.Retry, 0, 1000},
		{"replicas", &replicas, 0, 100_000}, {"prefill_replicas", &prefill, 0, 100_000},
	} {
		text := strings.TrimSpace(query.Get(x.name))
		if text == "" {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= x.min && v <= x.max) {
			return fmt.Errorf("%s is %q: it must be a number from %g to %g", x.name, text, x.min, x.max)
		}
		*x.into = v
	}
	in.Pool.Replicas, in.Pool.Prefill = int(replicas), int(prefill)
	if text := query.Get("ramp"); text != "" {
		ramp, err := time.ParseDuration(text)
		if err != nil || ramp < 0 || ramp > 30*24*time.Hour {
			return fmt.Errorf("ramp is %q: it must be a duration of 0s to 720h", text)
		}
		in.Ramp = ramp
	}
	return nil
}
