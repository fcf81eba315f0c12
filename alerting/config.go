package alerting

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// Config is the configuration of decisions and alerts. Start from [DefaultConfig].
type Config struct {
	Mode     Mode    `yaml:"mode"`
	Quantile float64 `yaml:"quantile"` // of demand to provide for; 0 computes it from each pool's costs (0.95 without costs)

	Hold              time.Duration `yaml:"hold"`                // added to the warm-up lag to look ahead; a request is kept for both, unless demand is gone
	Cooldown          time.Duration `yaml:"cooldown"`            // how long the smaller pool must have been enough, and must be so after the warm-up lag
	ScaleInConfidence float64       `yaml:"scale_in_confidence"` // quantile of demand that the smaller pool must serve; 0 allows a third of the risk of quantile
	ScaleInStep       int           `yaml:"scale_in_step"`       // replicas removed at a time; 0 is unlimited
	MaxScaleIns       int           `yaml:"max_scale_ins"`       // scale-ins per day
	MaxStepOut        int           `yaml:"max_step_out"`        // replicas requested beyond the current ones; 0 is unlimited

	Priorities []string `yaml:"priorities"` // classes, most important first: if saturation cannot be averted, classes that are not listed are limited first, then the last

	WaitingPerReplica float64 `yaml:"waiting_per_replica"` // queued requests per ready replica that force scale-out
	KVDanger          float64 `yaml:"kv_danger"`           // KV use of the fullest replica that forces scale-out

	Renew  time.Duration `yaml:"renew"`  // after this, unchanged advice is published again
	Expiry time.Duration `yaml:"expiry"` // advice expires this long after its tick

	AlertProbability   float64 `yaml:"alert_probability"`   // of saturation within the lead window, to raise a page
	WarningProbability float64 `yaml:"warning_probability"` // of saturation within the warm-up lag and 15 minutes, to raise a warning

	RaiseAfter   int    `yaml:"raise_after"`   // ticks in a row that a condition must hold
	ResolveAfter int    `yaml:"resolve_after"` // ticks in a row without it
	RunbookURL   string `yaml:"runbook_url"`   // the alert's name replaces {alert}, or is appended; "" leaves the annotation out
	DashboardURL string `yaml:"dashboard_url"` // the pool replaces {pool}; "" leaves the annotation out
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{
		Mode: Advisory, Hold: 5 * time.Minute, Cooldown: 2 * time.Minute,
		ScaleInStep: 1, MaxScaleIns: 96, WaitingPerReplica: 4, KVDanger: 0.85,
		Renew: 10 * time.Minute, Expiry: 15 * time.Minute,
		AlertProbability: 0.5, WarningProbability: 0.35, RaiseAfter: 2, ResolveAfter: 5,
		RunbookURL: "https://github.com/forewarm/forewarm/blob/main/deploy/runbooks/{alert}.md",
	}
}

// maxPriorities bounds the classes that are ranked.
const maxPriorities = 64

// DefaultQuantile is the decision quantile if neither a quantile nor costs are configured.
const DefaultQuantile = 0.95

// Check is nil for a usable configuration; else it names the key, the value, the bound and the fix.
func (c Config) Check() error {
	if c.Mode != Advisory && c.Mode != Active {
		return fmt.Errorf("mode: %q is unknown; set advisory or active", c.Mode)
	}
	for _, share := range []struct {
		key    string
		value  float64
		lo, hi float64
	}{
		{"quantile", c.Quantile, 0, 0.999}, {"scale_in_confidence", c.ScaleInConfidence, 0, 0.9999},
		{"kv_danger", c.KVDanger, 0.01, 1}, {"alert_probability", c.AlertProbability, 0.01, 1},
		{"warning_probability", c.WarningProbability, 0.01, 1},
	} {
		if !(share.value >= share.lo && share.value <= share.hi) {
			return fmt.Errorf("%s: %g is out of %g…%g; set a share such as 0.9", share.key, share.value, share.lo, share.hi)
		}
	}
	horizon := forecaster.Horizon * time.Minute
	for _, span := range []struct {
		key    string
		value  time.Duration
		lo, hi time.Duration
	}{
		{"hold", c.Hold, 0, horizon}, {"cooldown", c.Cooldown, 0, horizon},
		{"renew", c.Renew, time.Minute, 24 * time.Hour}, {"expiry", c.Expiry, time.Minute, 24 * time.Hour},
	} {
		if span.value < span.lo || span.value > span.hi {
			return fmt.Errorf("%s: %s is out of %s…%s; set it between them", span.key, span.value, span.lo, span.hi)
		}
	}
	switch {
	case c.Expiry <= c.Renew:
		return fmt.Errorf("expiry: %s is not above renew (%s), so that advice would expire in between; set expiry > renew", c.Expiry, c.Renew)
	case c.ScaleInConfidence > 0 && c.ScaleInConfidence < 0.5:
		return fmt.Errorf("scale_in_confidence: %g is below 0.5; set 0.5 to 0.9999, or 0 to follow the quantile", c.ScaleInConfidence)
	case c.ScaleInStep < 0:
		return fmt.Errorf("scale_in_step: %d is below 0; set the replicas given up at a time, or 0 for no limit", c.ScaleInStep)
	case c.MaxScaleIns < 1 || c.MaxScaleIns > maxActions:
		return fmt.Errorf("max_scale_ins: %d is out of 1…%d; set how often in a day replicas may be given up, such as 96", c.MaxScaleIns, maxActions)
	case len(c.Priorities) > maxPriorities:
		return fmt.Errorf("priorities: %d classes are listed; list the %d most important", len(c.Priorities), maxPriorities)
	case c.MaxStepOut < 0:
		return fmt.Errorf("max_step_out: %d is below 0; set 0 for no limit", c.MaxStepOut)
	case !(c.WaitingPerReplica > 0):
		return fmt.Errorf("waiting_per_replica: %g is not above 0; set 3 to 5", c.WaitingPerReplica)
	case c.RaiseAfter < 1 || c.ResolveAfter < 1:
		return fmt.Errorf("raise_after, resolve_after: %d, %d; set at least 1 tick", c.RaiseAfter, c.ResolveAfter)
	}
	return nil
}
