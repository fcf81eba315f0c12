package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/server/promapi"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// openPages gives the server the data of pages and API beyond the last tick.
func (d *Daemon) openPages() {
	d.server.History = stored{d.reader, storage.History{Store: d.store, Log: d.reader, Unsettled: true}}
	d.server.Explain = d.explanation
	d.server.Plan = d.plan
	d.server.Quality = d.quality
	d.server.Reports = d.reportFiles
	d.handlePage("GET /reports/{name}", d.getReportFile)
	d.handlePage("GET /api/v1/report", d.getReport)
	d.handlePage("GET /api/v1/plan", d.getPlan)
}

// stored reads the history of one pool from the series and the log.
type stored struct {
	*stream.Reader // has Alerts
	history        storage.History
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
	err = s.ReadPool(ctx, pool, from, to, func(x *alerting.Decision) error {
		all = append(all, *x)
		return nil
	})
	return all, err
}

const (
	// qualityWeeks is the period, in weeks.
	qualityWeeks = 4
	// qualityEvery is how long a result is cached, in the time of ticks.
	qualityEvery = time.Hour
)

// quality caches the quality of forecasts and alarms, because it reads weeks of forecasts.
type quality struct {
	mu   sync.Mutex
	last *server.Quality
}

// quality returns the accuracy of the last week, and the alarms of the last four.
func (d *Daemon) quality(ctx context.Context) (*server.Quality, error) {
	if !d.qualityCache.mu.TryLock() {
		return nil, server.Problemf(http.StatusServiceUnavailable, "the last weeks are being read: ask again in a moment")
	}
	defer d.qualityCache.mu.Unlock()
	end := d.Status().Tick.Add(-d.cfg.Features.Revise) // unsettled minutes would count as missing
	if last := d.qualityCache.last; last != nil && end.Sub(last.To) < qualityEvery {
		return last, nil
	}
	q := &server.Quality{From: end.AddDate(0, 0, -7*qualityWeeks), To: end, Pools: []server.PoolQuality{}}
	if d.Status().Tick.IsZero() {
		return q, nil
	}
	byPool := map[string]*server.PoolQuality{}
	for week := range qualityWeeks {
		to := end.AddDate(0, 0, -7*week)
		r, err := report.Reconcile(ctx, storage.History{Store: d.store, Log: d.reader}, to.AddDate(0, 0, -7), to, nil)
		if err != nil {
			return nil, err
		}
		for i := range r.Pools {
			p := &r.Pools[i]
			of := byPool[p.Pool]
			if of == nil {
				of = &server.PoolQuality{Pool: p.Pool, Accuracy: []server.AccuracyRow{}}
				byPool[p.Pool] = of
			}
			for j := range p.Accuracy {
				if a := &p.Accuracy[j]; week == 0 && a.Class == features.TotalClass && a.Outcomes > 0 {
					of.Accuracy = append(of.Accuracy, server.AccuracyRow{Resource: a.Dimension, Horizon: a.Horizon, Outcomes: a.Outcomes, Skill: a.Skill, Covered: a.Q90.Share})
				}
			}
			s := &p.Saturation
			of.Weeks = append(of.Weeks, server.AlarmWeek{From: to.AddDate(0, 0, -7), True: s.InTime + s.Late, Averted: s.Averted, False: s.False, Missed: s.Missed})
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		q.Pools = append(q.Pools, *byPool[pool])
	}
	d.qualityCache.last = q
	return q, nil
}

// reportFiles lists the report pages in the folder, the newest first.
func (d *Daemon) reportFiles() (files []server.ReportFile, err error) {
	entries, err := os.ReadDir(d.cfg.Reports().Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == ".html" && info.Mode().IsRegular() {
			files = append(files, server.ReportFile{Name: e.Name(), Made: info.ModTime().UTC(), Bytes: info.Size()})
		}
	}
	slices.Reverse(files) // names begin with the time
	return files, err
}

// getReportFile answers with a report from the folder.
func (d *Daemon) getReportFile(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if filepath.Ext(name) != ".html" {
		return server.Problemf(http.StatusNotFound, "no report %q; /reports lists them", name)
	}
	root, err := os.OpenRoot(d.cfg.Reports().Dir) // it opens nothing outside the folder
	if err != nil {
		return server.Problemf(http.StatusNotFound, "there is no folder of reports: %v", err)
	}
	defer root.Close()
	w.Header().Set("Content-Security-Policy", server.DocumentPolicy)
	http.ServeFileFS(w, r, root.FS(), name)
	return nil
}

// handlePage serves requests, and answers with the error of f.
func (d *Daemon) handlePage(pattern string, f func(http.ResponseWriter, *http.Request) error) {
	d.server.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r); err != nil {
			server.WriteProblem(w, err)
		}
	}))
}

// writeDocument answers with what write writes.
func (d *Daemon) writeDocument(w http.ResponseWriter, contentType string, write func() error) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Security-Policy", server.DocumentPolicy)
	if err := write(); err != nil {
		d.log.Debug("the client of a document disconnected", zap.Error(err))
	}
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
	promapi.New(d.store.Queryable(), storage.SeriesHelp(), d.version, slogFrom(d.log)).Register(d.server.Handle)
}

const (
	// trafficSpan is how much history the shape covers.
	trafficSpan = 24 * time.Hour
	// trafficEvery is the least time between two reads of the history, on the wall clock.
	trafficEvery = time.Minute
)

// traffic caches the shape of the last day's demand, per stored class and dimension.
type traffic struct {
	mu   sync.Mutex
	read time.Time // on the wall clock
	tick time.Time // of the pipeline
	last server.Traffic
}

// openTraffic shows the shape of demand in metrics, API and page.
func (d *Daemon) openTraffic() {
	d.server.Traffic = d.shapeOfTraffic
	d.exporter.Write(func(w io.Writer) { _, _ = w.Write(server.RenderTraffic(d.shapeOfTraffic())) })
}

// shapeOfTraffic reads the series of the day before the last tick, at most once per [trafficEvery] and tick. Cost: the
// samples of a day of each stored class and dimension.
func (d *Daemon) shapeOfTraffic() server.Traffic {
	tick := locked(d, &d.status.Tick)
	t := &d.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	if tick.IsZero() || tick.Equal(t.tick) || time.Since(t.read) < trafficEvery {
		return t.last
	}
	t.read = time.Now()
	var shapes server.Traffic
	h := storage.History{Store: d.store}
	for i := range features.Dimensions {
		x := &features.Dimensions[i]
		if !x.Forecast {
			continue
		}
		err := h.Dimension(context.Background(), x, tick.Add(-trafficSpan), tick, func(key features.Key, values []float64) error {
			if s := features.TrafficOf(key, x.Name, values); s.Minutes > 0 {
				shapes = append(shapes, s)
			}
			return nil
		})
		if err != nil {
			d.log.Warn("the traffic shape cannot be read from the series", zap.Error(err))
			return t.last
		}
	}
	slices.SortStableFunc(shapes, func(a, b features.Traffic) int { return a.Key.Compare(b.Key) })
	t.tick, t.last = tick, shapes
	return shapes
}
