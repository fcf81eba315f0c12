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
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpclient"
)

// Probed is what the engines at one URL expose.
type Probed struct {
	URL      string           // of the metrics
	Engine   string           // one of Engines
	Models   []string         // as the metrics name them, in order; empty where they do not
	Replicas []ingest.Replica // that answered
}

// JobAt is the job that scrapes the engines at the URL of their metrics. The default path is /metrics.
func JobAt(metrics string) (Job, error) {
	if err := new(httpclient.Config).Check(metrics); err != nil {
		return Job{}, err
	}
	u, _ := url.Parse(metrics)
	if u.Path == "/" {
		u.Path = ""
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return Job{Scheme: u.Scheme, Path: u.Path, Targets: []string{net.JoinHostPort(u.Hostname(), port)}}, nil
}

// Probe scrapes the engines at an address of a job once. The error says why no engine answered.
func Probe(ctx context.Context, j Job, address string, timeout time.Duration) (Probed, error) {
	client, err := newClient(j)
	if err != nil {
		return Probed{}, err
	}
	defer client.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seen := Probed{URL: j.url(address)}
	e, replicas, g, err := client.look(ctx, address)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the URL
	}
	if err != nil {
		return Probed{}, fmt.Errorf("%s: %w", seen.URL, err)
	}
	seen.Replicas, seen.Engine = replicas, g.name
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
