package backtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/pipeline"
)

// Run runs the pipeline over the trace on the event clock. It reads the trace twice: for the demand of the simulated
// pools, and through the pipeline. It stops with ctx's error.
func Run(ctx context.Context, cfg RunConfig) (summary Summary, err error) {
	r, err := newRunner(ctx, cfg)
	if err != nil {
		return Summary{}, err
	}
	defer func() {
		err = errors.Join(err, r.forecasts.Close(), r.decisions.Close())
		if err == nil && cfg.Report != "" {
			err = r.writeReport(cfg.Report, &summary)
		}
		if err == nil && cfg.Summary != "" {
			err = writeFile(cfg.Summary, func(w io.Writer) error { return value.WriteJSON(w, &summary) })
		}
	}()
	if err := r.run(ctx); err != nil {
		return Summary{}, err
	}
	return r.summary(), nil
}

// runner is one run: the pipeline, its simulated pool, and the other pools and outputs.
type runner struct {
	cfg    RunConfig
	start  time.Time
	demand *Demand
	pool   capacity.Pool
	sizing string // how the pool was chosen

	until time.Time // end of the run

	pipeline   *pipeline.Pipeline
	policies   [][]*contender // all settings of each policy
	own        *contender     // follows the pipeline
	now        time.Time      // end of the served time
	scores     *scores
	fixedPools []*fixedPool // the first is of the summary
	plot       *forecastPlot

	forecasts, decisions *table
	trace                TraceSummary
	origins, holes       int
}

func newRunner(ctx context.Context, cfg RunConfig) (*runner, error) {
	if err := cfg.Prepare(); err != nil {
		return nil, err
	}
	r := &runner{cfg: cfg}
	err := r.read("scan", func(log *Source, timed bool) (err error) {
		r.demand, err = Scan(ctx, log, r.features(timed))
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(r.demand.Minutes) == 0 {
		return nil, errors.New("the trace has no traffic")
	}
	switch {
	case cfg.Pool != nil:
		r.sizing, r.pool = "the configured pool", *cfg.Pool
		r.pool.Name = cfg.Options.Pool
	case r.hasReplicas():
		r.sizing = fmt.Sprintf("a replica carries what one was seen to carry in %g %% of the minutes", 100*capacityQuantile)
		r.pool, err = cfg.Recorded.seenPool(cfg.Options.Pool, r.demand, cfg.Warmup)
	default:
		r.sizing = fmt.Sprintf("the busiest minute needs %d replicas", cfg.PeakReplicas)
		r.pool, err = PeakPool(cfg.Options.Pool, r.demand.Peak(), cfg.PeakReplicas, cfg.Warmup)
	}
	if err != nil {
		return nil, err
	}
	r.scores = &scores{from: r.share(cfg.ScoreFrom), series: map[seriesKey]*forecaster.Scorer{}}
	r.until = r.share(cfg.ScoreTo)
	r.createPools()
	r.plot = newPlot(r.demand, r.scores.from)
	if r.forecasts, err = createTable(cfg.Forecasts, forecastsHeader); err != nil {
		return nil, err
	}
	r.decisions, err = createTable(cfg.Decisions, decisionsHeader)
	return r, err
}

func (r *runner) hasReplicas() bool {
	return r.cfg.Recorded != nil && r.cfg.Recorded.peak() > 0
}

// share returns the minute at a share of the trace.
func (r *runner) share(part float64) time.Time {
	return r.demand.Start.Add(time.Duration(part*float64(len(r.demand.Minutes))) * time.Minute)
}

func (r *runner) run(ctx context.Context) error {
	return r.read("run", func(log *Source, timed bool) error {
		r.pipeline = pipeline.New(r.pipelineConfig(timed))
		for batch, err := range log.Batches(ctx) {
			if err != nil {
				return err
			}
			if batch.Watermark != nil {
				if batch.Watermark.At.After(r.until) {
					return nil
				}
				r.serve(batch.Watermark.At)
				if batch.Watermark.Pool != "" { // in a hole of the log replicas do not report either
					batch.Replicas = r.own.pool.Reports(batch.Replicas)
				}
			}
			r.pipeline.Apply(batch, r.emit)
		}
		return nil
	})
}

func (r *runner) pipelineConfig(timed bool) pipeline.Config {
	cfg := pipeline.DefaultConfig()
	cfg.Clock, cfg.Features, cfg.Decision = pipeline.EventClock, r.features(timed), r.cfg.Decision
	cfg.Pools = []capacity.Pool{r.pool}
	cfg.ShownClasses = cfg.Features.MaxClasses + 1 // all, and features.OverflowClass
	return cfg
}

// serve serves the minutes before t in the simulated pools, and lets the rivals decide.
func (r *runner) serve(t time.Time) {
	for ; r.now.Before(t); r.now = r.now.Add(features.Minute) {
		load := r.demand.At(r.now)
		need := r.own.pool.Need(load)
		if load.unknown() {
			need = math.NaN() // drawn as a gap
			r.holes++
		}
		for _, settings := range r.policies {
			for _, c := range settings {
				if r.now.Equal(r.scores.from) {
					c.tuning = c.pool.TakeAccount()
				}
				c.pool.Step(load)
				o := c.pool.Observe()
				if o.At.After(r.scores.from) {
					c.track = append(c.track, trackMinute{float32(need), int32(o.Ready), int32(o.Ready + o.Pending)})
				}
				if c.policy == nil {
					continue // decides in emit
				}
				if load.unknown() && c.name != OraclePolicy && c.name != RecordedPolicy {
					continue // an autoscaler without its metrics keeps the replicas
				}
				desired := c.policy(o)
				c.pool.SetDesired(desired)
				if c.isDefault {
					r.decisions.decision(o.At.Sub(r.start), r.pool.Name, c.name, o.Ready, o.Pending, desired, "", "", "")
				}
			}
		}
	}
}

// emit handles one tick's output. Forecasts in a hole of the log are neither written nor scored, because their input
// and outcome are unknown.
func (r *runner) emit(out *pipeline.Output) {
	r.scores.observe(out.Windows)
	if len(out.Pools) == 0 {
		return
	}
	x, eta := &out.Pools[0], "" // the only pool
	load := x.Forecast.Load()
	if out.Tick.Unix()%int64(r.cfg.Every/time.Second) == 0 && x.Forecast.Minute.Covered {
		r.origins++
		for _, forecasts := range [][]forecaster.Forecast{x.Forecast.Total, x.Forecast.Classes} {
			r.forecasts.forecasts(r.start, forecasts)
			r.scores.issue(forecasts)
		}
		r.plot.add(r.demand.Start, load.Total)
	}
	d := x.Decision
	if d.ETA.P50 != forecaster.Never {
		eta = number(d.ETA.P50.Seconds())
	}
	r.decisions.decision(d.Tick.Sub(r.start), d.Pool, ForewarmPolicy, d.Ready, d.Pending, d.Desired, d.Binding, number(d.Probability), eta)
	r.own.pool.SetDesired(d.Desired)
	for _, w := range r.fixedPools {
		w.addForecast(out.Tick, load, x.Calibrator)
	}
	for _, c := range r.policies[0] {
		if c.other != nil {
			c.other.decide(out, x, load, c.pool)
		}
	}
}

// features configures the aggregation. Traces without request times are complete minute by minute. Recorded telemetry
// arrives at the end of requests, with amendments, as in production.
func (r *runner) features(timed bool) features.Config {
	c := *r.cfg.Features
	c.Lateness = 0
	if !timed {
		c.Revise = 0
	}
	// Token counts are converted to time with the pool's own speed. A replica sized by the trace's peak has none.
	service := features.Service{}
	if p := r.cfg.Pool; p != nil {
		service = features.Service{PrefillTokensPerS: p.Rates.PrefillTokensPerS, ITL: p.ITL}
	}
	c.Service = map[string]features.Service{r.cfg.Options.Pool: service}
	return c
}

// read passes the event log of the trace, or of the recorded minutes, to do. label is that of the progress.
func (r *runner) read(label string, do func(log *Source, timed bool) error) (err error) {
	opts := r.cfg.Options
	opts.label = label
	var x *Reader
	if r.cfg.Recorded != nil {
		x, err = r.cfg.Recorded.open(opts)
	} else {
		x, err = Open(r.cfg.Trace, opts)
	}
	if err != nil {
		return err
	}
	defer func() { _ = x.Close() }() // opened for reading only
	r.start = x.Start
	log := NewSource(x, opts.Pool)
	log.everyMinute = r.cfg.Recorded != nil
	err = do(log, x.Format.timed)
	r.trace = x.Summary
	return err
}
