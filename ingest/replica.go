package ingest

import "time"

// ReplicaState is where a replica stands in its life.
type ReplicaState uint8

// The states of a replica. Pending waits for a machine, Loading loads weights; both are supply that is not there yet.
const (
	ReplicaReady ReplicaState = iota
	ReplicaPending
	ReplicaLoading
	ReplicaDraining
	ReplicaGone
)

var replicaStateNames = []string{"ready", "pending", "loading", "draining", "gone"}

// String gives the name that records use.
func (s ReplicaState) String() string { return nameOf(replicaStateNames, int(s)) }

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

	// When its process started, and how long that took until it was ready; zero and NaN where it does not say. The first
	// reports after a start carry both; it is known by StartedAt, and counted once.
	StartedAt      time.Time
	StartupSeconds float64
}

// AckStage says how far a pre-scale event has come at the autoscaler.
type AckStage uint8

// The stages of a pre-scale event; accepted → started → ready teaches the warm-up lag.
const (
	AckAccepted AckStage = iota
	AckStarted
	AckReady
	AckRejected
)

var ackStageNames = []string{"accepted", "started", "ready", "rejected"}

// String gives the name that records use.
func (s AckStage) String() string { return nameOf(ackStageNames, int(s)) }

// Ack is an autoscaler's answer to a pre-scale event.
type Ack struct {
	Pool       string
	EventID    string
	Generation int64 // [Unknown] when not reported
	Stage      AckStage
	At         time.Time
	Replicas   int // how many replicas the answer is about; negative when not reported
}

// MaxHistoryMinutes bounds the values of one [History]: a day.
const MaxHistoryMinutes = 24 * 60

// History is what demand was before telemetry began, as another system recorded it: it teaches the models of one class,
// or of a pool's total (class "*"), in one dimension. It is an event of the log like any other, so that a replay learns
// the same.
type History struct {
	Pool, Class, Dimension string
	Start                  time.Time // of the first minute
	// Values are averages over consecutive minutes, in the dimension's unit; NaN where nothing is known.
	Values []float64
}
