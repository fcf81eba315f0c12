package main

import (
	"context"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// openPages gives the server what pages and API need beside the last tick.
func (d *daemon) openPages() {
	d.server.History = stored{storage.History{Store: d.store, Log: d.reader}, d.reader}
	d.server.Explain = d.explanation
	d.server.Plan = d.plan
}

// stored is the past of one pool, from the series and the log.
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
