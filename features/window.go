package features

import (
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

// Minute is the width of a window.
const Minute = time.Minute

// Window is what one class of one pool asked for in one minute of event time [Start, Start+Minute).
//
// Counts are of first attempts unless said otherwise. A count whose Known companion is zero was never reported in this
// minute and must not be read as zero; see the extractors in [Dimensions].
type Window struct {
	Key
	Start time.Time

	// Covered says that telemetry of the pool was alive in this minute, so that zero counts mean zero traffic.
	Covered bool
	// Settled says that no record can change this window any more (the lateness bound has passed).
	Settled bool

	Requests  float64 // first attempts that arrived, whatever became of them
	Retries   float64 // attempts > 1
	Rejected  float64
	Cancelled float64

	RequestsKnown float64 // records that could report a count of requests (requests, and sums that carry one)
	PromptKnown   float64 // records that reported prompt tokens
	CachedKnown   float64 // records that reported cached tokens
	OutputKnown   float64 // records that reported output tokens

	PromptTokens        float64
	CachedTokens        float64 // of the records in CachedKnown
	PromptOfCachedKnown float64 // prompt tokens of the records in CachedKnown: the denominator of the hit ratio
	OutputTokens        float64

	// KVTokenSeconds is the exact area under the KV occupancy curve in this minute, of requests whose times are known,
	// wherever in time they arrived. KVSlots holds the same by slot (see KVSlotCount), for the maximum within the minute.
	KVTokenSeconds float64
	KVSlots        [KVSlotCount]float64
	// KVModelled is the area of requests without times, by Little's law, booked at their arrival minute.
	KVModelled float64
	KVTimed    bool // at least one request with known times touched this minute

	// Cross-moments over requests with known prompt and output: Σ prompt·output, Σ output².
	Moments sketch.Moments

	Prompt, Output, CachedShare, TTFT, ITL, QueueWait *sketch.Quantile // nil when empty

	Tenants []sketch.Count // heaviest tenants by prompt+output tokens, descending; bounded
}

// KVSlotCount is the number of equal sub-intervals of a minute in which occupancy is kept apart, so that its maximum
// within the minute is known at a resolution of ten seconds.
const KVSlotCount = 6
