package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// describedPool returns the pool from the configuration or the flags, and the number of requests that may wait per
// replica.
func (p *planFlags) describedPool(given map[string]bool) (capacity.Pool, float64, error) {
	if p.config != "" {
		return p.configured(given)
	}
	c := p.model
	c.Name = p.pool
	if c.Name == "" {
		c.Name = "pool"
	}
	switch ranks := c.GPU.Pipeline * c.GPU.Data; {
	case c.GPU.PerReplica == 0:
		c.GPU.PerReplica = ranks
	case c.GPU.PerReplica < 0: // -tp
		c.GPU.PerReplica *= -ranks
	}
	if strings.ContainsAny(c.GPU.Type, "iB") && c.GPU.Type != "" {
		if _, err := capacity.ParseSize(c.GPU.Type); err == nil {
			c.GPU.Memory, c.GPU.Type = c.GPU.Type, ""
		}
	}
	if c.Replicas.Max == 0 {
		c.Replicas.Max = 4 * max(p.replicas, 1)
	}
	c.Replicas.Max = max(c.Replicas.Max, c.Reserves.Failure, 1)
	if p.prefill > 0 {
		c.Disaggregated.PrefillReplicas = capacity.Replicas{Initial: p.prefill, Max: max(4*p.prefill, c.Reserves.Failure)}
	}
	if c.ContextTokens == 0 && given["requests-per-s"] {
		c.ContextTokens = int(p.stated.class.PromptP50 + p.stated.class.OutputP50)
	}
	var files capacity.Files
	for _, file := range []struct {
		flag, path string
		limit      int64
		into       *[]byte
	}{{"model", c.ModelConfig, 1 << 20, &files.Model}, {"curve", c.CurveFile, 64 << 20, &files.Curve}} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.into, err = readSmall(file.path, file.limit); err != nil {
			return capacity.Pool{}, 0, usagef("-%s %s cannot be read: %w", file.flag, file.path, err)
		}
	}
	pool, err := capacity.NewFrom(c, files)
	if err != nil {
		return capacity.Pool{}, 0, usageError{p.flagged(err)}
	}
	return pool, p.waiting, nil
}

// Errors about the flags begin with the pool or the class, and name keys.
var (
	beginning = regexp.MustCompile(`^(?:pools\[[^\]]*\]\.|class "[^"]*": )`)
	keys      = regexp.MustCompile(`^[a-z]+:|[a-z]+[0-9]*(?:[._][a-z]+[0-9]*)+`)
)

// renamed maps keys to flags with other names.
var renamed = map[string]string{
	"gpu.type": "gpu", "gpu.memory": "gpu", "gpu.per_replica": "gpus", "model_config": "model", "curve_file": "curve", "reserves.failure": "reserve", "replicas.max": "max-replicas",
	"limits.requests_per_min": "limit-requests-per-min", "limits.tokens_per_min": "limit-tokens-per-min", "disaggregated.prefill_replicas.max": "prefill-replicas", "name:": "pool",
}

// flagged replaces key names in an error by flag names.
func (p *planFlags) flagged(err error) error {
	return errors.New(keys.ReplaceAllStringFunc(beginning.ReplaceAllString(err.Error(), ""), func(key string) string {
		name := cmp.Or(renamed[key], strings.NewReplacer(".", "-", "_", "-").Replace(strings.TrimPrefix(key, "gpu.")))
		if p.flags.Lookup(strings.TrimSuffix(name, ":")) == nil {
			return key
		}
		return "-" + name
	}))
}

func (p *planFlags) configured(given map[string]bool) (capacity.Pool, float64, error) {
	cfg, err := config.Load(p.config)
	if err != nil {
		return capacity.Pool{}, 0, usageError{err}
	}
	pc, err := cfg.Pipeline()
	if err != nil {
		return capacity.Pool{}, 0, usageError{err}
	}
	waiting := pc.Decision.WaitingPerReplica
	if given["waiting-per-replica"] {
		waiting = p.waiting
	}
	pool, err := choosePool(&pc, p.config, p.pool)
	if err != nil {
		return capacity.Pool{}, 0, err
	}
	if p.prefill > 0 && !pool.Disaggregated {
		return *pool, 0, usagef("-prefill-replicas: pool %q of %s has no replicas of that role: set its disaggregated.prefill_replicas.max, or leave the flag out", pool.Name, p.config)
	}
	return *pool, waiting, nil
}

// readSmall reads a file up to a size in bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

// readContexts reads the lengths of requests in -contexts.
func (p *planFlags) readContexts(c *plan.Contexts) error {
	if p.contexts != "" {
		parts := strings.Split(p.contexts, ",")
		if len(parts) != 3 {
			return usagef("-contexts is %q: it must be three numbers, such as 2000,8000,32000", p.contexts)
		}
		for i, into := range []*float64{&c.P50, &c.P95, &c.Longest} {
			v, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 64)
			if err != nil || !(v > 0 && v < 1e9) {
				return usagef("-contexts has %q: it must be a number of tokens", parts[i])
			}
			*into = v
		}
	}
	return nil
}

// printMemory prints the model's memory per replica, if there is no traffic to plan for.
func (p *planFlags) printMemory(pool capacity.Pool, std streams) error {
	if pool.Fit == nil {
		return usagef("no traffic is given, and no model and GPU whose memory could be counted: add -trace, -requests-per-s, -demand, -from or -data")
	}
	var lengths plan.Contexts
	if err := p.readContexts(&lengths); err != nil {
		return err
	}
	m := plan.MemoryOf(pool.Fit, lengths)
	switch p.format {
	case "json":
		return writeTo(p.out, std.out, func(w io.Writer) error { return plan.WriteMemoryJSON(w, m) })
	case "html":
		return usagef("-format html is for launch sheets: give traffic, or -format md or json")
	}
	return writeTo(p.out, std.out, func(w io.Writer) error { return plan.WriteMemoryMarkdown(w, m) })
}
