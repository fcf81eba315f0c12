package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

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

// Pipeline is the configuration of the pipeline, with the files of pools as [Parse] read them.
func (c *Config) Pipeline() pipeline.Config {
	p := c.built
	p.Clock = c.Clock
	return p
}

// buildPipeline makes the pipeline's configuration. k gets the errors in pools and events.
func (c *Config) buildPipeline(k *checker) pipeline.Config {
	p := pipeline.DefaultConfig()
	p.MaxPools = c.MaxPools
	p.Features, p.Classify, p.Decision = c.Features, c.Classify, c.Decision
	seen := map[string]bool{}
	for i := range c.Pools {
		name := c.Pools[i].Name
		key := poolKey(cmp.Or(name, strconv.Itoa(i)))
		switch {
		case name == "":
			k.fail(key+".name", name, "must not be empty", "name the pool as its telemetry does")
		case seen[name]:
			k.fail(key+".name", name, "must be unique", "rename or remove one of them")
		case strings.ContainsAny(name, ".*> \t\r\n"):
			k.fail(key+".name", name, "must be one token of a NATS subject", "use letters, digits, - and _")
		default:
			seen[name] = true
			p.Pools = append(p.Pools, c.pool(k, key, c.Pools[i]))
		}
	}
	if c.DefaultPool != nil {
		if name := c.DefaultPool.Name; name != "" {
			k.fail("default_pool.name", name, "must be left out: the template serves any name", "remove it, or list the pool under pools")
		}
		pool := c.pool(k, "default_pool", *c.DefaultPool)
		p.DefaultPool = &pool
	}
	p.Events = c.events(k, &p)
	return p
}

func poolKey(name string) string { return "pools[" + name + "]" }

// pool checks one pool and creates it, with the files that it names. key is the key of its section.
func (c *Config) pool(k *checker, key string, cfg capacity.Config) capacity.Pool {
	before := len(k.errs)
	files := capacity.Files{
		Model: k.file(key+".model_config", cfg.ModelConfig, maxModelBytes, "name the config.json of the model that the pool serves"),
		Curve: k.file(key+".curve_file", cfg.CurveFile, maxCurveBytes, "name a benchmark of one of the pool's replicas"),
	}
	if len(k.errs) > before {
		return capacity.Pool{Config: cfg}
	}
	cfg.Name = cmp.Or(cfg.Name, key) // a template has none
	if cfg.Mode != "" {
		k.oneOf(key+".mode", cfg.Mode, string(alerting.Advisory), string(alerting.Active))
	}
	pool, err := capacity.NewFrom(cfg, files)
	if err != nil {
		k.section(key, errors.New(strings.TrimPrefix(err.Error(), poolKey(cfg.Name)+".")))
		return capacity.Pool{Config: cfg}
	}
	c.checkLead(k, key, &pool)
	return pool
}

// file reads the file that a key names; nil if path is empty.
func (k *checker) file(key, path string, limit int64, fix string) (data []byte) {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, limit+1))
	}
	switch {
	case err != nil:
		k.fail(key, path, fmt.Sprintf("cannot be read (%v)", errors.Unwrap(err)), fix) // the message has the path already
	case int64(len(data)) > limit:
		k.fail(key, path, fmt.Sprintf("must be at most %d bytes", limit), fix)
	case len(bytes.TrimSpace(data)) == 0:
		k.fail(key, path, "must not be empty", fix)
	}
	return data
}

// checkLead checks that the forecast is longer than the warm-up. A replica ordered now is ready after the lead time,
// and must then be needed for the hold time. A removed replica can be back only after the lead time, and must not be
// needed until then, or during the cooldown after it.
func (c *Config) checkLead(k *checker, key string, pool *capacity.Pool) {
	const horizon = forecaster.Horizon * features.Minute
	key += ".warmup.p90"
	p90 := forecaster.LeadTime(&pool.Warmup) - features.Minute
	if limit := horizon - features.Minute - c.Decision.Hold; p90 > limit {
		k.fail(key, p90, fmt.Sprintf("must be at most %s: the forecast horizon %s less one tick and decision.hold %s", show(limit), show(horizon), show(c.Decision.Hold)),
			"shorten the warm-up (keep weights on local disk, pull images ahead) or decision.hold")
	} else if limit := horizon - features.Minute - p90; c.Decision.Cooldown > limit {
		at := "decision.cooldown"
		if k.source[at] == "" { // blame the key that the user set
			at = key
		}
		k.add(at, fmt.Sprintf("decision.cooldown = %s: must be at most %s: the forecast horizon %s less one tick and %s %s; "+
			"shorten it or the warm-up (keep weights on local disk, pull images ahead)", show(c.Decision.Cooldown), show(limit), show(horizon), key, show(p90)))
	}
}

// events returns the valid events of the calendar; k gets the errors of the others.
func (c *Config) events(k *checker, p *pipeline.Config) (all []forecaster.Event) {
	if len(c.Events) > forecaster.MaxEvents {
		k.fail("events", len(c.Events), fmt.Sprintf("must be at most %d", forecaster.MaxEvents), "remove what is over")
		return nil
	}
	for i := range c.Events {
		x, key := &c.Events[i], fmt.Sprintf("events[%d]", i)
		pool, known := p.Pool(x.Pool)
		e, err := forecaster.NewEvent(*x, pool.Zone)
		switch {
		case err != nil:
			k.section(key, err)
		case !known:
			k.fail(key+".pool", x.Pool, "must be one of the pools", "list the pool, or correct its name")
		default:
			all = append(all, e)
		}
	}
	return all
}
