package features

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// maxReplicas bounds the replicas of a pool that are tracked.
const maxReplicas = 8192

// fleet has the newest report of each replica of one pool. The exported fields are the saved state.
type fleet struct {
	Replicas    map[string]*replica `cbor:"1,keyasint"`
	Reported    time.Time           `cbor:"2,keyasint,omitzero"`
	Preemptions float64             `cbor:"3,keyasint,omitempty"` // since the last state()
}

type replica struct {
	Last         ingest.Replica `cbor:"1,keyasint"`           // without pool
	PendingSince time.Time      `cbor:"2,keyasint,omitzero"`  // zero unless pending or loading
	Fresh        bool           `cbor:"3,keyasint,omitempty"` // first seen while the pool reported, and not ready since
	Started      time.Time      `cbor:"4,keyasint,omitzero"`  // process start of the newest reported startup
}

// ReplicaLife is the new information about a replica's start in a report.
type ReplicaLife struct {
	Warmed  time.Duration // from pending to ready, in the first report of ready; else, or if it is unknown, 0
	New     bool          // first report of ready, for a replica that appeared while the pool reported
	Started bool          // the report has the startup time of a new process
}

// maxStartDelay is the longest delay from ready to the report of a startup time.
const maxStartDelay = 10 * time.Minute

// maxReportGap is the longest gap in a pool's reports before the first report of a pending replica. After a longer gap
// the replica may have been pending before.
const maxReportGap = 2 * time.Minute

// start reports whether r has a new startup time of the replica.
func (k *replica) start(r *ingest.Replica) bool {
	if !(r.StartupSeconds > 0) || r.StartedAt.IsZero() || r.State != ingest.ReplicaReady || r.StartedAt.Equal(k.Started) {
		return false
	}
	k.Started = r.StartedAt.UTC()
	ready := r.StartedAt.Add(time.Duration(r.StartupSeconds * float64(time.Second)))
	return r.At.Sub(ready) <= maxStartDelay
}

// add adds a report, and returns the one before, which has the state ReplicaGone for a new replica. It refuses a report
// older than the newest one, and a new replica when the fleet is full; ok is false then.
func (f *fleet) add(r *ingest.Replica, n *Counters) (before ingest.Replica, life ReplicaLife, ok bool) {
	known, ok := f.Replicas[r.Name]
	switch {
	case ok && r.At.Before(known.Last.At):
		return before, life, false
	case !ok && len(f.Replicas) >= maxReplicas:
		n.ReplicasRefused++
		return before, life, false
	case !ok:
		if f.Replicas == nil {
			f.Replicas = map[string]*replica{}
		}
		known = &replica{Last: ingest.Replica{Name: r.Name, State: ingest.ReplicaGone}}
		f.Replicas[r.Name] = known
	case r.PreemptionsTotal >= 0 && known.Last.PreemptionsTotal >= 0:
		preemptions := r.PreemptionsTotal - known.Last.PreemptionsTotal
		if preemptions < 0 { // the process and its counter were restarted
			preemptions = r.PreemptionsTotal
		}
		f.Preemptions += float64(preemptions)
	}
	before = known.Last
	previous := f.Reported
	if r.At.After(previous) {
		f.Reported = r.At.UTC()
	}
	if before.State == ingest.ReplicaGone {
		known.Fresh = !previous.IsZero() && r.At.Sub(previous) <= maxReportGap
	}
	if r.State == ingest.ReplicaReady {
		if known.Fresh && !known.PendingSince.IsZero() { // not one that served before, and was only restarted
			life.Warmed = r.At.Sub(known.PendingSince)
		}
		life.New, known.Fresh = known.Fresh, false
	}
	known.Last = *r
	known.Last.Name, known.Last.Pool, known.Last.At = before.Name, "", r.At.UTC()
	switch {
	case r.State != ingest.ReplicaPending && r.State != ingest.ReplicaLoading:
		known.PendingSince = time.Time{}
	case known.PendingSince.IsZero():
		known.PendingSince = r.At.UTC()
	}
	life.Started = known.start(r)
	return before, life, true
}

// state summarizes the replicas that reported within ttl before at. It resets the count of preemptions.
func (f *fleet) state(at time.Time, ttl time.Duration) PoolState {
	s := PoolState{ReportedAt: f.Reported, KVUsedMax: math.NaN(), WaitingPerReady: math.NaN()}
	s.Preemptions, f.Preemptions = f.Preemptions, 0
	waiting, reporting, tokens, sized := 0.0, 0.0, 0.0, 0.0
	for _, r := range f.Replicas {
		if r.Last.At.Before(at.Add(-ttl)) {
			continue
		}
		s.Observed = true
		switch r.Last.State {
		case ingest.ReplicaReady:
			s.Ready++
			if kv := float64(r.Last.KVCapacityTokens); kv > 0 {
				tokens, sized = tokens+kv, sized+1
				s.KVCapacityLeast = min(cmp.Or(s.KVCapacityLeast, kv), kv)
			}
			used := r.Last.KVUsedRatio
			if math.IsNaN(used) && r.Last.KVCapacityTokens > 0 {
				used = usedTokens(&r.Last) / float64(r.Last.KVCapacityTokens)
			}
			if !(s.KVUsedMax >= used) && !math.IsNaN(used) {
				s.KVUsedMax = used
			}
			if r.Last.Waiting >= 0 {
				waiting += float64(r.Last.Waiting)
				reporting++
			}
		case ingest.ReplicaPending, ingest.ReplicaLoading:
			s.Pending++
			s.PendingSince = append(s.PendingSince, r.PendingSince)
		case ingest.ReplicaDraining:
			s.Draining++
		}
	}
	slices.SortFunc(s.PendingSince, time.Time.Compare)
	if sized > 0 {
		s.KVCapacityTokens = tokens / sized
	}
	if reporting > 0 {
		s.WaitingPerReady = waiting / reporting
	}
	return s
}

// PoolState is the state of a pool's replicas at one instant. It counts replicas that reported within
// Config.ReplicaTTL.
type PoolState struct {
	Ready, Pending, Draining int
	PendingSince             []time.Time // when each pending or loading replica was first seen, ascending
	ReportedAt               time.Time   // newest replica report; zero when none ever came

	KVCapacityTokens float64 // per ready replica, mean of the reports; 0 when unknown
	KVCapacityLeast  float64 // of the ready replica with the smallest; 0 when unknown
	KVUsedMax        float64 // highest KV use ratio of any ready replica; NaN when unknown
	WaitingPerReady  float64 // queued requests per ready replica; NaN when unknown
	Preemptions      float64 // since the previous tick

	Observed bool // at least one replica report is fresh
}

// PoolMinute is one pool when a minute is over.
type PoolMinute struct {
	Pool    string
	Start   time.Time
	Covered bool
	State   PoolState
	// QueueGrowing reports that demand in this minute exceeded the pool's capacity: its queue or the time in it grew,
	// or it turned requests away. Its throughput in such a minute is its capacity, not the demand.
	QueueGrowing bool
	// KVRatio is the tokens that engines hold per token that requests hold: below 1 where requests share prefixes. The kv
	// dimension does not include it; use Carries to compare demand with a capacity.
	KVRatio float64
	// LastEvent is the newest event time of the pool; zero without records. Its age is the staleness of telemetry.
	LastEvent time.Time
	// Steady is the number of replicas that were ready throughout the minute that settles now; 0 if unknown or changed.
	Steady int
	// Settled is the start of the minute that settles now, and Served the service in it.
	Settled time.Time
	Served  *Served
	// Latencies are those of the open minutes, oldest first.
	Latencies []Latency
	// Attempts has the open minutes, oldest first; nil without recent retries.
	Attempts []Attempts
	// Faults are those of the pool's producers. See [Producers].
	Faults []ProducerFault
}

// QuantileOf is the quantile p of ascending values, with linear interpolation (Hyndman and Fan 1996,
// doi:10.2307/2684934, definition 7); NaN without any.
func QuantileOf(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := p * float64(len(sorted)-1)
	low := int(at)
	return sorted[low] + (at-float64(low))*(sorted[min(low+1, len(sorted)-1)]-sorted[low])
}
