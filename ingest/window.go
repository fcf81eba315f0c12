package ingest

import "time"

// Part is how an edge aggregator numbers what it publishes: each message is an increment, counted once. Within an Epoch
// sequences grow by one; an agent whose state was lost begins a newer epoch, and at 1.
type Part struct {
	Agent    string
	Epoch    int64 // Unix nanoseconds
	Sequence uint64
	At       time.Time // the minute that ended here is the newest that the part says anything new of
	// More says that further parts of that minute follow. Without it the agent has told all that it knows of the minutes
	// before At; where that is nothing it says so with an empty message, under the number of its newest part.
	More bool
}

// Window is what an edge aggregator has counted of one class of one pool in the minute from Start since it last
// published that minute (forewarm.window.v1). Windows of one minute add up, in any order, from any number of agents.
type Window struct {
	Pool, Class string
	Start       time.Time
	Reports     uint8 // what the class has ever reported, as a set of features.Reports
	Timed       bool  // the times of a request that touched the minute are known
	Figures     [WindowFigures]float64
	// Sketches of prompt tokens, output tokens, cached share, and the three delays in seconds (first token, between
	// tokens, in the queue), each as sketch.Quantile encodes itself; nil when empty.
	Sketches [WindowSketches][]byte
	// Tokens by tenant and by feature, since the agent last published.
	Tenants, Features Ranking
	Sessions          *[SessionFigures]int64 // as they stand at the end of the minute; nil when there are none
}

// Ranking lists the heaviest of what a space-saving sketch counted; the zero value is empty.
type Ranking struct {
	Names []Weight // at most 8192, each once
	Floor float64  // no other name weighs more
	Total float64
}

// Weight is at most that of Name, and at least less by Error.
type Weight struct {
	Name          string
	Weight, Error float64
}

// Minute is what an edge aggregator knows of a pool in the minute from Start: that telemetry of the pool was alive, and,
// as increments, how its requests fared in the queue.
type Minute struct {
	Pool      string
	Start     time.Time
	LastEvent time.Time // the newest of the pool
	// Attempts, of which Turned away; seconds that Started of them Waited in the queue.
	Attempts, Turned, Waited, Started float64
}

// The sizes of the lists in a [Window].
const (
	WindowFigures  = int(figureCount)
	WindowSketches = 6
	SessionFigures = int(SessionByAge) + SessionAges*sessionAgeFigures + sessionActFigures
	SessionAges    = 6 // groups of sessions by the time since their newest turn, see features.SessionAge
)

// Figure is an index into [Window.Figures]; the fields of features.Window and features.Late by the same names say what
// each is.
type Figure uint8

// The figures of a window, in the order of their numbers in the schema.
const (
	FigureRecords Figure = iota
	FigureAttempts
	FigureRequests
	FigureRetries
	FigureRejected
	FigureCancelled
	FigureRequestsKnown
	FigurePromptKnown
	FigureCachedKnown
	FigureOutputKnown
	FigureKVKnown
	FigurePromptTokens
	FigureCachedTokens
	FigurePromptOfCachedKnown
	FigureOutputTokens
	FigureKVTokenSeconds
	FigureKVSlot1
	FigureKVSlot2
	FigureKVSlot3
	FigureKVSlot4
	FigureKVSlot5
	FigureKVSlot6
	FigureKVModelled
	FigureMomentN
	FigureMomentPrompt
	FigureMomentOutput
	FigureMomentPromptOutput
	FigureMomentOutputSq
	FigurePromptRetried
	FigureOutputRetried
	FigureKVRetried
	FigureCachedUnserved
	FigureOutputUnserved
	FigureKVUnserved
	FigureOutputDelayed
	FigureKVDelayed
	FigureLateRecords
	FigureLateRequests
	FigureLatePromptTokens
	FigureLateCachedTokens
	FigureLateOutputTokens
	FigureLateKVTokenSeconds

	figureCount
)

// figureNames are those of the schema.
var figureNames = [figureCount]string{
	"records", "attempts", "requests", "retries", "rejected", "cancelled", "requests_known", "prompt_known", "cached_known",
	"output_known", "kv_known", "prompt_tokens", "cached_tokens", "prompt_of_cached_known", "output_tokens", "kv_token_seconds",
	"kv_slot_1", "kv_slot_2", "kv_slot_3", "kv_slot_4", "kv_slot_5", "kv_slot_6", "kv_modelled",
	"moment_n", "moment_prompt", "moment_output", "moment_prompt_output", "moment_output_sq",
	"prompt_retried", "output_retried", "kv_retried", "cached_unserved", "output_unserved", "kv_unserved", "output_delayed", "kv_delayed",
	"late_records", "late_requests", "late_prompt_tokens", "late_cached_tokens", "late_output_tokens", "late_kv_token_seconds",
}

// Signed says whether a figure may be negative: corrections are, all else is a count.
func (f Figure) Signed() bool { return f >= FigureOutputUnserved && f <= FigureKVDelayed }

// SessionFigure is an index into [Window.Sessions].
type SessionFigure uint8

// The figures of sessions. Those up to SessionCached are sums over the sessions that go on, except for the largest
// context; the last three are since the minute before.
const (
	SessionActive SessionFigure = iota
	SessionAgeMillis
	SessionTurns
	SessionLaterTurns // beyond each session's first
	SessionGrowth     // tokens of context; can be negative
	SessionContext
	SessionLargest
	SessionPrompt
	SessionCached
	SessionEnded
	SessionStarted
	SessionGaps
	SessionWaited // nanoseconds, over the gaps

	// SessionByAge is the first of six for each age, the youngest first: sessions alive, those ended, and of those that had
	// the age a minute before: how many took turns, their turns, their tokens to prefill, their tokens of output. The last
	// four follow of sessions that began since.
	SessionByAge
)

const (
	sessionAgeFigures = 6
	sessionActFigures = 4
)

var sessionNames = [SessionByAge]string{
	"active", "age_millis", "turns", "later_turns", "growth", "context", "largest", "prompt", "cached", "ended", "started", "gaps", "waited_ns",
}
