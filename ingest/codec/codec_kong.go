package codec

import "bytes"

// Lines of Kong's http-log and file-log plugins, with what its AI Proxy plugins say of a call of a model.
// Names: https://developer.konghq.com/ai-gateway/ai-audit-log-reference/, and Kong/kong: kong/llm/plugin/shared-filters/serialize-analytics.lua.
var kongFields = newFieldTree(append([]source{
	{fieldID, "request.id"},
	{fieldPool, "pool"},
	{fieldPool, "request.headers.x-forewarm-pool"},
	{fieldClass, "class"},
	{fieldClass, "request.headers.x-forewarm-class"},
	{fieldTenant, "consumer.username"},
	{fieldTenant, "consumer.custom_id"},
	{fieldTenant, "consumer.id"},
	{fieldTier, "request.headers.x-tier"},
	{fieldFeature, "request.headers.x-feature"},
	{fieldRoute, "route.name"},
	{fieldRoute, "service.name"},
	{fieldSession, "request.headers.x-session-id"},
	{fieldCode, "response.status"},
	{fieldObject, "request.method"},
	{fieldArrivedAt, "started_at"},
	{fieldDurationMS, "latencies.request"},
}, kongMembers("ai.proxy.", "ai.proxy-advanced.", "ai.ai-proxy.", "ai.ai-proxy-advanced.")...))

// kongMembers are what a plugin says, below each of prefixes.
func kongMembers(prefixes ...string) (sources []source) {
	for _, prefix := range prefixes {
		sources = append(sources,
			source{fieldModel, prefix + "meta.request_model"},
			source{fieldModel, prefix + "meta.response_model"},
			source{fieldTTFTMS, prefix + "usage.time_to_first_token"},
			source{fieldPromptTokens, prefix + "usage.prompt_token"}, // before Kong 3.8
			source{fieldOutputTokens, prefix + "usage.completion_token"},
			source{fieldCacheHit, prefix + "cache.cache_status"},
		)
		sources = append(sources, usageMembers(prefix+"usage.")...)
	}
	return sources
}

// decodeKong reads lines. Calls of other services, calls that send nothing to a model, and answers from Kong's semantic cache are
// passed over. Kong itself answers 429 where its rate limits refuse a call: such a line counts where the AI Proxy named the model or
// the record names a pool.
func decodeKong(d *decoder, data []byte) {
	d.foreign(data, func(d *decoder, r *record) {
		if bytes.EqualFold(r.members[fieldCacheHit].raw, []byte("hit")) || !r.counted() && (!r.has(fieldModel) && !r.has(fieldPool) || !isLLMCall(r.members[fieldObject])) {
			d.skip()
			return
		}
		q := d.requestOf(r)
		if q.Model == "UNSPECIFIED" {
			q.Model = "" // Kong does not know it
		}
		d.inferTokens(r, &q)
		d.accept(&q)
	})
}
