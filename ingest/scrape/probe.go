package scrape

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"

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
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return Job{Scheme: u.Scheme, Path: u.Path, Targets: []string{net.JoinHostPort(u.Hostname(), port)}}, nil
}

// Probe scrapes the engines at an address of a job once. The error says why no engine answered.
func Probe(ctx context.Context, j Job, address string) (Probed, error) {
	client, err := newClient(j)
	if err != nil {
		return Probed{}, err
	}
	defer client.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	seen := Probed{URL: j.url(address)}
	e, replicas, g, err := client.look(ctx, address)
	if err != nil {
		return Probed{}, fmt.Errorf("%s: %w", seen.URL, err)
	}
	seen.Replicas, seen.Engine = replicas, g.name
	for _, samples := range e {
		for _, x := range samples {
			if model := cmp.Or(x.labels.Get("model_name"), x.labels.Get("model")); model != "" {
				seen.Models = append(seen.Models, model)
			}
		}
	}
	slices.Sort(seen.Models)
	seen.Models = slices.Compact(seen.Models)
	return seen, nil
}
