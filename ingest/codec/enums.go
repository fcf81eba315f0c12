package codec

import "github.com/forewarm/forewarm/ingest"

// enumNames lists the names of an enumeration by value.
func enumNames[E interface {
	~uint8
	String() string
}]() (names []string) {
	for e := E(0); e.String() != "unknown"; e++ {
		names = append(names, e.String())
	}
	return names
}

// The names of the enumerations in records, and the value that stands for "not given" while a record is decoded.
var (
	phaseNames        = enumNames[ingest.Phase]()
	statusNames       = enumNames[ingest.Status]()
	replicaStateNames = enumNames[ingest.ReplicaState]()
	ackStageNames     = enumNames[ingest.AckStage]()

	phaseCount        = ingest.Phase(len(phaseNames))
	statusCount       = ingest.Status(len(statusNames))
	replicaStateCount = ingest.ReplicaState(len(replicaStateNames))
	ackStageCount     = ingest.AckStage(len(ackStageNames))
)
