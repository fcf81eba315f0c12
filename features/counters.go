package features

// Counters count the accepted records and everything that was left out. They only grow.
type Counters struct {
	Requests uint64 // request records counted
	Sums     uint64 // sums counted
	Windows  uint64 `cbor:",omitempty"` // increments of edges counted
	Late     uint64 // records refused because their minute was settled
	Future   uint64 // records refused because their minute is beyond the open span
	Amended  uint64 // records that changed a minute after its first count
	BadTimes uint64 // requests with contradictory times or a span of more than a day, treated as without times

	OverflowRecords uint64 // records pooled under OverflowClass
	ClassesEvicted  uint64 // classes forgotten after Config.ClassTTL of silence
	ArrivalsEvicted uint64 // arrivals forgotten before their end was seen, because the table was full
	SkippedMinutes  uint64 // minutes passed over because Close was not called for them

	ReplicaReports  uint64 // replica reports taken
	ReplicasStale   uint64 // replica reports older than the newest one of the same replica
	ReplicasRefused uint64 // replica reports beyond Config.MaxReplicas

	KVBeforeOpen       float64 // token-seconds of occupancy in minutes already settled
	KVBeyondOpen       float64 // token-seconds of occupancy beyond the open span
	OutputBeyondOpen   float64 // output tokens generated beyond the open span
	OutputBroughtAhead float64 // output tokens generated in settled minutes, booked in the oldest open one
}
