package ingest

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// Unknown is a token count that the producer did not report. It is not zero, so that a missing cached count does not
// lower a hit rate.
const Unknown int64 = -1

// Phase is the point of a request's life at which its record was written.
type Phase uint8

// The phases of a request. A producer that writes one record a request, at its end, uses PhaseFinished.
const (
	PhaseFinished Phase = iota
	PhaseArrived
	PhaseRejected
	PhaseCancelled
)

// PhaseNames are the names that records use, by value.
var PhaseNames = []string{"finished", "arrived", "rejected", "cancelled"}

// String gives the name that records use.
func (p Phase) String() string { return nameOf(PhaseNames, int(p)) }

// Status is how a request ended.
type Status uint8

// The outcomes of a request.
const (
	StatusOK Status = iota
	StatusError
	StatusRejected
	StatusCancelled
)

// StatusNames are the names that records use, by value.
var StatusNames = []string{"ok", "error", "rejected", "cancelled"}

// String gives the name that records use.
func (s Status) String() string { return nameOf(StatusNames, int(s)) }

// Request is one telemetry record of one inference request (forewarm.request.v1).
//
// Only Pool, one of ArrivedAt and FinishedAt, and PromptTokens are required, the last only for served requests: a
// producer that turns a request away need not count its tokens. A zero time and the count [Unknown] mean "not
// reported". Prompt counts include cached tokens, as in OpenAI and OpenTelemetry. All strings are bounded by [Limits];
// Session is a hash (see [HashSession]), the clear value is never kept.
//
// A decoded request also satisfies: every count is [Unknown] or within [0, Limits.Tokens]; CachedTokens ≤ PromptTokens;
// FinishedAt, when known, is not before any other known time; Attempt ≥ 1. The other times may have any order, because
// gateways and engines have different clocks.
type Request struct {
	ID                                                       string
	Pool, Class                                              string
	Model, Tenant, Tier, Feature, Route, Region, ReplicaName string

	Phase   Phase
	Status  Status
	Attempt int    // 1 is the first try; more are retries of one user call
	Session uint64 // 0 when there is none

	ArrivedAt, StartedAt, FirstTokenAt, FinishedAt time.Time

	PromptTokens, CachedTokens, OutputTokens, MaxOutputTokens int64
}

// EventTime is the time at which a request counts: its arrival, or its end when the arrival is unknown.
func (r *Request) EventTime() time.Time {
	if !r.ArrivedAt.IsZero() {
		return r.ArrivedAt
	}
	return r.FinishedAt
}

// nameOf returns names[i], or "unknown" for a value without a name.
func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}

// HashSession is the 64-bit xxHash (seed 0) of the name of a conversation or agent run. It is kept in place of the
// clear value. 0 is no session.
func HashSession[T string | []byte](session T) uint64 {
	if len(session) == 0 {
		return 0
	}
	return xxhash.Sum64([]byte(session))
}
