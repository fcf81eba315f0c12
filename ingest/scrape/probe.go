package scrape

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/url"
	"slices"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpclient"
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
	if err := new(httpclient.Config).Check(metrics); err != nil {
		return Probed{}, err
	}
	u, _ := url.Parse(metrics)
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
	ctx, cancel := context.WithTimeout(ctx, DefaultConfig().Timeout)
	defer cancel()
	var g *engine
	e, err := client.ask(ctx, address)
	if err == nil {
		seen.Replicas, g, err = e.replicas(address, Auto)
	}
	if err != nil {
		return Probed{}, fmt.Errorf("%s: %w", address, err)
	}
	seen.Engine = g.name
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
