package codec

import (
	"bytes"
	"time"
)

// SGLang's request metrics, one JSON object a line (--export-metrics-to-file): the members of meta_info, and
// request_parameters, a string of JSON that may hold the prompt. Times are in seconds.
// Source of the names: sgl-project/sglang, python/sglang/srt/managers/request_metrics_exporter.py.
var sglang = &foreign{read: (*Decoder).sglangLine, fields: newFieldTable(sglangPaths.below("", "meta_info.").or(ownPaths.below("", "labels."), paths{
	fieldID:              {"request_parameters.rid"},
	fieldModel:           {"request_parameters.model", "model", "model_name", "served_model_name", "labels.model_name"},
	fieldTier:            {"request_parameters.priority"},
	fieldRoute:           {"route"},
	fieldReplica:         {"replica", "labels.replica", "host"},
	fieldSession:         {"request_parameters.session_params.id", "request_parameters.session_id"},
	fieldMaxOutputTokens: {"request_parameters.sampling_params.max_new_tokens"},
}))}

var sglangPaths = paths{
	fieldID:           {"id"},
	fieldArrivedAt:    {"request_received_ts"},
	fieldStartedAt:    {"forward_entry_time"},
	fieldFirstTokenAt: {"prefill_finished_ts", "prefill_finished_time", "first_token_ts"},
	fieldFinishedAt:   {"request_finished_ts", "decode_finished_ts"},
	fieldQueueS:       {"queue_time"},
	fieldDurationS:    {"e2e_latency"},
	fieldPromptTokens: {"prompt_tokens"},
	fieldCachedTokens: {"cached_tokens"},
	fieldOutputTokens: {"completion_tokens"},
	fieldStatus:       {"finish_reason.type", "finish_reason"},
	fieldCode:         {"finish_reason.status_code"},
}

// sglangLine reads a line. Some times of older versions count from the start of the machine and are
// treated as unknown. Its health checks are ignored.
func (d *Decoder) sglangLine(r *record) {
	if bytes.Contains(r.text(fieldID), []byte("HEALTH_CHECK")) {
		d.skip()
		return
	}
	q := d.requestOf(r)
	if q.FirstTokenAt.Before(q.ArrivedAt) || q.OutputTokens == 0 {
		q.FirstTokenAt = time.Time{}
	}
	d.accept(&q)
}
