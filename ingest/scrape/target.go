package scrape

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// target is one address of a job, and what is known of it.
type target struct {
	client  *client
	address string

	mu        sync.Mutex // held while it is looked at
	names     []string   // replicas that it told of last
	elsewhere bool       // they are no part of the target: what befalls it says nothing of them
	since     time.Time  // a process that began before was not watched from its beginning
	away      bool       // the last look, or the list of targets, said that no engine serves there …
	down      bool       // … nor that a process is there
	ready     time.Time  // when one last did

	trouble string // why the last look failed, "" when it did not
}

// look asks the target once, and gives what is to be said of its replicas at that time.
func (t *target) look(ctx context.Context, now func() time.Time) ([]ingest.Replica, error) {
	e, err := t.client.ask(ctx, t.address)
	var said []ingest.Replica
	var elsewhere bool
	if err == nil {
		said, elsewhere, err = e.replicas(t.address, t.client.job.Engine)
	}
	at := now().UTC()
	switch reason := reasonOf(err); {
	case err == nil:
		if t.elsewhere = elsewhere; !elsewhere {
			t.date(said, e.started(), at)
		}
		t.away, t.down, t.ready = false, false, at
	case t.elsewhere:
		return nil, err
	case reason == reasonRefused:
		t.away, t.down = true, true
	case reason == reasonUnavailable:
		t.away = true
		for _, name := range t.known() {
			said = append(said, unknown(name, ingest.ReplicaLoading))
		}
	default:
		return nil, err // says nothing of the replicas
	}
	return t.tell(said, at), err
}

// known is what the target's replicas are called: its address before they were seen, unless they are elsewhere.
func (t *target) known() []string {
	if len(t.names) > 0 || t.client.job.Engine == dynamo.name {
		return t.names
	}
	return []string{t.address}
}

// end says that the target is listed no more, and so are its replicas.
func (t *target) end(at time.Time) []ingest.Replica {
	if t.elsewhere {
		return nil
	}
	return t.tell(nil, at)
}

// tell completes what is said at a time, and adds that those are gone of whom it is said no more.
func (t *target) tell(said []ingest.Replica, at time.Time) []ingest.Replica {
	names := make(map[string]bool, len(said))
	for i := range said {
		names[said[i].Name] = true
	}
	for _, name := range t.names {
		if !names[name] {
			said = append(said, unknown(name, ingest.ReplicaGone))
		}
	}
	t.names = t.names[:0]
	for i := range said {
		said[i].Pool, said[i].At = t.client.job.Pool, at
		if said[i].State != ingest.ReplicaGone {
			t.names = append(t.names, said[i].Name)
		}
	}
	return said
}

// date sets when the process began and how long it took until it was ready: as the engine says, else as it was watched.
// A start is only dated when the engine was away at the last look, for else it may be ready for long. As a busy engine
// may be away too, its process must have begun while it was watched and not ready, or not have been there at all.
func (t *target) date(said []ingest.Replica, started, at time.Time) {
	fresh := t.away && started.After(t.since) && started.After(t.ready) && started.Before(at)
	for i := range said {
		r := &said[i]
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
