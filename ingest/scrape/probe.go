package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	Silent   error            // addresses of the host that did not; nil when all did
}

// Probe scrapes the engines at the URL of their metrics once: each address of its host. The default path is /metrics. The
// error tells why no engine answered.
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
	seen, addresses := Probed{Job: Job{Scheme: u.Scheme, Path: u.Path}}, []string{address}
	if hosts := several(ctx, u.Hostname()); hosts != nil {
		seen.Job.DNS, addresses = address, addresses[:0]
		for _, host := range hosts {
			addresses = append(addresses, net.JoinHostPort(host, port))
		}
		if u.Scheme == "https" {
			seen.Job.TLS.ServerName = u.Hostname()
		}
	} else {
		seen.Job.Targets = addresses
	}
	client, err := newClient(seen.Job)
	if err != nil {
		return Probed{}, err
	}
	defer client.http.CloseIdleConnections()
	var silent []error
	for _, address := range addresses {
		if err := seen.ask(ctx, client, address); err != nil {
			silent = append(silent, fmt.Errorf("%s: %w", address, err))
		}
	}
	if len(seen.Replicas) == 0 {
		return Probed{}, errors.Join(silent...)
	}
	slices.Sort(seen.Models)
	seen.Models, seen.Silent = slices.Compact(seen.Models), errors.Join(silent...)
	return seen, nil
}

// ask adds the engines at one address.
func (s *Probed) ask(ctx context.Context, c *client, address string) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultConfig().Timeout)
	defer cancel()
	e, err := c.ask(ctx, address)
	if err != nil {
		return err
	}
	replicas, _, err := e.replicas(address, Auto)
	if err != nil {
		return err
	}
	s.Replicas = append(s.Replicas, replicas...)
	var own []sample // that only the engine has
	for i := range engines {
		if len(e.ranks(&engines[i])) == 0 {
			continue
		}
		s.Engine = cmp.Or(s.Engine, engines[i].name)
		for _, name := range engines[i].anchors {
			own = append(own, e[name]...)
		}
	}
	models := modelsOf(own)
	if len(models) == 0 {
		models = modelsOf(slices.Concat(slices.Collect(maps.Values(e))...))
	}
	s.Models = append(s.Models, models...)
	return nil
}

func modelsOf(samples []sample) (models []string) {
	for _, x := range samples {
		if model := cmp.Or(x.labels.Get("model_name"), x.labels.Get("model")); model != "" {
			models = append(models, model)
		}
	}
	return models
}

// several gives the addresses of a name with more than one machine, nil for other names. One IPv4 and one IPv6 address are
// one machine.
func several(ctx context.Context, host string) (hosts []string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for _, network := range []string{"ip4", "ip6"} {
		found, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
		if err != nil || len(found) < 2 {
			continue
		}
		for _, ip := range found {
			hosts = append(hosts, ip.Unmap().String())
		}
		return hosts
	}
	return nil
}
