package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest/scrape"
	"github.com/forewarm/forewarm/internal/value"
)

// initConfig writes a first configuration, from the metrics of the given engines.
func initConfig(f *flag.FlagSet) action {
	var urls []string
	f.Func("metrics", "`URL` of an engine's metrics (vLLM, SGLang, TensorRT-LLM, Dynamo …), such as http://10.0.0.1:8000/metrics; may be repeated", func(s string) error {
		urls = append(urls, s)
		return nil
	})
	pool := f.String("pool", "chat", "`name` of the pool, as its telemetry will carry it")
	path := f.String("o", "forewarm.yaml", "`file` to write, - for the standard output")
	force := f.Bool("force", false, "replace a file that exists")
	return func(ctx context.Context, _ []string, std streams) error {
		if !poolName.MatchString(*pool) {
			return usagef("-pool is %q: use letters, digits, - and _", *pool)
		}
		first := firstConfig{pool: *pool}
		for _, url := range urls {
			seen, err := scrape.Probe(ctx, url)
			if err != nil {
				return fmt.Errorf("-metrics: %w", err)
			}
			first.add(url, &seen)
		}
		if first.replicas == 1 {
			first.notes = append(first.notes, "one replica answered. Behind a load balancer there may be more: give -metrics for each, or set dns to the name of a headless service")
		}
		if kv := first.kv; len(kv) > 0 && slices.Min(kv) < slices.Max(kv) {
			first.notes = append(first.notes, fmt.Sprintf("replicas hold from %d to %d tokens: the fewest are written, and what each reports is used", slices.Min(kv), slices.Max(kv)))
		}
		text := first.text()
		if _, err := config.Parse(*path, text, func(string) string { return "" }); err != nil {
			return usageError{err}
		}
		if *path == "-" {
			_, err := std.out.Write(text)
			return err
		}
		if err := writeNew(*path, text, *force); err != nil {
			return err
		}
		_, _ = std.err.Write(text)
		for _, note := range first.notes {
			fmt.Fprintln(std.err, "note:", note)
		}
		fmt.Fprintf(std.err, "wrote %s; check what was guessed, then run: forewarm check -config %[1]s\n", *path)
		return nil
	}
}

// poolName needs no quotes in YAML, and is one token of a NATS subject.
var poolName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// writeNew writes a new file; with force it may replace one.
func writeNew(path string, text []byte, force bool) (err error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !force {
		flags |= os.O_EXCL
	}
	file, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s exists: name another file with -o, or replace it with -force", path)
	} else if err != nil {
		return usageError{err}
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// firstConfig is the data for a first configuration.
type firstConfig struct {
	pool     string
	replicas int
	kv       []int64 // tokens per replica, if its metrics have it
	source   []string
	jobs     []string
	notes    []string
}

// add adds the data of the engines at a URL.
func (c *firstConfig) add(url string, seen *scrape.Probed) {
	c.replicas += len(seen.Replicas)
	for i := range seen.Replicas {
		if kv := seen.Replicas[i].KVCapacityTokens; kv > 0 {
			c.kv = append(c.kv, kv)
		}
	}
	model := "a model without a name"
	if len(seen.Models) > 0 {
		model = fmt.Sprintf("%.200q", strings.Join(seen.Models, ", ")) // any text is possible, and it goes into a comment
	}
	c.source = append(c.source, fmt.Sprintf("%s serves %s on %s at %s", seen.Engine, model, value.Count(len(seen.Replicas), "replica"), url))
	job := "{pool: " + c.pool + ", targets: [" + strconv.Quote(seen.Job.Targets[0]) + "]"
	if seen.Job.Scheme == "https" {
		job += ", scheme: https"
	}
	if seen.Job.Path != "" && seen.Job.Path != "/metrics" {
		job += ", path: " + strconv.Quote(seen.Job.Path)
	}
	c.jobs = append(c.jobs, job+"}")
}

// text is the configuration. Comments say what was read and what was guessed. Settings that are off, or that the user
// must fill in, are commented out.
func (c *firstConfig) text() []byte {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(yaml, why string) { fmt.Fprintf(t, "%s\t# %s\n", yaml, why) }
	fmt.Fprintln(t, "# A first configuration, written by forewarm init. docs/configuration.md lists all keys.")
	for _, s := range c.source {
		fmt.Fprintln(t, "# read: "+s)
	}
	fmt.Fprintln(t, "pools:")
	line("  - name: "+c.pool, "guessed: the pool's name in the subject of its telemetry")
	if len(c.kv) > 0 {
		line("    kv_capacity_tokens: "+strconv.FormatInt(slices.Min(c.kv), 10), "read: tokens in the KV cache of one replica")
	} else {
		line("    #kv_capacity_tokens: 430000", `tokens in the KV cache of one replica; vLLM logs "GPU KV cache size"`)
	}
	if c.replicas > 0 {
		line(fmt.Sprintf("    replicas: {max: %d}", 2*c.replicas), "guessed: the most replicas there may be, twice those that answered")
	} else {
		line("    replicas: {max: 8}", "guessed: the most replicas there may be")
	}
	line("    warmup: {p50: 6m, p90: 12m}", "guessed: from asking for a replica to its first request, median and 90th percentile")
	if len(c.jobs) > 0 {
		line("scrape:", "state, queue and KV cache of each replica")
		fmt.Fprintln(t, "  jobs: ["+strings.Join(c.jobs, ", ")+"]")
	} else {
		line(`#scrape: {jobs: [{pool: `+c.pool+`, targets: ["10.0.0.1:8000"]}]}`, "state, queue and KV cache, from engines' /metrics")
	}
	line("decision: {mode: advisory}", "guessed: says what it would do; with active, autoscalers may obey")
	line("#nats: {url: nats://nats:4222}", "left out, forewarm runs a NATS server on 127.0.0.1:4222")
	line("#keda: {listen: 127.0.0.1:9465}", "for KEDA; its fallback decides until the pool is known: deploy/keda")
	_ = t.Flush() // a strings.Builder returns no error
	return []byte(b.String())
}
