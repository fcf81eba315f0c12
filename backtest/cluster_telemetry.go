package backtest

import (
	"math"
	"strconv"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/value"
)

// maxTelemetry bounds the records until Drain; more are dropped and counted.
const maxTelemetry = 1 << 20

// Drain returns the telemetry since the last call, as a real pool and its gateway would report it: one record per
// attempt at its end and, with ReportArrivals, at its arrival; a report of each replica at each full minute and at each
// change of its state. The caller owns the slices.
func (c *Cluster) Drain() (requests []ingest.Request, replicas []ingest.Replica) {
	requests, replicas = c.requests, c.states
	c.requests, c.states = nil, nil
	return requests, replicas
}

// finish ends a request successfully.
func (c *Cluster) finish(q *call) {
	q.over = true
	c.metrics.Finished++
	slo := &c.cfg.SLO
	idle := float64(q.PromptTokens-q.CachedTokens) / c.cfg.PrefillTokensPerS
	prompt := q.token-q.first <= slo.TTFT.Seconds()+slo.TTFTStretch*idle
	steady := q.OutputTokens < 2 || (c.now-q.token)/float64(q.OutputTokens-1) <= slo.ITL.Seconds()
	if prompt && steady {
		c.metrics.SLOMet++
	}
	c.report(q, ingest.PhaseFinished)
}

// report writes a record of an attempt, at its arrival or its end.
func (c *Cluster) report(q *call, phase ingest.Phase) {
	if len(c.requests) >= maxTelemetry {
		c.metrics.TelemetryDropped++
		return
	}
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

// observe writes the report of one replica.
func (c *Cluster) observe(r *replica) {
	if len(c.states) >= maxTelemetry {
		c.metrics.TelemetryDropped++
		return
	}
	report := ingest.Replica{
		Pool: c.cfg.Pool, Name: r.name, At: c.Now(), State: r.state, KVCapacityTokens: ingest.Unknown, KVUsedTokens: ingest.Unknown,
		KVUsedRatio: math.NaN(), Running: ingest.Unknown, Waiting: ingest.Unknown,
		PreemptionsTotal: r.preemptions, PrefixHitsTotal: r.hits, PrefixQueryTotal: r.queries,
	}
	if r.serving() {
		r.sync(c.now)
		report.KVCapacityTokens, report.KVUsedTokens = c.cfg.KVCapacityTokens, int64(r.kv)
		report.KVUsedRatio = min(1, r.kv/float64(c.cfg.KVCapacityTokens))
		report.Running = int64(r.running())
	}
	if r.state == ingest.ReplicaReady {
		report.Waiting = c.shareOfQueue(r)
	}
	c.states = append(c.states, report)
}

// shareOfQueue is the part of the common queue that a ready replica reports: an equal part, and the remainder on the
// first replicas.
func (c *Cluster) shareOfQueue(r *replica) int64 {
	ready, place := 0, 0
	for _, other := range c.replicas {
		if other == r {
			place = ready
		}
		if other.state == ingest.ReplicaReady {
			ready++
		}
	}
	return int64((c.waiting() + ready - 1 - place) / ready)
}

func (c *Cluster) waiting() int { return len(c.queue) + len(c.preempted) }

// Metrics is the result of a run. A user's request counts once for all its attempts.
type Metrics struct {
	Minutes int
	// QueuedMinutes are minutes with more than SLO.Waiting requests per ready replica waiting at the end, or with a
	// request that was rejected or waited longer than SLO.TTFT. Users notice them. A saturation is load above the
	// planned capacity, which has a margin before requests queue.
	QueuedMinutes    int
	Requests         int64 // of users
	Finished         int64
	Failed           int64 // never served
	SLOMet           int64 // finished within both objectives
	Retries          int64
	Rejected         int64 // attempts
	Cancelled        int64 // attempts, by clients after Patience
	Preemptions      int64
	GPUHours         float64 // from loading to the end, without waiting for a machine
	ScaleActions     int     // changes of the desired replicas
	TelemetryDropped int64
}

// SLOAttainment is the share of requests served within both objectives. Requests that were never served missed them;
// open ones do not count.
func (m *Metrics) SLOAttainment() float64 {
	return value.Share(float64(m.SLOMet), float64(m.Finished+m.Failed))
}

// Minute is the state at the end of a minute.
type Minute struct {
	Waiting        int
	Ready, Pending int
	KVUse          float64 // highest KV cache use of a ready replica, 0..1; NaN if none is ready
}

// Metrics returns the counts so far.
func (c *Cluster) Metrics() Metrics { return c.metrics }

// Minute returns the newest full minute; before the first no replica is ready.
func (c *Cluster) Minute() Minute { return c.minute }

func (c *Cluster) endMinute() {
	m := Minute{Waiting: c.waiting(), KVUse: math.NaN()}
	for _, r := range c.replicas {
		switch r.state {
		case ingest.ReplicaReady:
			m.Ready++
			r.sync(c.now)
			if use := r.kv / float64(c.cfg.KVCapacityTokens); !(m.KVUse >= use) {
				m.KVUse = use
			}
		case ingest.ReplicaPending, ingest.ReplicaLoading:
			m.Pending++
		}
		c.observe(r)
	}
	c.metrics.Minutes++
	if c.slow || c.metrics.Rejected > c.rejected || float64(m.Waiting) > c.cfg.SLO.Waiting*float64(m.Ready) {
		c.metrics.QueuedMinutes++
	}
	c.minute, c.slow, c.rejected = m, false, c.metrics.Rejected
}
