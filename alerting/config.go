package alerting

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// Config is how decisions are made and alerts raised. Start from [DefaultConfig].
type Config struct {
	Mode     Mode    `yaml:"mode"`
	Quantile float64 `yaml:"quantile"` // of demand to provide for; 0 follows from each pool's costs, 0.95 without costs

	Hold              time.Duration `yaml:"hold"`                // looked ahead beyond the warm-up lag; an ask stands for both, unless demand is gone
	Cooldown          time.Duration `yaml:"cooldown"`            // the smaller pool must have been enough this long, and be so beyond the warm-up lag
	ScaleInConfidence float64       `yaml:"scale_in_confidence"` // quantile of demand that the smaller pool must hold; 0 leaves a third of the risk of the quantile provided for
	ScaleInStep       int           `yaml:"scale_in_step"`       // replicas given up at a time; 0 is unlimited
	MaxScaleIns       int           `yaml:"max_scale_ins"`       // times in a day that replicas are given up
	MaxStepOut        int           `yaml:"max_step_out"`        // replicas asked for beyond those there are; 0 is unlimited

	Priorities []string `yaml:"priorities"` // classes, most important first: when saturation cannot be averted, the last are limited first, and those not listed before them

	WaitingPerReplica float64 `yaml:"waiting_per_replica"` // queued requests per ready replica that force more
	KVDanger          float64 `yaml:"kv_danger"`           // KV use of the fullest replica that forces more

	Renew  time.Duration `yaml:"renew"`  // unchanged advice is published again after this
	Expiry time.Duration `yaml:"expiry"` // advice lapses this long after its tick

	AlertProbability float64 `yaml:"alert_probability"` // of saturation within the lead window, to raise a page
	// FalseAlarmsPerWeek is how many warnings of a pool may come to nothing: from which probability on it is warned is learned from
	// that, and moves no page; 0 warns from AlertProbability on.
	FalseAlarmsPerWeek float64 `yaml:"false_warnings_per_week"`

	RaiseAfter   int    `yaml:"raise_after"`   // ticks in a row that a condition must hold
	ResolveAfter int    `yaml:"resolve_after"` // ticks in a row that it must be gone
	RunbookURL   string `yaml:"runbook_url"`   // {alert} stands for the alert's name, which else is appended; "" leaves the annotation out
	DashboardURL string `yaml:"dashboard_url"` // of the annotation of that name; {pool} stands for the pool; "" leaves it out
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{
		Mode: Advisory, Hold: 5 * time.Minute, Cooldown: 2 * time.Minute,
		ScaleInStep: 1, MaxScaleIns: 96, WaitingPerReplica: 4, KVDanger: 0.85,
		Renew: 10 * time.Minute, Expiry: 15 * time.Minute,
		AlertProbability: 0.5, FalseAlarmsPerWeek: 10, RaiseAfter: 2, ResolveAfter: 5,
		RunbookURL: "https://github.com/forewarm/forewarm/blob/main/deploy/runbooks/{alert}.md",
	}
}

// maxPriorities bounds the classes that are ranked.
const maxPriorities = 64

// maxFalseAlarms a week is one each hour.
const maxFalseAlarms = 7 * 24

// defaultQuantile is provided for when neither a quantile nor costs are stated.
const defaultQuantile = 0.95

// Check is nil for a usable configuration; else it names the key, the value, the bound and the mend.
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
		return fmt.Errorf("expiry: %s is not above renew (%s), so that advice would lapse in between; set expiry > renew", c.Expiry, c.Renew)
	case c.ScaleInConfidence > 0 && c.ScaleInConfidence < 0.5:
		return fmt.Errorf("scale_in_confidence: %g is below 0.5; set 0.5 to 0.9999, or 0 to follow the quantile", c.ScaleInConfidence)
	case c.ScaleInStep < 0:
		return fmt.Errorf("scale_in_step: %d is below 0; set the replicas given up at a time, or 0 for no limit", c.ScaleInStep)
	case c.MaxScaleIns < 1 || c.MaxScaleIns > maxActions:
		return fmt.Errorf("max_scale_ins: %d is out of 1…%d; set how often in a day replicas may be given up, such as 96", c.MaxScaleIns, maxActions)
	case len(c.Priorities) > maxPriorities:
		return fmt.Errorf("priorities: %d classes are listed; list the %d most important", len(c.Priorities), maxPriorities)
	case !(c.FalseAlarmsPerWeek >= 0 && c.FalseAlarmsPerWeek <= maxFalseAlarms):
		return fmt.Errorf("false_warnings_per_week: %g is out of 0…%d; set how many warnings of a pool may come to nothing, such as 10, or 0 to warn from alert_probability on", c.FalseAlarmsPerWeek, maxFalseAlarms)
	case c.MaxStepOut < 0:
		return fmt.Errorf("max_step_out: %d is below 0; set 0 for no limit", c.MaxStepOut)
	case !(c.WaitingPerReplica > 0):
		return fmt.Errorf("waiting_per_replica: %g is not above 0; set 3 to 5", c.WaitingPerReplica)
	case c.RaiseAfter < 1 || c.ResolveAfter < 1:
		return fmt.Errorf("raise_after, resolve_after: %d, %d; set at least 1 tick", c.RaiseAfter, c.ResolveAfter)
	}
	return nil
}
