package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // report.timezone must not depend on the machine

	"github.com/prometheus/common/model"

	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/internal/tlsconfig"
	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/pipeline"
)

// Errors are all errors in a configuration, in the order of the file; one line each:
//
//	forewarm.yaml:12: pools[chat].warmup.p90 = 75m: must be at most 55m; …
type Errors []string

func (es Errors) Error() string { return strings.Join(es, "\n") }

// add appends an error. source is file:line or the environment variable of the key, "" for a default. White space is
// collapsed, and long text truncated.
func (es *Errors) add(source, text string) {
	text = strings.Join(strings.Fields(strings.TrimPrefix(source+": "+text, ": ")), " ")
	*es = append(*es, value.Cut(strings.ToValidUTF8(text, "�"), 400))
}

// errorText joins the parts of a text: key, value, valid values, and fix. Each but the key may be empty.
func errorText(key, value, bound, fix string) string {
	if value != "" {
		key += " = " + value
	}
	if bound != "" {
		key += ": " + bound
	}
	if fix != "" {
		key += "; " + fix
	}
	return key
}

// checker collects values out of bounds; source has the place of each key.
type checker struct {
	source map[string]string
	errs   Errors
}

func (k *checker) fail(key string, value any, bound, fix string) {
	k.add(key, errorText(key, show(value), bound, fix))
}

// add records an error about the key at place in the file. An absent key is reported at the start of its section.
func (k *checker) add(place, text string) {
	source := ""
	for at := place; source == "" && at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
		source = k.source[at]
	}
	k.errs.add(source, text)
}

// show formats a value as a user would: quoted text, durations without empty units.
func show(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return strconv.Quote(v)
	case time.Duration:
		return model.Duration(v).String()
	}
	return fmt.Sprint(value)
}

func between[T cmp.Ordered](k *checker, key string, v, lo, hi T, fix string) {
	if v < lo || v > hi {
		k.fail(key, v, fmt.Sprintf("must be %s to %s", show(lo), show(hi)), fix)
	}
}

func (k *checker) oneOf(key, v string, allowed ...string) {
	if !slices.Contains(allowed, v) {
		k.fail(key, v, "must be one of "+strings.Join(allowed, ", "), value.DidYouMean(v, allowed))
	}
}

// section records a package's error about its own Config, which begins with the key: "key: …" or "key is value: …".
func (k *checker) section(name string, err error) {
	if err != nil {
		text := name + "." + strings.TrimPrefix(err.Error(), name+".")
		key := text[:strings.IndexAny(text+" ", ": ")]
		if rest, ok := strings.CutPrefix(text, key+" is "); ok {
			text = key + " = " + rest
		}
		k.add(key, text)
	}
}

// check finds errors that types do not exclude, in the order of [Config].
func (c *Config) check(k *checker) {
	k.oneOf("clock", string(c.Clock), string(pipeline.WallClock), string(pipeline.EventClock))
	c.checkFeatures(k)
	c.Classify.Check(func(rule int, field string, value any, bound, fix string) {
		k.fail(strings.TrimSuffix(fmt.Sprintf("classify.rules[%d].%s", rule, field), "."), value, bound, fix)
	})
	if len(c.Pools) == 0 && c.DefaultPool == nil {
		k.fail("pools", nil, "must list a pool, because telemetry of pools that are not configured is refused",
			"add one with a name and replicas.max, or a default_pool that serves every name")
	}
	between(k, "max_pools", c.MaxPools, max(1, len(c.Pools)), 10_000, "each pool costs memory and time every minute")
	c.built = c.buildPipeline(k)
	k.section("decision", c.Decision.Check())
	k.section("nats", c.NATS.Check())
	k.section("listeners", c.Listeners.Check())
	k.section("scrape", c.Scrape.Check())
	_, err := sink.Open(c.Sinks, sink.Deps{})
	k.section("sinks", err)
	k.section("storage", c.Storage.Check())
	k.section("backfill", c.Backfill.Check())
	c.checkReport(k)
	k.section("server", c.Server.Check())
	k.section("keda", c.KEDA.Check())
	k.section("dynamo", c.Dynamo.Check())
	c.checkSources(k)
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "console", "json")
}

// TLS are the sections of certificates of the addresses that the daemon listens on, by their key.
func (c *Config) TLS() map[string]tlsconfig.Server {
	all := map[string]tlsconfig.Server{"keda.tls": c.KEDA.TLS, "listeners.http.tls": c.Listeners.HTTP.TLS}
	for i := range c.Dynamo.Planners {
		all[fmt.Sprintf("dynamo.planners[%d].tls", i)] = c.Dynamo.Planners[i].TLS
	}
	return all
}

// checkSources checks that sources of telemetry fit the clock and the pools, and that planners have a pool.
func (c *Config) checkSources(k *checker) {
	if len(c.Scrape.Jobs) > 0 && c.Clock == pipeline.EventClock {
		k.fail("clock", string(c.Clock), "must be wall where engines are scraped, because they live now",
			"set clock: wall, or remove scrape.jobs")
	}
	if c.Backfill.URL != "" {
		switch {
		case c.Clock == pipeline.EventClock:
			k.fail("clock", string(c.Clock), "must be wall where a past is read, because it ends now", "set clock: wall, or remove backfill.url")
		case len(c.Backfill.Sources) == 0 && len(c.Pools) != 1:
			k.fail("backfill.sources", len(c.Backfill.Sources), "must say of which pool the past is, where there is not one", "list a source for each pool")
		}
	}
	if c.DefaultPool != nil {
		return
	}
	for i, s := range c.Backfill.Sources {
		c.checkListed(k, "backfill.sources", i, s.Pool)
	}
	for i, s := range c.NATS.Sources {
		c.checkListed(k, "nats.sources", i, s.Pool)
	}
	for i, j := range c.Scrape.Jobs {
		c.checkListed(k, "scrape.jobs", i, j.Pool)
	}
	for i, p := range c.Dynamo.Planners {
		c.checkListed(k, "dynamo.planners", i, p.Pool)
	}
}

// checkListed checks that the pool of the i-th element of a list is configured. An empty pool is reported elsewhere.
func (c *Config) checkListed(k *checker, list string, i int, pool string) {
	var names []string
	for i := range c.Pools {
		names = append(names, c.Pools[i].Name)
	}
	if pool != "" {
		k.oneOf(fmt.Sprintf("%s[%d].pool", list, i), pool, names...)
	}
}

func (c *Config) checkFeatures(k *checker) {
	f := c.Features
	between(k, "features.lateness", f.Lateness, 0, 10*time.Minute, "a later forecast is a worse one; 10s suits live traffic")
	between(k, "features.revise", f.Revise, 0, time.Hour, "10m covers requests that run for ten minutes")
	between(k, "features.future_bound", f.FutureBound, time.Second, time.Hour, "it only has to cover clock skew; 2m does")
	between(k, "features.max_classes", f.MaxClasses, 1, 100_000, "of all pools; a class costs some 65 KiB")
	between(k, "features.replica_ttl", f.ReplicaTTL, 10*time.Second, time.Hour, "three reporting intervals is usual")
	between(k, "features.stale_after", f.StaleAfter, time.Minute, time.Hour, "shorter would call a quiet minute stale")
	between(k, "features.class_ttl", f.ClassTTL, time.Hour, 365*24*time.Hour, "8d keeps a class that runs once a week")
}

func (c *Config) checkReport(k *checker) {
	zone, err := time.LoadLocation(c.Report.Timezone)
	if err != nil || c.Report.Timezone == "" || zone == time.Local {
		k.fail("report.timezone", c.Report.Timezone, "must be an IANA time zone", "write one such as UTC or Europe/Berlin")
		zone = time.UTC
	}
	if c.Report.Schedule == "" {
		return
	}
	if _, err := report.NewSchedule(c.Report.Schedule, zone); err != nil {
		k.fail("report.schedule", c.Report.Schedule, err.Error(),
			`write minute hour day-of-month month day-of-week, such as "0 7 * * 1", or "" for never`)
	}
}
