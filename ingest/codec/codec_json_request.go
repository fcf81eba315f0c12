package codec

import "github.com/forewarm/forewarm/ingest"

// decodeRequest decodes into the batch's next slot, and gives the slot back when the record is refused.
func decodeRequest(d *decoder, data []byte) {
	d.batch.Requests = append(d.batch.Requests, emptyRequest)
	last := len(d.batch.Requests) - 1
	if r := &d.batch.Requests[last]; d.object(data, func(v value) { d.requestMember(v, r) }) {
		d.completeRequest(r)
	}
	if d.refusal.Reason != "" {
		d.batch.Requests = d.batch.Requests[:last]
	}
}

// requestMember takes one member of a request; names that are not known are ignored.
func (d *decoder) requestMember(v value, r *ingest.Request) {
	limit := d.limits.Tokens
	switch string(v.key) {
	case "id":
		d.id(v, &r.ID)
	case "pool":
		d.label(v, &r.Pool)
	case "class":
		d.label(v, &r.Class)
	case "model":
		d.label(v, &r.Model)
	case "tenant":
		d.label(v, &r.Tenant)
	case "tier":
		d.label(v, &r.Tier)
	case "feature":
		d.label(v, &r.Feature)
	case "route":
		d.label(v, &r.Route)
	case "region":
		d.label(v, &r.Region)
	case "replica":
		d.label(v, &r.ReplicaName)
	case "arrived_at":
		d.time(v, &r.ArrivedAt)
	case "started_at":
		d.time(v, &r.StartedAt)
	case "first_token_at":
		d.time(v, &r.FirstTokenAt)
	case "finished_at":
		d.time(v, &r.FinishedAt)
	case "prompt_tokens":
		d.count(v, limit, &r.PromptTokens)
	case "cached_tokens":
		d.count(v, limit, &r.CachedTokens)
	case "output_tokens":
		d.count(v, limit, &r.OutputTokens)
	case "max_output_tokens":
		d.count(v, limit, &r.MaxOutputTokens)
	case "attempt":
		attempt := int64(r.Attempt)
		d.count(v, limit, &attempt)
		r.Attempt = int(attempt)
	case "session_hash":
		d.sessionHash(v, &r.Session)
	case "session":
		d.session(v, &r.Session)
	case "phase":
		enum(d, v, phaseNames[:], &r.Phase)
	case "status":
		enum(d, v, statusNames[:], &r.Status)
	}
}
