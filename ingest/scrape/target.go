package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpclient"
)

type client struct {
	job  Job
	name string // of the job, for messages
	http *http.Client

	// Owned by the goroutine of Run.
	targets  map[string]*target // by address
	resolved []string           // addresses that the job's name last resolved to; nil before it did
	known    bool               // it had resolved before: an address that is new now was not there then
}

// newClient reads the files of a job's credentials. It follows no redirect: that leads to a login page, or elsewhere.
func newClient(j Job) (*client, error) {
	transport, err := j.Transport("scrape")
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return &client{job: j, http: &http.Client{Transport: transport, CheckRedirect: httpclient.NoRedirect}}, nil
}

// errUnavailable is the answer of an engine that is there, and is loading or busy.
var errUnavailable = errors.New("it answers 503")

func (c *client) ask(ctx context.Context, address string) (exposition, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.job.url(address), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4,*/*;q=0.1")
	request.Header.Set("User-Agent", "forewarm")
	response, err := c.http.Do(request)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // without the address, which the caller names
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return nil, errUnavailable
	default:
		return nil, fmt.Errorf("it answers %d; is the path %s right?", response.StatusCode, request.URL.Path)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxBodyBytes:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxBodyBytes)
	}
	return parse(body, response.Header.Get("Content-Type"))
}

// look asks a target, and reads reports on its replicas from the answer.
func (c *client) look(ctx context.Context, address string) (e exposition, reports []ingest.Replica, g *engine, err error) {
	if e, err = c.ask(ctx, address); err == nil {
		reports, g, err = e.replicas(address, cmp.Or(c.job.Engine, Auto))
	}
	return e, reports, g, err
}

// target is one address of a job, and what is known of it.
type target struct {
	client  *client
	address string

	mu        sync.Mutex // held while it is looked at
	names     []string   // of its replicas in the last reports
	elsewhere bool       // they are no part of the target, and may live when it fails; see engine.workers
	since     time.Time  // when it was last ready, or watching began: a process that began before is not a new one
	away      bool       // the last scrape, or the list of targets, showed that no engine serves there …
	down      bool       // … nor that a process is there
}

// target makes a target of the job that is watched since a time. With engine auto, a later scrape finds out whether its
// replicas are elsewhere.
func (c *client) target(address string, since time.Time) *target {
	elsewhere := slices.ContainsFunc(engines[:], func(e engine) bool { return e.workers && e.name == c.job.Engine })
	return &target{client: c, address: address, elsewhere: elsewhere, since: since}
}

// scrape asks the target once, and gives reports on its replicas.
func (t *target) scrape(ctx context.Context, now func() time.Time) ([]ingest.Replica, error) {
	e, reports, g, err := t.client.look(ctx, t.address)
	at := now().UTC()
	switch {
	case err == nil:
		if t.elsewhere = g.workers; !g.workers {
			t.date(reports, e.started(), at)
		}
		t.away, t.down, t.since = false, false, at
	case t.elsewhere:
		return nil, err
	case errors.Is(err, syscall.ECONNREFUSED): // nobody listens there
		t.away, t.down = true, true
	case errors.Is(err, errUnavailable):
		t.away = true
		if len(t.names) == 0 { // it was never ready
			t.names = []string{t.address}
		}
		for _, name := range t.names {
			reports = append(reports, unknown(name, ingest.ReplicaLoading))
		}
	default:
		return nil, err // the state of the replicas is unknown
	}
	return t.complete(reports, at), err
}

// end reports that the replicas of a target that is no longer listed are gone.
func (t *target) end(at time.Time) []ingest.Replica {
	if t.elsewhere {
		return nil
	}
	return t.complete(nil, at)
}

// complete adds pool and time to reports, and a report that a replica is gone for each one without a report.
func (t *target) complete(reports []ingest.Replica, at time.Time) []ingest.Replica {
	for _, name := range t.names {
		if !slices.ContainsFunc(reports, func(r ingest.Replica) bool { return r.Name == name }) {
			reports = append(reports, unknown(name, ingest.ReplicaGone))
		}
	}
	t.names = t.names[:0]
	for i := range reports {
		reports[i].Pool, reports[i].At = t.client.job.Pool, at
		if reports[i].State != ingest.ReplicaGone {
			t.names = append(t.names, reports[i].Name)
		}
	}
	return reports
}

// date sets when the process began and how long it took until it was ready: as the engine exposes it, else as observed.
// A start is dated only if the engine was away at the last scrape: otherwise it may have been ready for long. A busy
// engine may be away too. So the process must have begun after the engine was last ready, or not have been there at all.
func (t *target) date(reports []ingest.Replica, started, at time.Time) {
	fresh := t.away && started.After(t.since) && started.Before(at)
	for i := range reports {
		r := &reports[i]
		took := r.StartupSeconds
		r.StartedAt, r.StartupSeconds = started, math.NaN()
		switch {
		case fresh && math.IsNaN(took):
			r.StartupSeconds = at.Sub(started).Seconds()
		case fresh, t.down && started.IsZero() && took > 0:
			r.StartupSeconds = took
			if started.IsZero() {
				r.StartedAt = at.Add(-time.Duration(took * float64(time.Second)))
			}
		}
	}
}

// unknown is a replica of which nothing but its state is known.
func unknown(name string, state ingest.ReplicaState) ingest.Replica {
	return ingest.Replica{
		Name: name, State: state, KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown, KVUsedRatio: math.NaN(),
		Running: ingest.Unknown, Waiting: ingest.Unknown, PreemptionsTotal: ingest.Unknown,
		PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown, StartupSeconds: math.NaN(),
	}
}
