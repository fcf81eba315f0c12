package scrape

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

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

	lastFailure string // the reason, "" when the last scrape succeeded
}

// target makes a target of the job that is watched since a time. With engine auto, a later scrape finds out whether its
// replicas are elsewhere.
func (c *client) target(address string, since time.Time) *target {
	elsewhere := slices.ContainsFunc(engines[:], func(e engine) bool { return e.workers && e.name == c.job.Engine })
	return &target{client: c, address: address, elsewhere: elsewhere, since: since}
}

// scrape asks the target once, and gives reports on its replicas.
func (t *target) scrape(ctx context.Context, now func() time.Time) ([]ingest.Replica, error) {
	e, err := t.client.ask(ctx, t.address)
	var reports []ingest.Replica
	var elsewhere bool
	if err == nil {
		reports, elsewhere, err = e.replicas(t.address, t.client.job.Engine)
	}
	at := now().UTC()
	switch reason := reasonOf(err); {
	case err == nil:
		if t.elsewhere = elsewhere; !elsewhere {
			t.date(reports, e.started(), at)
		}
		t.away, t.down, t.since = false, false, at
	case t.elsewhere:
		return nil, err
	case reason == reasonRefused:
		t.away, t.down = true, true
	case reason == reasonUnavailable:
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
	names := make(map[string]bool, len(reports))
	for i := range reports {
		names[reports[i].Name] = true
	}
	for _, name := range t.names {
		if !names[name] {
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
