package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// checker collects what is out of bounds; source says where each key was set.
type checker struct {
	source map[string]string
	errs   Errors
}

func (k *checker) fail(key string, value any, bound, mend string) {
	if s, ok := value.(string); ok {
		value = strconv.Quote(s)
	}
	e := &Error{Key: key, Value: fmt.Sprint(value), Bound: bound, Mend: mend}
	for at := key; e.Source == "" && at != ""; at = parent(at) { // an absent key is reported where its section starts
		e.Source = k.source[at]
	}
	k.errs = append(k.errs, e)
}

// parent is the section or list element that key is in: pools[0].warmup.p90 → pools[0].warmup.
func parent(key string) string {
	return key[:max(0, strings.LastIndexAny(key, ".["))]
}

func between[T cmp.Ordered](k *checker, key string, v, lo, hi T, mend string) {
	if v < lo || v > hi {
		k.fail(key, v, fmt.Sprintf("must be %v to %v", lo, hi), mend)
	}
}

func (k *checker) oneOf(key, v string, allowed ...string) {
	if !slices.Contains(allowed, v) {
		mend := ""
		if near := nearest(v, allowed); near != "" {
			mend = fmt.Sprintf("did you mean %q?", near)
		}
		k.fail(key, v, "must be one of "+strings.Join(allowed, ", "), mend)
	}
}

// validate checks what a type cannot say, in the order of the file.
func (c *Config) validate(source map[string]string) Errors {
	k := &checker{source: source}
	k.oneOf("clock", string(c.Clock), string(Wall), string(Event))
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "console", "json")
	c.checkFeatures(k)
	c.checkReport(k)
	c.checkServer(k)
	return k.errs
}

func (c *Config) checkFeatures(k *checker) {
	f := c.Features
	between(k, "features.lateness", f.Lateness, 0, 10*time.Minute, "a later forecast is a worse one; 10s suits live traffic")
	between(k, "features.revise", f.Revise, 0, time.Hour, "10m covers requests that run for ten minutes")
	between(k, "features.future_bound", f.FutureBound, time.Second, time.Hour, "it only has to cover clock skew; 2m does")
	between(k, "features.max_classes", f.MaxClasses, 1, 10_000, "each class costs memory and time every minute")
	between(k, "features.max_tenants", f.MaxTenants, 0, 1000, "10 name who drives a rise")
	between(k, "features.max_replicas", f.MaxReplicas, 1, 100_000, "")
	between(k, "features.replica_ttl", f.ReplicaTTL, 10*time.Second, time.Hour, "three reporting intervals is usual")
	between(k, "features.stale_after", f.StaleAfter, time.Minute, time.Hour, "shorter would call a quiet minute stale")
	between(k, "features.class_ttl", f.ClassTTL, time.Hour, 365*24*time.Hour, "8d keeps a class that runs once a week")
}

func (c *Config) checkReport(k *checker) {
	if _, err := time.LoadLocation(c.Report.Timezone); err != nil || c.Report.Timezone == "" {
		k.fail("report.timezone", c.Report.Timezone, "must be an IANA time zone", "write one such as UTC or Europe/Berlin")
	}
	if c.Report.Schedule == "" {
		return
	}
	if _, err := cron.ParseStandard(c.Report.Schedule); err != nil {
		k.fail("report.schedule", c.Report.Schedule, "must be a cron expression ("+err.Error()+")",
			`write minute hour day-of-month month day-of-week, such as "0 7 * * 1", or "" for never`)
	}
}

func (c *Config) checkServer(k *checker) {
	if err := c.Server.Validate(); err != nil {
		k.fail("server.listen", c.Server.Listen, err.Error(), "write host:port, such as 127.0.0.1:9464")
	}
}
