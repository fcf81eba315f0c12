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

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpclient"
)

// Probed is what the engines at one URL expose.
type Probed struct {
	URL      string           // of the metrics
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
	seen.URL = client.job.url(address)
	defer client.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, DefaultConfig().Timeout)
	defer cancel()
	e, replicas, g, err := client.look(ctx, address)
	if err != nil {
		return Probed{}, fmt.Errorf("%s: %w", seen.URL, withoutURL(err))
	}
	seen.Replicas, seen.Engine = replicas, g.name
	if seen.Models = e.models(slices.Values(g.anchors)); len(seen.Models) == 0 {
		seen.Models = e.models(maps.Keys(e))
	}
	return seen, nil
}

// withoutURL is an error of a request without the method and URL.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// Answer is what a target of a job answers.
type Answer struct {
	Pool, URL string
	Replicas  int   // that it reports
	Err       error // why it reports none
	Away      bool  // nothing serves there: the engine may be off
}

// maxAnswers bounds the targets that [ProbeJobs] asks.
const maxAnswers = 256

// ProbeJobs scrapes the targets of all jobs once. The error names a key.
func ProbeJobs(ctx context.Context, c Config) ([]Answer, error) {
	s, err := New(c, Deps{Log: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	targets := s.find(ctx)
	answers := make([]Answer, min(len(targets), maxAnswers))
	var group errgroup.Group
	group.SetLimit(maxScrapes)
	for i := range answers {
		group.Go(func() error {
			t := targets[i]
			ctx, cancel := context.WithTimeout(ctx, c.Timeout)
			defer cancel()
			_, replicas, _, err := t.client.look(ctx, t.address)
			answers[i] = Answer{t.client.job.Pool, t.client.job.url(t.address), len(replicas), nil, false}
			if err != nil {
				answers[i].Err, answers[i].Away = withoutURL(err), slices.Contains([]string{reasonRefused, reasonTimeout, reasonUnavailable}, reasonOf(err))
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in the answers
	for _, client := range s.clients {
		client.http.CloseIdleConnections()
		if len(client.targets) == 0 {
			answers = append(answers, Answer{client.job.Pool, client.job.url(client.job.DNS), 0, errors.New("the name has no address"), true})
		}
	}
	return answers, nil
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
