package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/url"
	"slices"

	"github.com/forewarm/forewarm/ingest"
)

// Probed is what the engines at one URL expose.
type Probed struct {
	Job      Job              // that would scrape them; its pool is left to the caller
	Engine   string           // one of Engines
	Models   []string         // as the metrics name them, in order; empty where they do not
	Replicas []ingest.Replica // that answered
}

// Probe scrapes the engines at the URL of their metrics once. The default path is /metrics. The error says why no
// engine answered.
func Probe(ctx context.Context, metrics string) (Probed, error) {
	u, err := url.Parse(metrics)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return Probed{}, fmt.Errorf("%.100q is no URL of metrics; write one such as http://10.0.0.1:8000/metrics", metrics)
	case u.User != nil:
		return Probed{}, errors.New("the URL must not carry a password; name the engine without it, and set bearer_token_file in scrape.jobs")
	}
	if u.Path == "/" {
		u.Path = ""
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	address := net.JoinHostPort(u.Hostname(), port)
	seen := Probed{Job: Job{Scheme: u.Scheme, Path: u.Path, Targets: []string{address}}}
	client, err := newClient(seen.Job)
	if err != nil {
		return Probed{}, err
	}
	defer client.http.CloseIdleConnections()
	fail := func(err error) (Probed, error) { return Probed{}, fmt.Errorf("%s: %w", address, err) }
	ctx, cancel := context.WithTimeout(ctx, DefaultConfig().Timeout)
	defer cancel()
	e, err := client.ask(ctx, address)
	if err != nil {
		return fail(err)
	}
	replicas, g, err := e.replicas(address, Auto)
	if err != nil {
		return fail(err)
	}
	seen.Engine, seen.Replicas = g.name, replicas
	if seen.Models = e.models(slices.Values(g.anchors)); len(seen.Models) == 0 {
		seen.Models = e.models(maps.Keys(e))
	}
	return seen, nil
}

// models lists the models that labels of metrics name, each once, in order.
func (e exposition) models(metrics iter.Seq[string]) (models []string) {
	for name := range metrics {
		for _, x := range e[name] {
			if model := cmp.Or(x.labels.Get("model_name"), x.labels.Get("model")); model != "" {
				models = append(models, model)
			}
		}
	}
	slices.Sort(models)
	return slices.Compact(models)
}
