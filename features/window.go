package features

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

// Minute is the width of a window.
const Minute = time.Minute

const seconds = 60.0 // in a window

// OverflowClass collects the classes of a pool beyond Config.MaxClasses.
const OverflowClass = "_other"

// TotalClass is the class name of the pool total in outputs.
const TotalClass = "*"

// ClassName is a class as tables and links name it.
func ClassName(class string) string { return cmp.Or(class, "without a class") }

// ClassText is a class as sentences name it.
func ClassText(class string) string {
	if class == "" {
		return "traffic " + ClassName(class)
	}
	return "class " + class
}

// Key names one series of windows.
type Key struct {
	Pool, Class string
}

// Compare orders keys by pool, then class.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Pool, o.Pool), strings.Compare(k.Class, o.Class))
}

// String gives pool/class.
func (k Key) String() string { return k.Pool + "/" + k.Class }

// Window is the demand of one class of one pool in one minute of event time [Start, Start+Minute).
//
// It has two kinds of values. Demand: Requests, PromptTokens and CachedTokens count each call of a user once, in the
// minute of its arrival, however it ended. Throughput: OutputTokens, KVTokenSeconds and KVModelled count the work for
// all attempts, which is limited by the pool's capacity. The fields that end in Retried, Unserved and Delayed correct
// throughput to demand; the extractors in [Dimensions] add them. Shapes are of served requests.
type Window struct {
	Key   `cbor:"1,keyasint"`
	Start time.Time `cbor:"2,keyasint"`

	// Covered reports that telemetry of the pool was alive in this minute, so that zero counts mean zero traffic.
	Covered bool `cbor:"3,keyasint,omitempty"`
	// Settled reports that no record can change this window any more (the lateness bound has passed).
	Settled bool `cbor:"4,keyasint,omitempty"`
	// Nowcast has the expected settled values of the forecast dimensions; read it with Dimension.Now. Nil when nothing
	// is missing any more, or no record ever came late.
	Nowcast []Estimate `cbor:"-"`
	// Reports are the values that the class has ever reported. In a covered minute without records only they are zero;
	// the others are unknown.
	Reports Reports `cbor:"5,keyasint,omitempty"`
	// Known are the values that records of this minute report. The others are unknown, not zero.
	Known Reports `cbor:"12,keyasint,omitempty"`

	Records  float64 `cbor:"6,keyasint,omitempty"` // requests and sums of this minute
	Attempts float64 `cbor:"7,keyasint,omitempty"` // requests of this minute, of any attempt
	Requests float64 `cbor:"8,keyasint,omitempty"` // calls: first attempts, and later ones of calls that were not seen before
	Retries  float64 `cbor:"9,keyasint,omitempty"` // attempts > 1 of calls that were counted before

	Served  float64 `cbor:"50,keyasint,omitempty"` // attempts that finished
	KVKnown float64 `cbor:"16,keyasint,omitempty"` // records with a known KV occupancy

	PromptTokens float64 `cbor:"17,keyasint,omitempty"`
	CachedTokens float64 `cbor:"18,keyasint,omitempty"`
	// PromptOfCachedKnown are the prompt tokens of the records that report cached ones: the denominator of the hit ratio.
	PromptOfCachedKnown float64 `cbor:"19,keyasint,omitempty"`
	// OutputTokens are the tokens generated in this minute by requests with known times, and all tokens of the other
	// requests that arrived in it.
	OutputTokens float64 `cbor:"20,keyasint,omitempty"`

	// KVTokenSeconds is the exact area under the KV occupancy curve in this minute, of all requests with known times.
	KVTokenSeconds float64 `cbor:"21,keyasint,omitempty"`
	// KVModelled is the area of requests without times, by Little's law, counted in the minute of arrival.
	KVModelled float64 `cbor:"23,keyasint,omitempty"`

	Prompt sketch.Quantile `cbor:"26,keyasint,omitzero"` // tokens of a call
	Output sketch.Quantile `cbor:"27,keyasint,omitzero"` // tokens of a finished attempt

	// The work of engines for Retries: prompt tokens computed, tokens generated (part of OutputTokens) and
	// token-seconds held (part of KVTokenSeconds and KVModelled). It is load, but no demand: see Attempts.
	PromptRetried float64 `cbor:"40,keyasint,omitempty"`
	OutputRetried float64 `cbor:"41,keyasint,omitempty"`
	KVRetried     float64 `cbor:"42,keyasint,omitempty"`

	// The expected demand of rejected, cancelled and failed calls, minus what they were served: prompt tokens in the
	// cache, tokens to generate, token-seconds to hold. The last two are in the minutes of service without a wait.
	CachedUnserved float64 `cbor:"43,keyasint,omitempty"`
	OutputUnserved float64 `cbor:"44,keyasint,omitempty"`
	KVUnserved     float64 `cbor:"45,keyasint,omitempty"`

	// Corrections that move the service of calls that waited in a queue to the minutes of service without a wait:
	// negative where they were served, positive where they would have been. Tokens and token-seconds. They count as
	// demand only in a Censored minute.
	OutputDelayed float64 `cbor:"46,keyasint,omitempty"`
	KVDelayed     float64 `cbor:"47,keyasint,omitempty"`

	// Censored reports that the pool did not serve all demand at once: its queue grew or was long, or it turned
	// requests away. Then throughput is no measure of demand.
	Censored bool `cbor:"48,keyasint,omitempty"`

	// Prompt tokens computed and tokens generated for attempts that did not finish.
	PromptWasted float64 `cbor:"51,keyasint,omitempty"`
	OutputWasted float64 `cbor:"56,keyasint,omitempty"`

	// The largest consumers of tokens, at the tick that returned this window; nil without names.
	Tenants  *Ranking `cbor:"32,keyasint,omitempty"`
	Features *Ranking `cbor:"33,keyasint,omitempty"`
}

// Reports is a set of values that the records of a class report.
type Reports uint8

// What a record can report.
const (
	ReportsRequests Reports = 1 << iota // a count of requests
	ReportsAttempts                     // which attempt a request is
	ReportsPrompt
	ReportsCached
	ReportsOutput
	ReportsKV // enough to compute the KV occupancy, exactly or by Little's law
)

// knows reports whether a value of this window is known: it was reported in this minute, or the minute is covered
// without records and the class reports the value.
func (w *Window) knows(what Reports) bool {
	return w.Covered && (w.Known&what != 0 || w.Records == 0 && w.Reports&what != 0)
}

// unixTime is an instant in nanoseconds from the Unix epoch. Computing with it is several times faster than with a
// time.Time.
type unixTime int64

// never is the unixTime of a time that is not known.
const never unixTime = math.MinInt64

const (
	second       unixTime = 1e9
	minuteLength          = unixTime(Minute)
	maxSeconds            = math.MaxInt64 / int64(second) // some 292 years from the epoch
)

// unixTimeOf gives never for the zero time; times beyond the range count as its ends.
func unixTimeOf(t time.Time) unixTime {
	if t.IsZero() {
		return never
	}
	s := min(max(t.Unix(), 1-maxSeconds), maxSeconds-1)
	return unixTime(s)*second + unixTime(t.Nanosecond())
}

func (m unixTime) minute() int64 {
	n := int64(m / minuteLength)
	if m%minuteLength < 0 {
		n-- // round down, also before 1970
	}
	return n
}

// time is the inverse of unixTimeOf.
func (m unixTime) time() time.Time {
	if m == never {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).UTC()
}

func (m unixTime) secondsTo(o unixTime) float64 { return float64(o-m) / float64(second) }

// startOf is the instant at which a minute begins.
func startOf(minute int64) time.Time { return time.Unix(minute*int64(seconds), 0).UTC() }

// minutes is d in minutes, rounded up.
func minutes(d time.Duration) int64 { return int64((d + Minute - 1) / Minute) }
