package codec

import (
	"bytes"
	"time"
)

// SGLang's request metrics, one JSON object a line (--export-metrics-to-file): the members of meta_info beside
// request_parameters, a string of JSON that holds the prompt unless it was left out. Times are in seconds.
// Source of the names: sgl-project/sglang, python/sglang/srt/managers/request_metrics_exporter.py.
var sglangFields = newFieldTree(append(sglangMembers("", "meta_info."), []source{
	{fieldID, "request_parameters.rid"},
	{fieldPool, "pool"},
	{fieldPool, "labels.pool"},
	{fieldClass, "class"},
	{fieldClass, "labels.class"},
	{fieldModel, "request_parameters.model"},
	{fieldModel, "model"},
	{fieldModel, "model_name"},
	{fieldModel, "served_model_name"},
	{fieldModel, "labels.model_name"},
	{fieldTenant, "tenant"},
	{fieldTenant, "labels.tenant"},
	{fieldTier, "tier"},
	{fieldTier, "labels.tier"},
	{fieldTier, "request_parameters.priority"},
	{fieldFeature, "feature"},
	{fieldFeature, "labels.feature"},
	{fieldRoute, "route"},
	{fieldReplica, "replica"},
	{fieldReplica, "labels.replica"},
	{fieldReplica, "host"}, // of the log shipper
	{fieldSession, "request_parameters.session_params.id"},
	{fieldSession, "request_parameters.session_id"},
	{fieldMaxOutputTokens, "request_parameters.sampling_params.max_new_tokens"},
}...))

// sglangMembers are the members of meta_info, below each of prefixes.
func sglangMembers(prefixes ...string) (sources []source) {
	for _, prefix := range prefixes {
		for _, s := range [...]source{
			{fieldID, "id"},
			{fieldArrivedAt, "request_received_ts"},
			{fieldStartedAt, "forward_entry_time"},
			{fieldFirstTokenAt, "prefill_finished_ts"},
			{fieldFirstTokenAt, "prefill_finished_time"},
			{fieldFirstTokenAt, "first_token_ts"},
			{fieldFinishedAt, "request_finished_ts"},
			{fieldFinishedAt, "decode_finished_ts"},
			{fieldQueueS, "queue_time"},
			{fieldDurationS, "e2e_latency"},
			{fieldPromptTokens, "prompt_tokens"},
			{fieldCachedTokens, "cached_tokens"},
			{fieldOutputTokens, "completion_tokens"},
			{fieldStatus, "finish_reason.type"},
			{fieldStatus, "finish_reason"},
			{fieldCode, "finish_reason.status_code"},
		} {
			sources = append(sources, source{s.field, prefix + s.path})
		}
	}
	return sources
}

// decodeSGLang reads SGLang's request metrics. Older versions count some instants from the start of the machine; those
// are not known. Its health checks are passed over.
func decodeSGLang(d *decoder, data []byte) {
	d.foreign(data, func(d *decoder, r *record) {
		if bytes.Contains(r.members[fieldID].raw, []byte("HEALTH_CHECK")) {
			d.skip()
			return
		}
		q := d.requestOf(r)
		if q.FirstTokenAt.Before(q.ArrivedAt) || q.OutputTokens == 0 {
			q.FirstTokenAt = time.Time{}
		}
		d.accept(&q)
	})
}
