package ingest

import (
	"time"

	"github.com/buger/jsonparser"
)

// requestKey numbers the members of a request by the order of their kinds.
type requestKey uint8

const (
	keyID requestKey = iota
	keyPool
	keyClass
	keyModel
	keyTenant
	keyTier
	keyFeature
	keyRoute
	keyRegion
	keyReplica
	keyArrivedAt
	keyStartedAt
	keyFirstTokenAt
	keyFinishedAt
	keyPromptTokens
	keyCachedTokens
	keyOutputTokens
	keyMaxOutputTokens
	keyAttempt
	keySessionHash
	keySession
	keyPhase
	keyStatus
	keyOther // not known
)

var requestKeyNames = [...]string{
	"id", "pool", "class", "model", "tenant", "tier", "feature", "route", "region", "replica",
	"arrived_at", "started_at", "first_token_at", "finished_at",
	"prompt_tokens", "cached_tokens", "output_tokens", "max_output_tokens", "attempt",
	"session_hash", "session", "phase", "status",
}

var requestKeyBytes = func() (all [keyOther][]byte) {
	for k, name := range requestKeyNames {
		all[k] = []byte(name)
	}
	return all
}()

func requestKeyOf(name []byte) requestKey {
	for k, known := range requestKeyNames {
		if known == string(name) {
			return requestKey(k)
		}
	}
	return keyOther
}

// label, time and count are where a member of that kind goes.
func (k requestKey) label(r *Request) *string {
	switch k {
	case keyPool:
		return &r.Pool
	case keyClass:
		return &r.Class
	case keyModel:
		return &r.Model
	case keyTenant:
		return &r.Tenant
	case keyTier:
		return &r.Tier
	case keyFeature:
		return &r.Feature
	case keyRoute:
		return &r.Route
	case keyRegion:
		return &r.Region
	}
	return &r.ReplicaName
}

func (k requestKey) time(r *Request) *time.Time {
	switch k {
	case keyArrivedAt:
		return &r.ArrivedAt
	case keyStartedAt:
		return &r.StartedAt
	case keyFirstTokenAt:
		return &r.FirstTokenAt
	}
	return &r.FinishedAt
}

func (k requestKey) count(r *requestReader) *int64 {
	switch k {
	case keyPromptTokens:
		return &r.at.PromptTokens
	case keyCachedTokens:
		return &r.at.CachedTokens
	case keyOutputTokens:
		return &r.at.OutputTokens
	case keyMaxOutputTokens:
		return &r.at.MaxOutputTokens
	}
	return &r.attempt
}

// decodeRequest decodes into the batch's next slot, and gives the slot back when the record is refused.
func decodeRequest(d *decoder, data []byte) {
	d.batch.Requests = append(d.batch.Requests, emptyRequest)
	last := len(d.batch.Requests) - 1
	r := &d.request
	r.at, r.attempt, r.previous = &d.batch.Requests[last], 1, keyOther
	if d.wholeObject(data, r, nil) {
		r.at.Attempt = int(r.attempt)
		d.completeRequest(r.at)
	}
	if r.at = nil; d.refusal.Reason != "" {
		d.batch.Requests = d.batch.Requests[:last]
	}
}

// requestPair scans one member of a request and takes what it says.
func (d *decoder) requestPair(s *scanner, r *requestReader) (reason Reason) {
	named := r.expected(s)
	if named && d.usualValue(s, r) {
		return ""
	}
	var v value
	if named {
		v.key = requestKeyBytes[r.key]
	} else {
		if reason = d.key(s, &v); reason != "" {
			return reason
		}
		if r.learn(requestKeyOf(v.key)); d.usualValue(s, r) {
			return ""
		}
	}
	if reason = s.content(&v); reason == "" && v.typ != jsonparser.Null {
		d.requestMember(v, r)
	}
	return reason
}

// requestMember takes a member of a request in any form.
func (d *decoder) requestMember(v value, r *requestReader) {
	switch k := r.key; {
	case k == keyID:
		d.id(v, &r.at.ID)
	case k <= keyReplica:
		d.label(v, k.label(r.at))
	case k <= keyFinishedAt:
		d.time(v, k.time(r.at))
	case k <= keyAttempt:
		d.count(v, d.limits.Tokens, k.count(r))
	case k == keySessionHash:
		d.sessionHash(v, &r.at.Session)
	case k == keySession:
		d.session(v, &r.at.Session)
	case k == keyPhase:
		enum(d, v, phaseNames[:], &r.at.Phase)
	case k == keyStatus:
		enum(d, v, statusNames[:], &r.at.Status)
	}
}
