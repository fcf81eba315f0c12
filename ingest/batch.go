package ingest

import "time"

// Sum is traffic that a producer has summed over at most one minute (binned traces). Fields that are NaN are unknown. A
// sum counts in the minute of its Start.
type Sum struct {
	Pool, Class string
	Start       time.Time
	Requests    float64
	// Token counts over the span; PromptTokens includes CachedTokens.
	PromptTokens, CachedTokens, OutputTokens float64
	KVTokens                                 *float64 // measured mean of tokens held; nil when unknown
}

// Watermark states that the clock reached At and, with a Pool, that every record of the pool before At has been
// published. So a minute without records before At has zero traffic and not missing data. The daemon writes one without
// a pool into the telemetry stream each minute of wall-clock time. Because time is an event of the log, a replay is
// exact.
type Watermark struct {
	Pool string // "" is time only
	At   time.Time
}

// Refusal is one record that could not be used, and why.
type Refusal struct {
	Reason Reason
	Detail string // for users: field, value and bound
	// Producer is the source of the message, or the replica of the record; "" when unknown.
	Producer, Pool string
}

// Batch has the records of one message, in the order in which the pipeline applies them: requests, sums,
// replicas, acks, histories, then the watermark.
type Batch struct {
	Sequence   uint64    // stream sequence; 0 when the source has none
	ReceivedAt time.Time // when the stream stored it, or a listener received it; zero when unknown
	Source     string    // the producer; "" when unknown

	Requests  []Request
	Sums      []Sum
	Replicas  []Replica
	Acks      []Ack
	Watermark *Watermark
	Histories []History
	Refused   []Refusal
	Ignored   int // valid records without demand, such as tool calls, health checks and answers of a response cache
}

// Records is the number of requests, sums, replicas, acks and refusals of b. The pipeline's counter counts histories, too.
func (b *Batch) Records() int {
	return len(b.Requests) + len(b.Sums) + len(b.Replicas) + len(b.Acks) + len(b.Refused)
}

// Reset empties b for reuse. The slices keep their memory, unless it is large. Histories are rare and large.
func (b *Batch) Reset() {
	const kept = 4096 // records
	*b = Batch{
		Requests: Emptied(b.Requests, kept),
		Sums:     Emptied(b.Sums, kept),
		Replicas: Emptied(b.Replicas, kept),
		Acks:     Emptied(b.Acks, kept),
		Refused:  Emptied(b.Refused, kept),
	}
}

// Emptied keeps the memory of list for reuse, unless it has more than most elements.
func Emptied[T any](list []T, most int) []T {
	if cap(list) > most {
		return nil
	}
	return list[:0]
}

// Reason is a stable, machine-readable cause of a refusal: a metric label, and a header of the dead-letter message.
type Reason string

// The reasons of refusals. Those above the blank line come from decoders, those below it from the pipeline, which knows
// the earlier records and the time.
const (
	ReasonNotJSON        Reason = "not_json"
	ReasonNotProtobuf    Reason = "not_protobuf"
	ReasonEmpty          Reason = "empty" // no byte, or no record
	ReasonTruncated      Reason = "truncated"
	ReasonBadEncoding    Reason = "bad_encoding" // compressed data that is corrupt
	ReasonInvalidUTF8    Reason = "invalid_utf8"
	ReasonWrongType      Reason = "wrong_type"
	ReasonNegativeCount  Reason = "negative_count"
	ReasonHugeCount      Reason = "huge_count"
	ReasonTooLarge       Reason = "too_large"
	ReasonTooDeep        Reason = "too_deep"
	ReasonBatchTooLong   Reason = "batch_too_long"
	ReasonLabelTooLong   Reason = "label_too_long"
	ReasonMissingField   Reason = "missing_field"
	ReasonBadTime        Reason = "bad_time"
	ReasonBadEnum        Reason = "bad_enum"
	ReasonBadLabel       Reason = "bad_label"    // a name with control characters
	ReasonOutOfRange     Reason = "out_of_range" // a ratio outside 0..1, an attempt below 1, an index outside its table
	ReasonInconsistent   Reason = "inconsistent" // fields that contradict each other
	ReasonUnknownFormat  Reason = "unknown_format"
	ReasonUnknownSubject Reason = "unknown_subject"

	ReasonUnknownPool  Reason = "unknown_pool"
	ReasonDuplicate    Reason = "duplicate"
	ReasonFuture       Reason = "future"
	ReasonLate         Reason = "late"
	ReasonUnknownEvent Reason = "unknown_event" // an acknowledgement of none of the pool's newest events
	ReasonNoHistory    Reason = "no_history"    // the history's model cannot learn it, or has data of that time
)

// Reasons lists every reason, for metrics that must exist at zero and for documentation.
var Reasons = []Reason{
	ReasonNotJSON, ReasonNotProtobuf, ReasonEmpty, ReasonTruncated, ReasonBadEncoding, ReasonInvalidUTF8, ReasonWrongType,
	ReasonNegativeCount, ReasonHugeCount,
	ReasonTooLarge, ReasonTooDeep, ReasonBatchTooLong, ReasonLabelTooLong, ReasonMissingField, ReasonBadTime,
	ReasonBadEnum, ReasonBadLabel, ReasonOutOfRange, ReasonInconsistent, ReasonUnknownFormat, ReasonUnknownSubject,
	ReasonUnknownPool, ReasonDuplicate, ReasonFuture, ReasonLate, ReasonUnknownEvent, ReasonNoHistory,
}
