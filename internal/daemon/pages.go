package daemon

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/server/promapi"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// openPages gives the server the data of pages and API beyond the last tick.
func (d *Daemon) openPages() {
	d.server.History = stored{storage.History{Store: d.store, Log: d.reader, Unsettled: true}, d.reader}
	d.server.Explain = d.explanation
	d.server.Plan = d.plan
}

// stored reads the history of one pool from the series and the log.
type stored struct {
	history storage.History
	log     *stream.Reader
}

func (s stored) Values(ctx context.Context, series string, labels map[string]string, from, to time.Time) (out []float64, err error) {
	err = s.history.Values(ctx, series, labels, from, to, func(values []float64) error {
		out = append(out[:0], values...)
		return nil
	})
	return out, err
}

func (s stored) Forecast(ctx context.Context, key features.Key, dimension string, from, at time.Time) (newest *forecaster.Forecast, err error) {
	err = s.history.ForecastsOf(ctx, key, dimension, from, at.Add(time.Millisecond), func(f *forecaster.Forecast) error {
		newest = new(*f)
		return nil
	})
	return newest, err
}

func (s stored) Decisions(ctx context.Context, pool string, from, to time.Time) (all []alerting.Decision, err error) {
	err = s.log.ReadPool(ctx, pool, from, to, func(x *alerting.Decision) error {
		all = append(all, *x)
		return nil
	})
	return all, err
}

func (s stored) Alerts(ctx context.Context, pool string) ([]alerting.Alert, error) {
	return s.log.Alerts(ctx, pool)
}

// explanation returns the server's explanation of a decision.
func (d *Daemon) explanation(ctx context.Context, ref string) (alerting.Explanation, error) {
	x, err := d.reader.Explain(ctx, ref)
	if errors.Is(err, stream.ErrNoDecision) {
		err = server.Problemf(http.StatusNotFound, "%v", err)
	}
	return x, err
}

// openPromQL serves PromQL queries over the stored series.
func (d *Daemon) openPromQL() {
	metadata := map[string]promapi.Metadata{}
	for name, help := range storage.SeriesHelp() {
		metadata[name] = promapi.Metadata{Type: "gauge", Help: help}
	}
	promapi.New(d.store.Queryable(), metadata, d.version, slogFrom(d.log)).Register(d.server.Handle)
}
