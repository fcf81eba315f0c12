package features

import "time"

// PoolState is what replica reports say of a pool at one instant. Counts are of replicas heard of within
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
	// QueueGrowing says that more came in this minute than the pool could take: its queue or the time in it grew, or it
	// turned requests away. What it served in such a minute is its capacity, not the demand.
	QueueGrowing bool
	// KVSharing is how much less the engines hold than the requests do on their own, for sharing prefixes. The kv
	// dimension counts in full; see Carries for setting it against a capacity.
	KVSharing KVSharing
	// LastEvent is the newest event time of the pool; zero when nothing came yet. Its age is the staleness of telemetry.
	LastEvent time.Time
	// Heard is when the newest record of the pool was stored, whatever became of it; on the event clock its event time.
	Heard time.Time
	// Attempts are the minutes that can still change, oldest first; nil when no call was tried again lately.
	Attempts []Attempts

	// Producers is how many producers of the pool's requests are live, of those that can be told apart; Complete the newest
	// event of the slowest of them, zero when there are none: demand is all in up to there. Faults are theirs, and those of
	// the producers that fell silent. See [Producers].
	Producers int
	Complete  time.Time
	Faults    []ProducerFault
}
