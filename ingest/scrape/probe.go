package scrape

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpclient"
)

// Probed is what the engines at one URL expose.
type Probed struct {
	Job      Job              // that scrapes them
	URL      string           // of the metrics
	Engine   string           // one of Engines
	Replicas []ingest.Replica // that answered
}

// Probe scrapes the engines at the URL of their metrics once. The default path is /metrics. The error says why no
// engine answered.
func Probe(ctx context.Context, metrics string) (Probed, error) {
	if err := new(httpclient.Config).Check(metrics); err != nil {
		return Probed{}, err
	}
	u, _ := url.Parse(metrics)
	address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
	if u.Path == "/" {
		u.Path = ""
	}
	seen := Probed{Job: Job{Scheme: u.Scheme, Path: u.Path, Targets: []string{address}}}
	seen.URL = seen.Job.url(address)
	client, err := newClient(seen.Job)
	if err != nil {
		return Probed{}, err
	}
	defer client.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	_, replicas, g, err := client.look(ctx, address)
	if err != nil {
		return Probed{}, fmt.Errorf("%s: %w", seen.URL, err)
	}
	seen.Replicas, seen.Engine = replicas, g.name
	return seen, nil
}
