package pipeline

import (
	"slices"
	"sort"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// replicaRequests are the requests for replicas by decisions, until the replicas are ready.
type replicaRequests struct {
	Open    []time.Time `cbor:"1,keyasint,omitempty"` // times, one a replica, ascending, at most maxReplicaRequests
	Learned time.Time   `cbor:"2,keyasint,omitzero"`  // when a requested replica last became ready; to the second
}

const (
	// ackPrecedence is how long after an ack, or after a requested replica became ready, reported startup times are
	// ignored: acks and requests for replicas give the whole lag.
	ackPrecedence      = 24 * time.Hour
	maxReplicaRequests = 256
	// maxRequestAge is the age beyond which a request for a replica teaches no lag: perhaps no autoscaler obeyed it.
	maxRequestAge = time.Hour
)

// update follows a decision; before is the desired number of the previous one. An increase requests replicas, a
// decrease withdraws the newest requests. No more requests are open than replicas are missing.
func (a *replicaRequests) update(d *alerting.Decision, before int) {
	if d.Mode != alerting.Active || d.Stale {
		a.Open = nil
		return
	}
	open := slices.Clone(a.Open)
	if d.Desired < before {
		open = open[:max(0, len(open)-(before-d.Desired))]
	}
	for n := max(before, d.Ready); n < d.Desired && len(open) < maxReplicaRequests; n++ {
		open = append(open, d.Tick.UTC())
	}
	a.Open = open[max(0, len(open)-max(0, d.Desired-d.Ready)):]
}

// complete removes the request for a replica that became ready, and returns the lag; 0 if the request is too old or
// there is none. It is the newest request before the replica was pending, if that was reported (warmed > 0), else the
// oldest one. If the replica was pending, or its process started, before the request, somebody else started it.
func (a *replicaRequests) complete(r *ingest.Replica, warmed time.Duration) time.Duration {
	at := 0
	if warmed > 0 {
		pending := r.At.Add(-warmed)
		at = sort.Search(len(a.Open), func(i int) bool { return a.Open[i].After(pending) }) - 1
	}
	if at < 0 || len(a.Open) == 0 || !r.StartedAt.IsZero() && r.StartedAt.Before(a.Open[at]) {
		return 0
	}
	lag := r.At.Sub(a.Open[at])
	a.Open = slices.Delete(slices.Clone(a.Open), at, at+1)
	if lag > maxRequestAge {
		return 0
	}
	a.Learned = r.At.UTC().Truncate(time.Second)
	return lag
}

// learnWarmup learns the warm-up lag from a replica's reports: from the request to its first ready report. If no
// autoscaler is known to obey decisions, the lag is the pending time. The startup time of the process is only a part of
// the lag: it counts if requests for replicas teach nothing, and if it is more than the median lag.
func (e *poolEntry) learnWarmup(r *ingest.Replica, life features.ReplicaLife, mode alerting.Mode) {
	var lag time.Duration
	if life.New {
		lag = e.ReplicaRequests.complete(r, life.Warmed)
	}
	if !e.LastReadyAck.IsZero() && r.At.Sub(e.LastReadyAck) < ackPrecedence {
		return
	}
	if mode != alerting.Active && life.Warmed > 0 {
		lag = life.Warmed
	}
	if lag > 0 {
		e.Warmup.Observe(lag)
		return
	}
	if !life.Started || !e.ReplicaRequests.Learned.IsZero() && r.At.Sub(e.ReplicaRequests.Learned) < ackPrecedence {
		return
	}
	if took := time.Duration(r.StartupSeconds * float64(time.Second)); took > e.Warmup.Quantile(0.5) {
		e.Warmup.Observe(took)
	}
}

// pendingAges is how long ago each pending replica was requested: by the oldest open requests, else its first report.
func pendingAges(t time.Time, s *features.PoolState, asked []time.Time) []time.Duration {
	if !s.Observed {
		return nil
	}
	var ages []time.Duration
	for i, since := range s.PendingSince {
		if i < len(asked) && asked[i].Before(since) && t.Sub(asked[i]) <= maxRequestAge {
			since = asked[i]
		}
		ages = append(ages, t.Sub(since))
	}
	return ages
}

// issue is a published generation of decisions, and when its replicas were first requested; zero if it asks for none.
type issue struct {
	Generation int64     `cbor:"1,keyasint"`
	At         time.Time `cbor:"2,keyasint"`
}

const maxIssues = 64

// recordIssue notes when a decision requested replicas, for the acks of its generation.
func (e *poolEntry) recordIssue(d *alerting.Decision) {
	at := d.Tick
	switch {
	case !d.Publish:
		return
	case d.Action == alerting.ScaleIn || d.Action == alerting.Hold && d.Desired <= d.Ready:
		at = time.Time{} // no ack can give a lag
	case !d.AskedAt.IsZero():
		at = d.AskedAt // a renewal requests nothing new, nor does a hold with pending replicas
	}
	e.Issued = append(e.Issued[max(0, len(e.Issued)+1-maxIssues):], issue{d.Generation, at})
}

func (e *poolEntry) issuedAt(generation int64) (time.Time, bool) {
	for _, x := range e.Issued {
		if x.Generation == generation {
			return x.At, true
		}
	}
	return time.Time{}, false
}
