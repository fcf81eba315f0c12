package alerting

import (
	"cmp"
	"fmt"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// Config is the configuration of decisions and alerts. Start from [DefaultConfig].
type Config struct {
	Mode     Mode    `yaml:"mode"`
	Quantile float64 `yaml:"quantile"` // of demand to provide for; 0 computes it from each pool's costs (0.95 without costs)

	// Hold is added to the warm-up lag to look ahead. A request for replicas is kept for both, unless demand is gone.
	Hold        time.Duration `yaml:"hold"`
	Cooldown    time.Duration `yaml:"cooldown"`      // how long the smaller pool must have been enough, and must be so after the warm-up lag
	ScaleInStep int           `yaml:"scale_in_step"` // replicas removed at a time; 0 is unlimited

	// Priorities are classes, the most important first. Admission limits begin with classes that are not listed, then with
	// the last.
	Priorities []string `yaml:"priorities"`

	WaitingPerReplica float64 `yaml:"waiting_per_replica"` // queued requests per ready replica that force scale-out

	Expiry time.Duration `yaml:"expiry"` // advice expires this long after its tick; unchanged advice is published again after two thirds of it

	AlertProbability   float64 `yaml:"alert_probability"`   // of saturation within the lead window, to raise a page
	WarningProbability float64 `yaml:"warning_probability"` // of saturation within the warm-up lag and 15 minutes, to raise a warning

	RunbookURL   string `yaml:"runbook_url"`   // the alert's name replaces {alert}; "" leaves the annotation out
	DashboardURL string `yaml:"dashboard_url"` // the pool replaces {pool}; "" leaves the annotation out
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{
		Mode: Advisory, Hold: 5 * time.Minute, Cooldown: 2 * time.Minute,
		ScaleInStep: 1, WaitingPerReplica: 4, Expiry: 15 * time.Minute, AlertProbability: 0.5, WarningProbability: 0.35,
		RunbookURL: "https://github.com/forewarm/forewarm/blob/main/deploy/runbooks/{alert}.md",
	}
}

// maxPriorities bounds the classes that are ranked.
const maxPriorities = 64

// DefaultQuantile is the decision quantile if neither a quantile nor costs are configured.
const DefaultQuantile = 0.95

// Check is nil for a usable configuration; else it names the key, the value, the bound and the fix.
func (c Config) Check() error {
	const horizon = forecaster.Horizon * time.Minute
	aShare, between := "a share such as 0.9", "it between them"
	switch {
	case c.Mode != Advisory && c.Mode != Active:
		return fmt.Errorf("mode: %q is unknown; set advisory or active", c.Mode)
	case len(c.Priorities) > maxPriorities:
		return fmt.Errorf("priorities: %d classes are listed; list the %d most important", len(c.Priorities), maxPriorities)
	case !(c.WaitingPerReplica > 0):
		return fmt.Errorf("waiting_per_replica: %g is not above 0; set 3 to 5", c.WaitingPerReplica)
	}
	return cmp.Or(
		within("quantile", c.Quantile, 0, 0.999, aShare),
		within("alert_probability", c.AlertProbability, 0.01, 1, aShare),
		within("warning_probability", c.WarningProbability, 0.01, 1, aShare),
		within("hold", c.Hold, 0, horizon, between),
		within("cooldown", c.Cooldown, 0, horizon, between),
		within("expiry", c.Expiry, 3*time.Minute, 24*time.Hour, between),
		within("scale_in_step", c.ScaleInStep, 0, maxNeed, "the replicas given up at a time, or 0 for no limit"),
	)
}

// within is the error of a key whose value is not in lo…hi; nil if it is. fix is what to set.
func within[T cmp.Ordered](key string, value, lo, hi T, fix string) error {
	if value >= lo && value <= hi {
		return nil
	}
	return fmt.Errorf("%s: %v is out of %v…%v; set %s", key, value, lo, hi, fix)
}
