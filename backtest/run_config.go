package backtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// maxPeakReplicas bounds RunConfig.PeakReplicas; a pool may have four times as many.
const maxPeakReplicas = 10_000

// RunConfig configures one backtest.
type RunConfig struct {
	Trace string // a file
	// Recorded, if set, replaces the trace.
	Recorded *Recorded
	Options  Options

	// Every is the interval of written and scored forecasts; 0 means 15 minutes.
	Every time.Duration
	// The trace between these shares is scored. Policies are tuned on the part before; the part after is not run. A
	// ScoreTo of 0 means 1.
	ScoreFrom, ScoreTo float64

	Decision alerting.Config // zero means alerting.DefaultConfig, in active mode
	// Features configures the aggregation; nil means features.DefaultConfig. Lateness is set to 0, and so is Revise
	// unless records have times: traces are in order.
	Features *features.Config

	// Pool serves the traffic. Without it the busiest minute needs PeakReplicas (0 means 8), and replicas have the lag
	// Warmup.
	Pool         *capacity.Pool
	PeakReplicas int
	Warmup       capacity.Lag

	Policies []string     // of the catalog; "all" for all. Forewarm always takes part.
	specs    []PolicySpec // of Policies, from Prepare
	Sweep    bool         // all settings of the knobs, not only the default
	Seed     uint64       // of the warm-ups

	// Output files; "" for none.
	Forecasts, Decisions, Summary string
	Report                        string // a page with charts
}

// Summary is the result of a backtest.
type Summary struct {
	Trace   TraceSummary `json:"trace"`
	Start   time.Time    `json:"start"` // t_s = 0
	Minutes int          `json:"minutes"`
	Origins int          `json:"origins"`                // with forecasts
	Holes   int          `json:"hole_minutes,omitempty"` // minutes without data that are not zero traffic
	// Refused counts records that the pipeline could not use, by reason; Trace counts unusable rows.
	Refused  map[ingest.Reason]uint64 `json:"refused"`
	Scores   []Score                  `json:"scores"`
	Policies []Result                 `json:"policies"`
	Alarms   *Alarms                  `json:"alarms"` // of a pool without scaling
	// Comparisons exist for a sweep, one per target.
	Comparisons []Comparison `json:"comparisons,omitempty"`
	// NotKnown lists the limits of recorded data; none for a trace.
	NotKnown []string `json:"not_known,omitempty"`
}

// TraceSummary describes the read part of one file.
type TraceSummary struct {
	Path         string   `json:"path"`
	Format       string   `json:"format"`
	Rows         int64    `json:"rows"`
	Refused      int64    `json:"refused"`                 // with those out of order
	FirstRefused string   `json:"first_refused,omitempty"` // place and reason
	Notes        []string `json:"notes,omitempty"`
}

// Prepare sets defaults, and checks a configuration before a trace is opened. Messages begin with the name of the
// command's flag, without the dash.
func (c *RunConfig) Prepare() error {
	if c.Trace == "" && c.Recorded == nil {
		return errors.New("no trace: name a file")
	}
	c.Every = cmp.Or(c.Every, 15*time.Minute)
	c.ScoreTo = cmp.Or(c.ScoreTo, 1)
	c.PeakReplicas = cmp.Or(c.PeakReplicas, 8)
	switch {
	case c.Every < features.Minute || c.Every%features.Minute != 0:
		return fmt.Errorf("every %s is not a positive number of whole minutes: use such as 15m", c.Every)
	case !(c.ScoreFrom >= 0 && c.ScoreFrom < 1):
		return fmt.Errorf("score-from %g is out of 0…1: use a share such as 0.67", c.ScoreFrom)
	case !(c.ScoreTo > c.ScoreFrom && c.ScoreTo <= 1):
		return fmt.Errorf("score-to %g is out of score-from %g…1: use a share such as 1", c.ScoreTo, c.ScoreFrom)
	case c.PeakReplicas < 1 || c.PeakReplicas > maxPeakReplicas:
		return fmt.Errorf("peak-replicas %d is out of 1…%d: use such as 8", c.PeakReplicas, maxPeakReplicas)
	case c.Pool != nil && c.Pool.Disaggregated:
		return fmt.Errorf("config: pool %q is disaggregated, and a backtest simulates replicas that compute prompts and decode: leave out its disaggregated section, or run without -config", c.Pool.Name)
	}
	files := map[string]string{"report": c.Report, "summary": c.Summary, "forecasts": c.Forecasts, "decisions": c.Decisions}
	for name, path := range files {
		if _, err := os.Stat(filepath.Dir(path)); err != nil { // a run may take minutes
			return fmt.Errorf("%s is %q: %w: name a file in a directory that exists", name, path, err)
		}
	}
	if c.Decision.Mode == "" {
		c.Decision = alerting.DefaultConfig()
	}
	c.Decision.Mode = alerting.Active
	if c.Features == nil {
		c.Features = new(features.DefaultConfig())
	}
	c.Policies = append(slices.Clip(c.Policies), ForewarmPolicy)
	specs, err := PoliciesNamed(c.Policies)
	if err != nil {
		return fmt.Errorf("policies: %w", err)
	}
	c.specs = specs
	if c.Pool != nil {
		pool := *c.Pool
		pool.Mode, c.Pool = "", &pool
		c.Options.Pool = cmp.Or(c.Options.Pool, pool.Name)
		return nil
	}
	c.Options.Pool = cmp.Or(c.Options.Pool, DefaultPool)
	// The warm-up has the rules of a pool.
	_, err = capacity.New(capacity.Config{Name: c.Options.Pool, Warmup: c.Warmup, Replicas: capacity.Replicas{Max: 1}}, nil)
	if err != nil {
		return errors.New(strings.Replace(err.Error(), "pools["+c.Options.Pool+"].warmup.", "warmup-", 1))
	}
	return nil
}
