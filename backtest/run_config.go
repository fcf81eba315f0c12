package backtest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// maxPeakReplicas bounds RunConfig.PeakReplicas; a pool may then grow to four times as many.
const maxPeakReplicas = 10_000

// RunConfig is one backtest.
type RunConfig struct {
	Trace string // a file
	// Recorded, when it is set, takes the place of the trace.
	Recorded *Recorded
	Options  Options

	// Every is the spacing of the forecasts that are written and scored; 0 means 15 minutes. Decide is that of
	// decisions, a divisor of Every in whole minutes; 0 means each minute, as in the daemon.
	Every, Decide time.Duration
	// What comes between these shares of the trace is scored; settings of policies are chosen on what comes before, and
	// what comes after is not run. A ScoreTo of 0 means 1.
	ScoreFrom, ScoreTo float64

	Decision alerting.Config // zero means alerting.DefaultConfig, in active mode
	// Features is how traffic is aggregated; nil means features.DefaultConfig. Its Lateness is taken as 0, and so is
	// its Revise unless records carry times: traces come in order.
	Features *features.Config

	// Pool is what serves the traffic. Without it the capacity of a replica is such that the busiest minute needs
	// PeakReplicas (0 means 8), and replicas warm up as Warmup says.
	Pool         *capacity.Pool
	PeakReplicas int
	Warmup       capacity.Lag

	Policies []string // of the catalog; "all" is every one; none is forewarm alone
	Sweep    bool     // every setting of each policy's knobs, not the default alone
	Seed     uint64   // of the warm-ups

	// Files to write, none when empty.
	Forecasts, Decisions, Summary string
	Report                        string // a page for people, with plots
	Plot                          string // an SVG of the pool's forecasts of prefill, or of the first dimension that the trace reports

	// watchShares are of quarter hours that further watched pools are enough for.
	watchShares []float64

	// Progress, when set, is called now and then from Run's goroutine.
	Progress func(Progress)
}

// Progress says how far a run has come.
type Progress struct {
	Stage       string // "scan", then "run"
	Read, Total int64  // bytes of the trace in this stage, or recorded minutes
}

// Summary is what a backtest found.
type Summary struct {
	Trace   TraceSummary `json:"trace"`
	Start   time.Time    `json:"start"` // t_s = 0
	Minutes int          `json:"minutes"`
	Origins int          `json:"origins"`                // at which forecasts were made
	Holes   int          `json:"hole_minutes,omitempty"` // minutes of silence that were taken for holes in the log, not for zero traffic
	// Refused counts records that the pipeline could not use, by reason; rows that the reader refused are in Trace.
	Refused map[ingest.Reason]uint64 `json:"refused"`
	Scores  []Score                  `json:"scores"`
	// Reliability says how many of the saturations came that projections stated at some probability, supply held as they assumed it.
	Reliability   []forecaster.ReliabilityBin `json:"reliability,omitempty"`
	Disaggregated bool                        `json:"disaggregated,omitempty"` // prompts have replicas of their own: GPU-hours and actions are of both roles, saturated minutes those of either
	Policies      []Result                    `json:"policies"`
	Alarms        *Alarms                     `json:"alarms"` // of a pool that nobody scales
	// Comparisons are made of a sweep, one for each of Targets.
	Comparisons []Comparison `json:"comparisons,omitempty"`
	// NotKnown says what a recorded pool does not tell; none of a trace.
	NotKnown []string `json:"not_known,omitempty"`
}

// TraceSummary is what was read of one file.
type TraceSummary struct {
	Path       string   `json:"path"`
	Format     string   `json:"format"`
	Rows       int64    `json:"rows"`
	Refused    int64    `json:"refused"`
	Disordered int64    `json:"disordered"`
	First      string   `json:"first_refused,omitempty"` // where and why
	Notes      []string `json:"notes,omitempty"`
}

// Check says what is wrong with a configuration, before a trace is opened. Messages begin with the setting's name as the
// backtest command's flags have it, without the dash.
func (c *RunConfig) Check() error {
	d := *c
	return d.complete()
}

// complete puts defaults in place of what is not set, and checks all of it.
func (c *RunConfig) complete() error {
	if c.Trace == "" && c.Recorded == nil {
		return errors.New("no trace: name a file")
	}
	if c.Every == 0 {
		c.Every = 15 * time.Minute
	}
	if c.Decide == 0 {
		c.Decide = features.Minute // as the daemon
	}
	for _, x := range []struct {
		name string
		d    time.Duration
	}{{"every", c.Every}, {"decide", c.Decide}} {
		if x.d < features.Minute || x.d%features.Minute != 0 {
			return fmt.Errorf("%s %s is not a positive number of whole minutes: use such as 15m", x.name, x.d)
		}
	}
	if c.Every%c.Decide != 0 {
		return fmt.Errorf("every %s is no multiple of decide %s: use such as 15m and 5m", c.Every, c.Decide)
	}
	if !(c.ScoreFrom >= 0 && c.ScoreFrom < 1) {
		return fmt.Errorf("score-from %g is out of 0…1: use a share such as 0.67", c.ScoreFrom)
	}
	if c.ScoreTo == 0 {
		c.ScoreTo = 1
	}
	if !(c.ScoreTo > c.ScoreFrom && c.ScoreTo <= 1) {
		return fmt.Errorf("score-to %g is out of score-from %g…1: use a share such as 1", c.ScoreTo, c.ScoreFrom)
	}
	if c.Decision.Mode == "" {
		c.Decision = alerting.DefaultConfig()
	}
	c.Decision.Mode = alerting.Active
	if c.Pool != nil {
		pool := *c.Pool
		pool.Mode, c.Pool = "", &pool
	}
	if c.Features == nil {
		f := features.DefaultConfig()
		c.Features = &f
	}
	if c.PeakReplicas == 0 {
		c.PeakReplicas = 8
	}
	if c.PeakReplicas < 1 || c.PeakReplicas > maxPeakReplicas {
		return fmt.Errorf("peak-replicas %d is out of 1…%d: use such as 8", c.PeakReplicas, maxPeakReplicas)
	}
	if len(c.Policies) == 0 {
		c.Policies = []string{ForewarmPolicy}
	}
	if c.Options.Pool == "" {
		c.Options.Pool = DefaultPool
		if c.Pool != nil {
			c.Options.Pool = c.Pool.Name
		}
	}
	return c.checkWarmup()
}

// checkWarmup puts the question to the pool that the warm-up would be of.
func (c *RunConfig) checkWarmup() error {
	if c.Pool != nil {
		return nil
	}
	_, err := capacity.New(capacity.Config{Name: c.Options.Pool, Warmup: c.Warmup, Replicas: capacity.Replicas{Max: 1}}, nil)
	if err == nil {
		return nil
	}
	return errors.New(strings.Replace(err.Error(), "pools["+c.Options.Pool+"].warmup.", "warmup-", 1))
}
