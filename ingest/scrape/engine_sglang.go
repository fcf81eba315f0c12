package scrape

import "github.com/forewarm/forewarm/ingest"

// sglang reads SGLang. Each data-parallel rank has the label dp_rank; tensor-parallel ranks repeat its gauges, and
// priorities split them. Token counters are those of the whole server. A decode worker's queue is of requests that wait
// for KV memory to be allocated (num_decode_prealloc_queue_reqs); those that a prefill worker has not sent yet are not
// its own.
var sglang = engine{
	name:    "sglang",
	anchors: []string{"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"},
	labels:  []string{"dp_rank"},
	read:    readSGLang,
}

func readSGLang(r rank, to *ingest.Replica) {
	const info = "sglang:cache_config_info"
	to.KVCapacityTokens = tokens(positive(first(
		positive(r.gauge("sglang:max_total_num_tokens")),
		r.gauge("sglang:page_size")*r.gauge("sglang:num_pages"),
		r.info(info, "page_size")*r.info(info, "num_pages"),
	)))
	to.KVUsedTokens = tokens(r.gauge("sglang:num_used_tokens"))
	to.KVUsedRatio = ratio(r.gauge("sglang:token_usage"))
	to.Running = requests(r.gauge("sglang:num_running_reqs"))
	to.Waiting = requests(r.gauge("sglang:num_queue_reqs") + first(r.gauge("sglang:num_decode_prealloc_queue_reqs"), 0))
	to.PreemptionsTotal = total(r.counter("sglang:num_retracted_requests_total"))
	setPrefix(to, r.counter("sglang:cached_tokens_total"), r.counter("sglang:prompt_tokens_total"))
	to.StartupSeconds = positive(r.gauge("sglang:engine_startup_time")) // some versions expose it and never set it
}
