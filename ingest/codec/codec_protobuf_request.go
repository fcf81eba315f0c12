package codec

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// The tags of forewarm.v1.Request.
const (
	requestID              = 1<<3 | 2
	requestPool            = 2 << 3
	requestClass           = 3 << 3
	requestModel           = 4 << 3
	requestTenant          = 5 << 3
	requestSessionHash     = 6<<3 | 1
	requestArrivedAt       = 7<<3 | 1
	requestStartedAt       = 8<<3 | 1
	requestFirstTokenAt    = 9<<3 | 1
	requestFinishedAt      = 10<<3 | 1
	requestPromptTokens    = 11 << 3
	requestCachedTokens    = 12 << 3
	requestOutputTokens    = 13 << 3
	requestMaxOutputTokens = 14 << 3
	requestAttempt         = 15 << 3
	requestPhase           = 16 << 3
	requestStatus          = 17 << 3
	requestTier            = 18 << 3
	requestFeature         = 19 << 3
	requestRoute           = 20 << 3
	requestRegion          = 21 << 3
	requestReplica         = 22 << 3
	requestSession         = 23<<3 | 2
	requestBlocks          = 24<<3 | 2
	requestBlock           = 24<<3 | 1 // an element of an unpacked list
	requestBlockTokens     = 25 << 3
)

// requestFields are the names by number, for refusals.
var requestFields = [...]string{
	1: "id", "pool", "class", "model", "tenant", "session_hash", "arrived_at", "started_at", "first_token_at", "finished_at",
	"prompt_tokens", "cached_tokens", "output_tokens", "max_output_tokens", "attempt", "phase", "status",
	"tier", "feature", "route", "region", "replica", "session", "blocks", "block_tokens",
}

// protobufRequest decodes one Request into the batch's next slot, and gives the slot back when it is refused.
func (d *decoder) protobufRequest(data []byte) {
	b := d.batch
	n := len(b.Requests)
	b.Requests = append(b.Requests, emptyRequest)
	r := &b.Requests[n]
	d.protobufRequestFields(data, r)
	if d.refusal.Reason == "" {
		d.completeRequest(r)
	}
	if d.refusal.Reason != "" {
		b.Requests = b.Requests[:n]
		return
	}
}

func (d *decoder) protobufRequestFields(data []byte, r *ingest.Request) {
	limit := d.limits.Tokens
	attempt := int64(1)
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case requestID:
			d.protobufID(w.bytes(), "id", &r.ID)
		case requestPool:
			d.protobufLabel(w.varint(), "pool", &r.Pool)
		case requestClass:
			d.protobufLabel(w.varint(), "class", &r.Class)
		case requestModel:
			d.protobufLabel(w.varint(), "model", &r.Model)
		case requestTenant:
			d.protobufLabel(w.varint(), "tenant", &r.Tenant)
		case requestSessionHash:
			r.Session = w.fixed64()
		case requestArrivedAt:
			d.protobufTime(w.fixed64(), "arrived_at", &r.ArrivedAt)
		case requestStartedAt:
			d.protobufTime(w.fixed64(), "started_at", &r.StartedAt)
		case requestFirstTokenAt:
			d.protobufTime(w.fixed64(), "first_token_at", &r.FirstTokenAt)
		case requestFinishedAt:
			d.protobufTime(w.fixed64(), "finished_at", &r.FinishedAt)
		case requestPromptTokens:
			d.protobufCount(w.varint(), "prompt_tokens", limit, &r.PromptTokens)
		case requestCachedTokens:
			d.protobufCount(w.varint(), "cached_tokens", limit, &r.CachedTokens)
		case requestOutputTokens:
			d.protobufCount(w.varint(), "output_tokens", limit, &r.OutputTokens)
		case requestMaxOutputTokens:
			d.protobufCount(w.varint(), "max_output_tokens", limit, &r.MaxOutputTokens)
		case requestAttempt:
			d.protobufCount(w.varint(), "attempt", limit, &attempt)
		case requestPhase:
			protobufEnum(d, w.varint(), "phase", phaseNames[:], &r.Phase)
		case requestStatus:
			protobufEnum(d, w.varint(), "status", statusNames[:], &r.Status)
		case requestTier:
			d.protobufLabel(w.varint(), "tier", &r.Tier)
		case requestFeature:
			d.protobufLabel(w.varint(), "feature", &r.Feature)
		case requestRoute:
			d.protobufLabel(w.varint(), "route", &r.Route)
		case requestRegion:
			d.protobufLabel(w.varint(), "region", &r.Region)
		case requestReplica:
			d.protobufLabel(w.varint(), "replica", &r.ReplicaName)
		case requestSession:
			d.protobufSession(w.bytes(), &r.Session)
		case requestBlocks:
			d.protobufBlocks(w.bytes(), &r.Blocks)
		case requestBlock:
			r.Blocks = append(r.Blocks, w.fixed64())
		case requestBlockTokens:
			d.protobufCount(w.varint(), "block_tokens", limit, &r.BlockTokens)
		default:
			d.protobufOther(&w, tag, requestFields[:])
		}
	}
	if len(r.Blocks) > 0 && r.BlockTokens == 0 {
		d.fail(ingest.ReasonMissingField, "block_tokens is missing")
	} else if len(r.Blocks) > 0 {
		most := (max(r.PromptTokens, 0) + r.BlockTokens - 1) / r.BlockTokens // the last block may be a part of one
		r.Blocks = r.Blocks[:min(len(r.Blocks), int(most))]
	}
	r.Attempt = int(max(attempt, 1))
	d.protobufEnd(&w)
}

// protobufSession reads the clear name of a session and keeps its hash.
func (d *decoder) protobufSession(name []byte, to *uint64) {
	if len(name) == 0 {
		return // session_hash may have it
	}
	if !utf8.Valid(name) {
		d.fail(ingest.ReasonInvalidUTF8, "session is not valid UTF-8")
		return
	}
	*to = hashSession(name)
}

// protobufBlocks reads a packed list of hashes.
func (d *decoder) protobufBlocks(packed []byte, to *[]uint64) {
	if len(packed)%8 != 0 {
		d.fail(ingest.ReasonNotProtobuf, "blocks has %d bytes, want 8 for each", len(packed))
		return
	}
	for ; len(packed) > 0; packed = packed[8:] {
		*to = append(*to, binary.LittleEndian.Uint64(packed))
	}
}
