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
// It holds two kinds of figure. Demand: Requests, PromptTokens and CachedTokens count each call of a user once, in the
// minute it arrived, whatever became of it. Throughput: OutputTokens, KVTokenSeconds, KVSlots and KVModelled are what
// all attempts generated and held, which a full pool clips at its capacity. The figures that end in Retried, Unserved
// and Delayed lead from the second kind to the first; the extractors in [Dimensions] add them up. Moments and shapes
// are of what was served. A count whose Known companion is zero was never reported in this minute and must not be read
// as zero.
type Window struct {
	Key   `cbor:"1,keyasint"`
	Start time.Time `cbor:"2,keyasint"`

	// Covered says that telemetry of the pool was alive in this minute, so that zero counts mean zero traffic.
	Covered bool `cbor:"3,keyasint,omitempty"`
	// Settled says that no record can change this window any more (the lateness bound has passed).
	Settled bool `cbor:"4,keyasint,omitempty"`
	// Nowcast is what the dimensions that are forecast will come to when all records of this minute are in: read it with
	// Dimension.Now. Nil when nothing is missing any more, or nothing ever came late.
	Nowcast []Estimate `cbor:"-"`
	// Reports is what the class has ever reported: in a covered minute without records only that is a known zero.
	Reports Reports `cbor:"5,keyasint,omitempty"`

	Records   float64 `cbor:"6,keyasint,omitempty"` // requests and sums that fell into this minute, of any kind
	Attempts  float64 `cbor:"7,keyasint,omitempty"` // requests that fell into this minute, of any attempt
	Requests  float64 `cbor:"8,keyasint,omitempty"` // calls: first attempts, and later ones of calls that were not seen before
	Retries   float64 `cbor:"9,keyasint,omitempty"` // attempts > 1 of calls that were counted before
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
	// Prefills are of attempts whose time to the first token is known: from it and the prompt the prefill rate is learned.
	Prefills Prefills `cbor:"52,keyasint"`

	// Shapes: tokens of prompt and output, cached share of the prompt (0..1), and three delays in seconds: arrival to
	// first token, one output token to the next, arrival to leaving the queue. Nil when empty.
	Prompt      *sketch.Quantile `cbor:"26,keyasint,omitempty"`
	Output      *sketch.Quantile `cbor:"27,keyasint,omitempty"`
	CachedShare *sketch.Quantile `cbor:"28,keyasint,omitempty"`
	TTFT        *sketch.Quantile `cbor:"29,keyasint,omitempty"`
	ITL         *sketch.Quantile `cbor:"30,keyasint,omitempty"`
	QueueWait   *sketch.Quantile `cbor:"31,keyasint,omitempty"`

	// What engines did for attempts > 1 of calls that were counted before: prompt tokens computed, tokens generated (part of
	// OutputTokens) and token-seconds held (part of KVTokenSeconds and KVModelled). It is load, and no demand: see Attempts.
	PromptRetried float64 `cbor:"40,keyasint,omitempty"`
	OutputRetried float64 `cbor:"41,keyasint,omitempty"`
	KVRetried     float64 `cbor:"42,keyasint,omitempty"`

	// What calls that were rejected, cancelled or failed asked for beyond what they were served, as far as their class
	// lets expect it: prompt tokens that the cache would have held, tokens to generate, token-seconds to hold. The last
	// two lie where they would have been served at once.
	CachedUnserved float64 `cbor:"43,keyasint,omitempty"`
	OutputUnserved float64 `cbor:"44,keyasint,omitempty"`
	KVUnserved     float64 `cbor:"45,keyasint,omitempty"`

	// What moves the service of calls that waited in a queue to where it would have been without the wait: negative
	// where they were served, positive where they were not yet. Tokens and token-seconds; it counts as demand in a
	// Censored minute only.
	OutputDelayed float64 `cbor:"46,keyasint,omitempty"`
	KVDelayed     float64 `cbor:"47,keyasint,omitempty"`

	// Censored says that the pool did not serve all that was asked of it when it was asked: its queue grew or stood, or
	// it turned requests away. Throughput then says little of demand.
	Censored bool `cbor:"48,keyasint,omitempty"`

	// Served are the attempts that ended as they should. Wasted are the prompt tokens computed, and the tokens generated, for
	// attempts that failed or were given up.
	Served       float64 `cbor:"50,keyasint,omitempty"`
	PromptWasted float64 `cbor:"51,keyasint,omitempty"`
	OutputWasted float64 `cbor:"56,keyasint,omitempty"`

	// Late is what came too late to be counted since the class last settled a minute: of older minutes, handed out with
	// this one when it settles, once. Nil when nothing did.
	Late *Late `cbor:"49,keyasint,omitempty"`

	// Tenants and Features are those the tokens were for, as their accounts stood at the tick that returned this window;
	// nil when nobody was named.
	Tenants  *Ranking `cbor:"32,keyasint,omitempty"`
	Features *Ranking `cbor:"33,keyasint,omitempty"`
	Models   *Ranking `cbor:"54,keyasint,omitempty"` // that served them
	Tiers    *Ranking `cbor:"55,keyasint,omitempty"` // of service
}

func (w *Window) rankings() [accountKinds]**Ranking {
	return [...]**Ranking{byTenant: &w.Tenants, byFeature: &w.Features, byModel: &w.Models, byTier: &w.Tiers}
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

// decode is the demand for output tokens in the minute, from the tokens that were generated.
func (w *Window) decode() float64 {
	d := w.OutputTokens - w.OutputRetried + w.OutputUnserved
	if w.Censored {
		d += w.OutputDelayed
	}
	return max(d, 0)
}

// kv is the demand for KV cache in the minute, token-seconds, from the area that was held.
func (w *Window) kv() float64 {
	d := w.KVTokenSeconds + w.KVModelled - w.KVRetried + w.KVUnserved
	if w.Censored {
		d += w.KVDelayed
	}
	return max(d, 0)
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

// show puts in the window what there is of shapes.
func (w *Window) show(all *shapes) {
	if all == nil {
		return
	}
	for i, shape := range w.shapes() {
		if all[i].Count() > 0 {
			*shape = &all[i]
		}
	}
}

func (w *Window) shapes() [shapeCount]**sketch.Quantile {
	return [...]**sketch.Quantile{&w.Prompt, &w.Output, &w.CachedShare, &w.TTFT, &w.ITL, &w.QueueWait}
}
