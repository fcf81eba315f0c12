package ingest

import "time"

// ReplicaState is the state of a replica in its life cycle.
type ReplicaState uint8

// The states of a replica. Pending waits for a machine, Loading loads weights; neither serves yet.
const (
	ReplicaReady ReplicaState = iota
	ReplicaPending
	ReplicaLoading
	ReplicaDraining
	ReplicaGone
)

// ReplicaStateNames are the names that records use, by value.
var ReplicaStateNames = []string{"ready", "pending", "loading", "draining", "gone"}

// String gives the name that records use.
func (s ReplicaState) String() string { return nameOf(ReplicaStateNames, int(s)) }

// Replica is one report of one replica's state (forewarm.replica.v1). Counts that are [Unknown] and ratios that are NaN
// were not reported.
type Replica struct {
	Pool, Name string
	At         time.Time
	State      ReplicaState

	KVCapacityTokens, KVUsedTokens    int64
	KVUsedRatio                       float64 // 0..1 of KVCapacityTokens, NaN when unknown
	Running, Waiting                  int64
	PreemptionsTotal                  int64
	PrefixHitsTotal, PrefixQueryTotal int64

	// Start of the process, and the time until it was ready; zero and NaN when unknown. The first reports after a start
	// have both. StartedAt identifies the start, so that it counts once.
	StartedAt      time.Time
	StartupSeconds float64
}

// AckStage is the progress of a pre-scale event at the autoscaler.
type AckStage uint8

// The stages of a pre-scale event. The warm-up lag is learned from accepted → started → ready.
const (
	AckAccepted AckStage = iota
	AckStarted
	AckReady
	AckRejected
)

// AckStageNames are the names that records use, by value.
var AckStageNames = []string{"accepted", "started", "ready", "rejected"}

// String gives the name that records use.
func (s AckStage) String() string { return nameOf(AckStageNames, int(s)) }

// Ack is an autoscaler's answer to a pre-scale event.
type Ack struct {
	Pool       string
	EventID    string
	Generation int64 // [Unknown] when not reported
	Stage      AckStage
	At         time.Time
	Replicas   int // number of replicas in the answer; negative when not reported
}

// MaxHistoryMinutes bounds the values of one [History]: a day.
const MaxHistoryMinutes = 24 * 60

// History is demand before telemetry began, recorded by another system. The models of a whole pool (class "*") learn from
// it in one dimension. It is an event of the log, so that a replay learns the same.
type History struct {
	Pool, Class, Dimension string
	Start                  time.Time // of the first minute
	// Values are averages over consecutive minutes, in the dimension's unit; NaN when unknown.
	Values []float64
}
