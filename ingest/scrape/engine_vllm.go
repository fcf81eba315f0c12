package scrape

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// vllm reads vLLM, old names included; each data-parallel engine has the label engine. KV use is what running requests
// hold: blocks that are cached and free do not count. Ray Serve LLM exposes the same metrics as ray_vllm_*, one series
// for each replica on the node, and NVIDIA NIM exposes them without a prefix (see canonical). Names and the label
// ReplicaId: github.com/vllm-project/vllm, vllm/v1/metrics/ray_wrappers.py; of NIM:
// github.com/DataDog/integrations-core, nvidia_nim/datadog_checks/nvidia_nim/metrics.py.
var vllm = engine{
	name:    "vllm",
	anchors: []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
	labels:  []string{"engine", "ReplicaId"},
	read:    readVLLM,
}

func readVLLM(r rank, to *ingest.Replica) {
	const info = "vllm:cache_config_info"
	to.KVCapacityTokens = tokens(positive(first(r.info(info, "kv_cache_size_tokens"), r.info(info, "block_size")*r.info(info, "num_gpu_blocks"))))
	to.KVUsedRatio = ratio(r.gauge("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"))
	to.Running = requests(r.gauge("vllm:num_requests_running"))
	to.Waiting = requests(r.gauge("vllm:num_requests_waiting"))
	to.PreemptionsTotal = total(r.counter("vllm:num_preemptions_total", "vllm:num_preemptions"))
	hits, queries := vllmPrefix(r)
	setPrefix(to, hits, queries)
	if r.with("sleep_state", "awake").gauge("vllm:engine_sleep_state") == 0 {
		to.State = ingest.ReplicaDraining // it is there and takes no work
	}
}

// vllmPrefix gives the prompt tokens that were not computed, and all of them. The cache's own counters come last, for
// they count a waiting request again at each step of the scheduler.
func vllmPrefix(r rank) (hits, queries float64) {
	const prompt, sources = "vllm:prompt_tokens_total", "vllm:prompt_tokens_by_source_total"
	hits, queries = r.counter("vllm:prompt_tokens_cached_total"), r.counter(prompt)
	if !math.IsNaN(hits + queries) {
		return hits, queries
	}
	if queries = r.counter(sources); !math.IsNaN(queries) {
		return queries - first(r.with("source", "local_compute").counter(sources), 0), queries
	}
	return r.counter("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
		r.counter("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
}
