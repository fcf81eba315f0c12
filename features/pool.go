package features

import "time"

// PoolState is the state of a pool's replicas at one instant. It counts replicas that reported within
// Config.ReplicaTTL.
type PoolState struct {
	Pool string
	At   time.Time

	Ready, Pending, Draining int
	PendingSince             []time.Time // when each pending or loading replica was first seen, ascending
	ReportedAt               time.Time   // newest replica report; zero when none ever came

	KVCapacityTokens float64 // per ready replica, median of the reports; 0 when unknown
	KVCapacityLeast  float64 // of a ready replica
	KVCapacityMost   float64
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
	// KVSharing is the saving of the engines' caches by shared prefixes. The kv dimension does not include it; use
	// Carries to compare demand with a capacity.
	KVSharing KVSharing
	// LastEvent is the newest event time of the pool; zero without records. Its age is the staleness of telemetry.
	LastEvent time.Time
	// Heard is when the newest record of the pool was stored, counted or refused; on the event clock its event time.
	Heard time.Time
	// Attempts has the open minutes, oldest first; nil without recent retries.
	Attempts []Attempts

	// Producers is the number of known live producers of the pool's requests. Complete is the newest event of the
	// slowest of them, zero without any: demand before it is complete. Faults are theirs and those of silent producers.
	// See [Producers].
	Producers int
	Complete  time.Time
	Faults    []ProducerFault
}
