package codec

// Lines of Kong's http-log and file-log plugins, with the fields of its AI Proxy plugins. Names:
// https://developer.konghq.com/ai-gateway/ai-audit-log-reference/, and Kong/kong:
// kong/llm/plugin/shared-filters/serialize-analytics.lua.
var kong = &foreign{read: (*Decoder).kongLine, fields: newFieldTable(paths{
	fieldID:         {"request.id"},
	fieldPool:       {"pool", "request.headers.x-forewarm-pool"},
	fieldClass:      {"class", "request.headers.x-forewarm-class"},
	fieldTenant:     {"consumer.username", "consumer.custom_id", "consumer.id"},
	fieldTier:       {"request.headers.x-tier"},
	fieldFeature:    {"request.headers.x-feature"},
	fieldRoute:      {"route.name", "service.name"},
	fieldSession:    {"request.headers.x-session-id"},
	fieldCode:       {"response.status"},
	fieldMethod:     {"request.method"},
	fieldArrivedAt:  {"started_at"},
	fieldDurationMS: {"latencies.request"},
}.or(kongPaths.or(usagePaths.below("usage.")).below("ai.proxy.", "ai.proxy-advanced.", "ai.ai-proxy.", "ai.ai-proxy-advanced.")))}

var kongPaths = paths{
	fieldModel:        {"meta.request_model", "meta.response_model"},
	fieldTTFTMS:       {"usage.time_to_first_token"},
	fieldPromptTokens: {"usage.prompt_token"},
	fieldOutputTokens: {"usage.completion_token"},
	fieldCacheHit:     {"cache.cache_status"},
}

// kongLine reads a line. It ignores calls of other services, calls that send nothing to a model, and answers from
// Kong's semantic cache. Kong itself answers 429 when its rate limits refuse a call. Such a line counts if it has a
// model of the AI Proxy or a pool.
func (d *Decoder) kongLine(r *record) {
	refused := (r.has(fieldModel) || r.has(fieldPool)) && isLLMCall(r.members[fieldMethod])
	if r.is(fieldCacheHit, "hit") || !r.counted() && !refused {
		d.skip()
		return
	}
	q := d.requestOf(r)
	if q.Model == "UNSPECIFIED" {
		q.Model = "" // Kong does not know it
	}
	d.inferTokens(r, &q, false)
	d.accept(&q)
}
