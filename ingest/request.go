package ingest

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// Unknown marks a token count that the producer did not report. It is never zero: a missing cached count must not
// drag a hit rate down.
const Unknown int64 = -1

// Phase says at which point of a request's life its record was written.
type Phase uint8

// The phases of a request. A producer that writes one record a request, at its end, uses PhaseFinished.
const (
	PhaseFinished Phase = iota
	PhaseArrived
	PhaseRejected
	PhaseCancelled
)

var phaseNames = []string{"finished", "arrived", "rejected", "cancelled"}

// String gives the name that records use.
func (p Phase) String() string { return nameOf(phaseNames, int(p)) }

// Status is how a request ended.
type Status uint8

// The outcomes of a request.
const (
	StatusOK Status = iota
	StatusError
	StatusRejected
	StatusCancelled
)

var statusNames = []string{"ok", "error", "rejected", "cancelled"}

// String gives the name that records use.
func (s Status) String() string { return nameOf(statusNames, int(s)) }

// Request is one telemetry record of one inference request (forewarm.request.v1).
//
// Only Pool, one of ArrivedAt and FinishedAt, and PromptTokens are required, the last of requests that were served: who
// turns one away need not count its tokens. A zero time and the count [Unknown] mean
// "not reported". Token counts include cached tokens in the prompt, as OpenAI and OpenTelemetry count them. All strings
// are bounded by [Limits]; Session is a hash (see [HashSession]), the clear value is never kept.
//
// A decoded request also satisfies: every count is [Unknown] or within [0, Limits.Tokens]; CachedTokens ≤ PromptTokens;
// FinishedAt, when known, is not before any other known time; Attempt ≥ 1. The other times may stand in any order, for
// gateways and engines read different clocks.
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

	// Blocks are the sequence hashes of the prompt's leading blocks of BlockTokens tokens each, where a producer reports
	// them in place of cached tokens: each hash stands for its block and all before it.
	Blocks      []uint64
	BlockTokens int64
}

// EventTime is the instant a request counts at: its arrival, or its end when the arrival is not known.
func (r *Request) EventTime() time.Time {
	if !r.ArrivedAt.IsZero() {
		return r.ArrivedAt
	}
	return r.FinishedAt
}

// nameOf gives names[i], and "unknown" for a value that no constant has.
func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}

// HashSession is how the opaque name of a conversation or agent run is kept: as its 64-bit xxHash (seed 0), so that the
// clear value need not be. 0 stands for no session.
func HashSession(session string) uint64 {
	if session == "" {
		return 0
	}
	return xxhash.Sum64String(session)
}
