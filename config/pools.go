package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/pipeline"
)

// Bounds of files that pools name. A model's config.json has a few kilobytes; a benchmark may include samples.
const (
	maxModelBytes = 1 << 20
	maxCurveBytes = 64 << 20
)

// Pipeline returns the pipeline's configuration. It reads the files that pools name.
func (c *Config) Pipeline() (pipeline.Config, error) {
	p := pipeline.DefaultConfig()
	p.Clock, p.Every, p.DedupEntries, p.MaxPools = c.Clock, c.Every, c.DedupEntries, c.MaxPools
	p.Features, p.Classify, p.Decision = c.Features, c.Classify, c.Decision
	if c.NATS.Partitioned() {
		p.Owns = c.NATS.Owns
	}
	k := &checker{}
	for i := range c.Pools {
		if pool, ok := k.pool(poolKey(c.Pools, i), "", c.Pools[i]); ok {
			p.Pools = append(p.Pools, pool)
		}
	}
	if c.DefaultPool != nil {
		if pool, ok := k.pool(defaultPoolKey, "", named(*c.DefaultPool)); ok {
			p.DefaultPool = &pool
		}
	}
	p.Events, p.Define = c.events(k), c.definer()
	if len(k.errs) > 0 {
		return pipeline.Config{}, k.errs
	}
	return p, nil
}

const defaultPoolKey = "default_pool"

// named gives a template a name for its checks.
func named(c capacity.Config) capacity.Config {
	c.Name = defaultPoolKey
	return c
}

// poolKey names a pool in messages: by its name, or by its index.
func poolKey(pools []capacity.Config, i int) string {
	if name := pools[i].Name; name != "" {
		return "pools[" + name + "]"
	}
	return fmt.Sprintf("pools[%d]", i)
}

func (c *Config) checkPools(k *checker) {
	if len(c.Pools) == 0 && c.DefaultPool == nil {
		k.fail("pools", nil, "must list a pool, because telemetry of pools that are not configured is refused",
			"add one with a name and replicas.max, or a default_pool that serves every name")
	}
	between(k, "max_pools", c.MaxPools, max(1, len(c.Pools)), 10_000, "each pool costs memory and time every minute")
	seen := map[string]int{}
	for i := range c.Pools {
		place := fmt.Sprintf("pools[%d]", i)
		name := c.Pools[i].Name
		first, duplicate := seen[name]
		switch {
		case name == "":
			k.fail(place+".name", name, "must not be empty", "name the pool as its telemetry does")
			continue
		case duplicate:
			k.fail(place+".name", name, fmt.Sprintf("must be unique, and is that of pools[%d]", first), "rename or remove one of them")
			continue
		case strings.ContainsAny(name, ".*> \t\r\n"):
			k.fail(place+".name", name, "must be one token of a NATS subject", "use letters, digits, - and _")
			continue
		}
		seen[name] = i
		if pool, ok := k.pool(poolKey(c.Pools, i), place, c.Pools[i]); ok {
			c.checkLead(k, poolKey(c.Pools, i), place, &pool)
		}
	}
	if c.DefaultPool != nil {
		if c.DefaultPool.Name != "" {
			k.fail(defaultPoolKey+".name", c.DefaultPool.Name, "must be left out: the template serves any name", "remove it, or list the pool under pools")
		}
		if pool, ok := k.pool(defaultPoolKey, defaultPoolKey, named(*c.DefaultPool)); ok {
			c.checkLead(k, defaultPoolKey, defaultPoolKey, &pool)
		}
	}
}

// pool creates one pool. key names it in messages, place is its path in the file.
func (k *checker) pool(key, place string, cfg capacity.Config) (capacity.Pool, bool) {
	files, ok := k.files(key, place, &cfg)
	if !ok {
		return capacity.Pool{}, false
	}
	return k.build(key, place, cfg, files)
}

// files reads the files that a pool names.
func (k *checker) files(key, place string, cfg *capacity.Config) (files capacity.Files, ok bool) {
	for _, file := range []struct {
		key, path, fix string
		limit          int64
		into           *[]byte
	}{
		{".model_config", cfg.ModelConfig, "name the config.json of the model that the pool serves", maxModelBytes, &files.Model},
		{".curve_file", cfg.CurveFile, "name a benchmark of one of the pool's replicas", maxCurveBytes, &files.Curve},
	} {
		data, err := readFile(file.path, file.limit)
		if err != nil {
			k.failAt(place+file.key, key+file.key, file.path, err.Error(), file.fix)
			return files, false
		}
		*file.into = data
	}
	return files, true
}

// build creates a pool from its keys and files.
func (k *checker) build(key, place string, cfg capacity.Config, files capacity.Files) (capacity.Pool, bool) {
	if mode := alerting.Mode(cfg.Mode); mode != "" && mode != alerting.Advisory && mode != alerting.Active {
		k.failAt(place+".mode", key+".mode", cfg.Mode, "is unknown", "set advisory or active, or leave it out for decision.mode")
		return capacity.Pool{}, false
	}
	pool, err := capacity.NewFrom(cfg, files)
	if err != nil {
		detail := strings.TrimPrefix(err.Error(), "pools["+cfg.Name+"].")
		leaf, bound, _ := strings.Cut(detail, ":")
		k.failAt(place+"."+leaf, key+"."+leaf, nil, bound, "")
		return capacity.Pool{}, false
	}
	return pool, true
}

// readFile returns nil, nil for an empty path. Its errors do not repeat the path, which the message already has.
func readFile(path string, limit int64) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read (%w)", errors.Unwrap(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read (%w)", errors.Unwrap(err))
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("must be at most %d bytes", limit)
	}
	return data, nil
}

// checkLead checks that the forecast is longer than the warm-up. A replica ordered now is ready after the lead time,
// and must then be needed for the hold time. A removed replica can be back only after the lead time, and must not be
// needed until then, or during the cooldown after it.
func (c *Config) checkLead(k *checker, key, place string, pool *capacity.Pool) {
	horizon := forecaster.Horizon * features.Minute
	p90 := forecaster.LeadTime(&pool.Warmup) - features.Minute
	if limit := horizon - features.Minute - c.Decision.Hold; p90 > limit {
		k.failAt(place+".warmup.p90", key+".warmup.p90", p90,
			fmt.Sprintf("must be at most %s: the forecast horizon %s less one tick and decision.hold %s", show(limit), show(horizon), show(c.Decision.Hold)),
			"shorten the warm-up (keep weights on local disk, pull images ahead) or decision.hold")
	} else if limit := horizon - features.Minute - p90; c.Decision.Cooldown > limit {
		at := "decision.cooldown"
		if k.source[at] == "" { // a default, so the warm-up was set
			at = place + ".warmup.p90"
		}
		k.failAt(at, "decision.cooldown", c.Decision.Cooldown,
			fmt.Sprintf("must be at most %s: the forecast horizon %s less one tick and %s.warmup.p90 %s", show(limit), show(horizon), key, show(p90)),
			"shorten it or the warm-up (keep weights on local disk, pull images ahead)")
	}
}

// definer returns the function that creates a pool from the keys of its definition, with the values of default_pool as
// defaults. A definition names no files, because only this daemon may have them. The files of default_pool are read
// once, here.
func (c *Config) definer() func(pool string, keys []byte) (capacity.Pool, error) {
	var base capacity.Config
	if c.DefaultPool != nil {
		base = *c.DefaultPool
	}
	files, _ := (&checker{}).files("", "", &base) // an unreadable file was reported with default_pool
	return func(pool string, keys []byte) (capacity.Pool, error) {
		d := newDecoder("definition")
		defined := base
		if err := d.document(keys, reflect.ValueOf(&defined).Elem()); err != nil {
			return capacity.Pool{}, err
		}
		if defined.Name != "" && defined.Name != pool {
			d.errs = append(d.errs, &Error{Source: d.source["name"], Key: "name", Value: show(defined.Name), Bound: "must be " + show(pool), Fix: "leave it out"})
		}
		for _, key := range slices.Sorted(maps.Keys(d.source)) {
			if isPath(key) {
				d.errs = append(d.errs, &Error{Source: d.source[key], Key: key, Bound: "must not name a file", Fix: "set it in default_pool, or list the pool under pools"})
			}
		}
		if len(d.errs) > 0 {
			return capacity.Pool{}, d.errs
		}
		defined.Name = pool
		in := &checker{source: d.source}
		p, ok := in.build(poolKey([]capacity.Config{defined}, 0), "", defined, files)
		if ok {
			c.checkLead(in, fmt.Sprintf("pools[%s]", pool), "", &p)
		}
		if len(in.errs) > 0 {
			return capacity.Pool{}, in.errs
		}
		return p, nil
	}
}

// events returns the valid events of the calendar; k gets the errors of the others.
func (c *Config) events(k *checker) (all []forecaster.Event) {
	if len(c.Events) > forecaster.MaxEvents {
		k.fail("events", len(c.Events), fmt.Sprintf("must be at most %d", forecaster.MaxEvents), "remove what is over")
		return nil
	}
	seen := map[[2]string]bool{}
	for i := range c.Events {
		x := &c.Events[i]
		place := fmt.Sprintf("events[%d]", i)
		zone, known := c.zone(x.Pool)
		e, err := forecaster.NewEvent(*x, zone)
		switch {
		case err != nil:
			leaf, bound, _ := strings.Cut(err.Error(), ": ")
			k.failAt(place+"."+leaf, place+"."+leaf, nil, bound, "")
		case !known:
			k.fail(place+".pool", x.Pool, "must be one of the pools", "list the pool, or correct its name")
		case seen[[2]string{x.Pool, x.Name}]:
			k.fail(place+".name", x.Name, "must be unique in its pool, for what is learned of an event is kept by its name", "rename one of them")
		default:
			all = append(all, e)
		}
		seen[[2]string{x.Pool, x.Name}] = true
	}
	return all
}

// zone returns the time zone of a pool, and whether it is served. An invalid zone is reported with the pool.
func (c *Config) zone(pool string) (*time.Location, bool) {
	i := slices.IndexFunc(c.Pools, func(p capacity.Config) bool { return p.Name == pool })
	var name string
	switch {
	case i >= 0:
		name = c.Pools[i].Timezone
	case c.DefaultPool != nil:
		name = c.DefaultPool.Timezone
	default:
		return time.UTC, false
	}
	if zone, err := time.LoadLocation(name); err == nil {
		return zone, true
	}
	return time.UTC, true
}
