package main

import (
	"bytes"
	"cmp"
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
	"text/template"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest/scrape"
	"github.com/forewarm/forewarm/internal/value"
)

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
		c := firstConfig{Pool: *pool}
		for _, url := range urls {
			seen, err := scrape.Probe(ctx, url)
			if err != nil {
				return fmt.Errorf("-metrics: %w; correct the address, or leave -metrics out for a file to fill in", err)
			}
			c.add(&seen)
		}
		if c.Replicas == 1 {
			c.notes = append(c.notes, "one replica answered. Behind a load balancer there may be more: give -metrics for each, or set dns to the name of a headless service")
		}
		if kv := c.KV; len(kv) > 0 && slices.Min(kv) < slices.Max(kv) {
			c.notes = append(c.notes, fmt.Sprintf("replicas hold from %d to %d tokens: the fewest are written, and what each reports is used", slices.Min(kv), slices.Max(kv)))
		}
		var b bytes.Buffer
		aligned := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		if err := errors.Join(first.Execute(aligned, &c), aligned.Flush()); err != nil {
			return err
		}
		text := b.Bytes()
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
		for _, note := range c.notes {
			fmt.Fprintln(std.err, "note:", note)
		}
		fmt.Fprintf(std.err, "wrote %s; check what was guessed, then run: forewarm check -config %[1]s\n", *path)
		return nil
	}
}

// poolName needs no quotes in YAML, and is one token of a NATS subject.
var poolName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

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

type firstConfig struct {
	Pool     string
	Replicas int
	KV       []int64 // tokens per replica, if its metrics have it
	Sources  []string
	Jobs     []string
	notes    []string
}

func (c *firstConfig) add(seen *scrape.Probed) {
	c.Replicas += len(seen.Replicas)
	for i := range seen.Replicas {
		if kv := seen.Replicas[i].KVCapacityTokens; kv > 0 {
			c.KV = append(c.KV, kv)
		}
	}
	c.Sources = append(c.Sources, fmt.Sprintf("%s with %s at %s", seen.Engine, value.Count(len(seen.Replicas), "replica"), seen.URL))
	at := &seen.Job
	job := "{pool: " + c.Pool + ", targets: [" + strconv.Quote(at.Targets[0]) + "]"
	if at.Scheme == "https" {
		job += ", scheme: https"
	}
	if at.Path != "" && at.Path != "/metrics" {
		job += ", path: " + strconv.Quote(at.Path)
	}
	c.Jobs = append(c.Jobs, job+"}")
}

// first is the configuration. Comments say what was read and what was guessed. Settings that are off, or that the user
// must fill in, are commented out. A tab aligns a comment.
var first = template.Must(template.New("").Funcs(template.FuncMap{"least": slices.Min[[]int64], "join": strings.Join}).Parse(
	`# A first configuration, written by forewarm init. docs/configuration.md lists all keys.
{{range .Sources}}# read: {{.}}
{{end}}pools:
  - name: {{.Pool}}	# guessed: the pool's name in the subject of its telemetry
{{if .KV}}    kv_capacity_tokens: {{least .KV}}	# read: tokens in the KV cache of one replica
{{else}}    #kv_capacity_tokens: 430000	# tokens in the KV cache of one replica; vLLM logs "GPU KV cache size"
{{end}}    replicas: {max: {{.MaxReplicas}}}	# guessed: the most replicas there may be{{if .Replicas}}, twice those that answered{{end}}
    warmup: {p50: 6m, p90: 12m}	# guessed: from asking for a replica to its first request, median and 90th percentile
{{if .Jobs}}scrape:	# state, queue and KV cache of each replica
  jobs: [{{join .Jobs ", "}}]
{{else}}#scrape: {jobs: [{pool: {{.Pool}}, targets: ["10.0.0.1:8000"]}]}	# state, queue and KV cache, from engines' /metrics
{{end}}decision: {mode: advisory}	# guessed: says what it would do; with active, autoscalers may obey
#nats: {url: nats://nats:4222}	# left out, forewarm runs a NATS server on 127.0.0.1:4222
#keda: {listen: 127.0.0.1:9465}	# for KEDA; its fallback decides until the pool is known: deploy/keda
`))

// MaxReplicas is the guess of replicas.max.
func (c *firstConfig) MaxReplicas() int { return cmp.Or(2*c.Replicas, 8) }
