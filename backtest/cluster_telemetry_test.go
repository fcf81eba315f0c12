package backtest

import (
	"math"
	"strconv"

	"github.com/forewarm/forewarm/ingest"
)

// Drain returns the telemetry since the last call, as a real pool and its gateway would report it: one record per
// attempt at its end and, with ReportArrivals, at its arrival; a report of each replica at each full minute. The caller
// owns the slices.
func (c *Cluster) Drain() (requests []ingest.Request, replicas []ingest.Replica) {
	requests, replicas = c.requests, c.states
	c.requests, c.states = nil, nil
	return requests, replicas
}

// finish ends a request successfully.
func (c *Cluster) finish(q *call) {
	q.over = true
	c.metrics.Finished++
	c.report(q, ingest.PhaseFinished)
}

// report writes a record of an attempt, at its arrival or its end.
func (c *Cluster) report(q *call, phase ingest.Phase) {
	record := ingest.Request{
		ID: strconv.FormatUint(q.ID, 10), Pool: c.cfg.Pool, Class: q.Class, Tenant: q.Tenant, Session: q.Session, Attempt: q.attempt,
		Phase: phase, ArrivedAt: c.clock(q.arrived),
		PromptTokens: q.PromptTokens, CachedTokens: q.CachedTokens, OutputTokens: q.OutputTokens, MaxOutputTokens: q.MaxOutputTokens,
	}
	if phase != ingest.PhaseArrived {
		record.FinishedAt = c.clock(c.now)
	}
	switch phase {
	case ingest.PhaseRejected:
		record.Status = ingest.StatusRejected
	case ingest.PhaseCancelled:
		record.Status = ingest.StatusCancelled
	}
	switch started := !math.IsNaN(q.started); {
	case phase == ingest.PhaseArrived || !started:
		record.CachedTokens, record.OutputTokens = ingest.Unknown, ingest.Unknown
	case phase == ingest.PhaseCancelled:
		record.OutputTokens = int64(q.generated)
		fallthrough
	default:
		record.StartedAt = c.clock(q.started)
		if !math.IsNaN(q.token) {
			record.FirstTokenAt = c.clock(q.token)
		}
	}
	c.requests = append(c.requests, record)
}

// observe writes the report of the replica at a place. Each replica reports an equal part of the common queue; the
// first ones report the remainder.
func (c *Cluster) observe(r *replica, place int) {
	r.sync(c.now)
	c.states = append(c.states, ingest.Replica{
		Pool: c.cfg.Pool, Name: r.name, At: c.Now(), State: ingest.ReplicaReady,
		KVCapacityTokens: c.cfg.KVCapacityTokens, KVUsedTokens: int64(r.kv), KVUsedRatio: min(1, r.kv/float64(c.cfg.KVCapacityTokens)),
		Running: int64(r.running()), Waiting: int64((c.waiting() + len(c.replicas) - 1 - place) / len(c.replicas)),
		PreemptionsTotal: r.preemptions, PrefixHitsTotal: r.hits, PrefixQueryTotal: r.queries,
	})
}

func (c *Cluster) waiting() int { return len(c.queue) + len(c.preempted) }

// Metrics is the result of a run. A user's request counts once for all its attempts.
type Metrics struct {
	Requests    int64 // of users
	Finished    int64
	Failed      int64 // never served
	Retries     int64
	Rejected    int64 // attempts
	Cancelled   int64 // attempts, by clients after Patience
	Preemptions int64
}

// Metrics returns the counts so far.
func (c *Cluster) Metrics() Metrics { return c.metrics }
