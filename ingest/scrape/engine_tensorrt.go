package scrape

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// trtllm reads TensorRT-LLM's own server, trtllm-serve, which has its metrics at /prometheus/metrics.
var trtllm = engine{
	name:    "trtllm",
	anchors: []string{"trtllm_num_requests_running", "trtllm_num_requests_waiting", "trtllm_kv_cache_utilization"},
	read:    readTRTLLM,
}

func readTRTLLM(r rank, to *ingest.Replica) {
	block := r.gauge("trtllm_kv_cache_tokens_per_block")
	to.KVCapacityTokens = tokens(positive(block * r.gauge("trtllm_kv_cache_max_blocks")))
	to.KVUsedTokens = tokens(block * r.gauge("trtllm_kv_cache_used_blocks"))
	to.KVUsedRatio = ratio(r.gauge("trtllm_kv_cache_utilization"))
	to.Running = requests(r.gauge("trtllm_num_requests_running"))
	to.Waiting = requests(r.gauge("trtllm_num_requests_waiting"))
	hits, queries := trtllmPrefix(r, block)
	setPrefix(to, hits, queries)
}

// trtllmPrefix gives the prompt tokens that were not computed, and all of them: as requests report them, where that is
// on (return_perf_metrics), else by the blocks of the cache.
func trtllmPrefix(r rank, block float64) (hits, queries float64) {
	hits, queries = r.counter("trtllm_prompt_cached_tokens_total"), positive(r.counter("trtllm_prompt_tokens_total"))
	if !math.IsNaN(hits + queries) {
		return hits, queries
	}
	hits = r.counter("trtllm_kv_cache_reused_blocks_total")
	return block * hits, block * (hits + r.counter("trtllm_kv_cache_missed_blocks_total"))
}

// triton reads Triton with the TensorRT-LLM backend, a replica for each model.
var triton = engine{
	name:    "triton",
	anchors: []string{"nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"},
	labels:  []string{"model"},
	read:    readTriton,
}

func readTriton(r rank, to *ingest.Replica) {
	of := func(kind string) float64 {
		return r.with("request_type", kind).gauge("nv_trt_llm_request_metrics")
	}
	blocks := func(kind string) float64 {
		return r.with("kv_cache_block_type", kind).gauge("nv_trt_llm_kv_cache_block_metrics")
	}
	block := blocks("tokens_per")
	to.KVCapacityTokens = tokens(positive(block * blocks("max")))
	to.KVUsedTokens = tokens(block * blocks("used"))
	to.KVUsedRatio = ratio(first(blocks("fraction"), blocks("used")/positive(blocks("max"))))
	to.Running = requests(of("scheduled"))
	to.Waiting = requests(of("waiting"))
}
