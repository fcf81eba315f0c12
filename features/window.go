package features

import (
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

// Minute is the width of a window.
const Minute = time.Minute

// KVSlotCount is the number of equal sub-intervals of a minute in which occupancy is kept apart, so that its maximum
// within the minute is known at a resolution of ten seconds.
const KVSlotCount = 6

const (
	seconds     = 60.0 // in a window
	slotSeconds = seconds / KVSlotCount
)

// Window is what one class of one pool asked for in one minute of event time [Start, Start+Minute).
//
// Requests counts first attempts; tokens, occupancy, moments and shapes are of all attempts, because all of them load
// the pool. A count whose Known companion is zero was never reported in this minute and must not be read as zero; see
// the extractors in [Dimensions].
type Window struct {
	Key   `cbor:"1,keyasint"`
	Start time.Time `cbor:"2,keyasint"`

	// Covered says that telemetry of the pool was alive in this minute, so that zero counts mean zero traffic.
	Covered bool `cbor:"3,keyasint,omitempty"`
	// Settled says that no record can change this window any more (the lateness bound has passed).
	Settled bool `cbor:"4,keyasint,omitempty"`
	// Reports is what the class has ever reported: in a covered minute without records only that is a known zero.
	Reports Reports `cbor:"5,keyasint,omitempty"`

	Records   float64 `cbor:"6,keyasint,omitempty"` // requests and sums that fell into this minute, of any kind
	Attempts  float64 `cbor:"7,keyasint,omitempty"` // requests that fell into this minute, of any attempt
	Requests  float64 `cbor:"8,keyasint,omitempty"` // first attempts that arrived, whatever became of them
	Retries   float64 `cbor:"9,keyasint,omitempty"` // attempts > 1
	Rejected  float64 `cbor:"10,keyasint,omitempty"`
	Cancelled float64 `cbor:"11,keyasint,omitempty"`

	RequestsKnown float64 `cbor:"12,keyasint,omitempty"` // records that could report a count of requests (requests, and sums that carry one)
	PromptKnown   float64 `cbor:"13,keyasint,omitempty"` // records that reported prompt tokens
	CachedKnown   float64 `cbor:"14,keyasint,omitempty"` // records that reported prompt and cached tokens
	OutputKnown   float64 `cbor:"15,keyasint,omitempty"` // records that reported output tokens
	KVKnown       float64 `cbor:"16,keyasint,omitempty"` // records whose KV occupancy could be told

	PromptTokens        float64 `cbor:"17,keyasint,omitempty"`
	CachedTokens        float64 `cbor:"18,keyasint,omitempty"` // of the records in CachedKnown
	PromptOfCachedKnown float64 `cbor:"19,keyasint,omitempty"` // prompt tokens of the records in CachedKnown: the denominator of the hit ratio
	// OutputTokens are the tokens generated in this minute by requests whose times are known, wherever in time they
	// arrived, and those of the other requests that arrived in it.
	OutputTokens float64 `cbor:"20,keyasint,omitempty"`

	// KVTokenSeconds is the exact area under the KV occupancy curve in this minute, of requests whose times are known,
	// wherever in time they arrived. KVSlots holds the same by slot (see KVSlotCount), for the maximum within the minute.
	KVTokenSeconds float64              `cbor:"21,keyasint,omitempty"`
	KVSlots        [KVSlotCount]float64 `cbor:"22,keyasint"`
	// KVModelled is the area of requests without times, by Little's law, booked at their arrival minute.
	KVModelled float64 `cbor:"23,keyasint,omitempty"`
	KVTimed    bool    `cbor:"24,keyasint,omitempty"` // at least one request with known times touched this minute

	// Cross-moments over requests with known prompt and output: Σ prompt·output, Σ output².
	Moments sketch.Moments `cbor:"25,keyasint"`

	// Shapes: tokens of prompt and output, cached share of the prompt (0..1), and three delays in seconds: arrival to
	// first token, one output token to the next, arrival to leaving the queue. Nil when empty.
	Prompt      *sketch.Quantile `cbor:"26,keyasint,omitempty"`
	Output      *sketch.Quantile `cbor:"27,keyasint,omitempty"`
	CachedShare *sketch.Quantile `cbor:"28,keyasint,omitempty"`
	TTFT        *sketch.Quantile `cbor:"29,keyasint,omitempty"`
	ITL         *sketch.Quantile `cbor:"30,keyasint,omitempty"`
	QueueWait   *sketch.Quantile `cbor:"31,keyasint,omitempty"`

	// Tenants and Features are those the tokens were for, as their accounts stood at the tick that returned this window;
	// nil when nobody was named.
	Tenants  *Ranking `cbor:"32,keyasint,omitempty"`
	Features *Ranking `cbor:"33,keyasint,omitempty"`
}

// Reports is a set of the things that the records of a class can report.
type Reports uint8

// What a record can report.
const (
	ReportsRequests Reports = 1 << iota // a count of requests
	ReportsAttempts                     // which attempt a request is
	ReportsPrompt
	ReportsCached
	ReportsOutput
	ReportsKV    // enough to tell the KV occupancy, exactly or by Little's law
	ReportsTimes // start and end of a request
)

// knows says whether a quantity of this window is known: either it was reported in this minute, or the class is one
// that reports it and nothing at all came in a minute in which telemetry was alive.
func (w *Window) knows(what Reports, reported bool) bool {
	return w.Covered && (reported || w.Records == 0 && w.Reports&what != 0)
}

// The shapes of a window, as indices into shapes().
const (
	shapePrompt = iota
	shapeOutput
	shapeCachedShare
	shapeTTFT
	shapeITL
	shapeQueueWait
	shapeCount
)

func (w *Window) shapes() [shapeCount]**sketch.Quantile {
	return [...]**sketch.Quantile{&w.Prompt, &w.Output, &w.CachedShare, &w.TTFT, &w.ITL, &w.QueueWait}
}
