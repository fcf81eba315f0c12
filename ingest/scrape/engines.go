package scrape

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

type engine struct {
	name    string
	anchors []string            // metrics that every rank has; without one of them it is not this engine
	labels  []string            // that distinguish ranks
	keep    func(s sample) bool // selects the series of the anchors that are of ranks; nil for all
	workers bool                // ranks are workers elsewhere, with names of their own, and not parts of the target
	read    func(r rank, to *ingest.Replica)
}

// engines lists every engine, in the order in which they are looked for. Those with workers come last: their metrics
// count only if the target has none of an engine of its own.
var engines = [...]engine{
	{
		name:    "vllm",
		anchors: []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
		labels:  []string{"engine", "ReplicaId"},
		read:    readVLLM,
	},
	{
		name:    "sglang",
		anchors: []string{"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"},
		labels:  []string{"dp_rank"},
		read:    readSGLang,
	},
	{
		name:    "trtllm",
		anchors: []string{"trtllm_num_requests_running", "trtllm_num_requests_waiting", "trtllm_kv_cache_utilization"},
		read:    readTRTLLM,
	},
	{
		name:    "triton",
		anchors: []string{"nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"},
		labels:  []string{"model"},
		read:    readTriton,
	},
	{
		name:    "dynamo",
		anchors: []string{"dynamo_frontend_worker_active_decode_blocks", "dynamo_frontend_worker_waiting_requests"},
		labels:  []string{"worker_id", "dp_rank"},
		keep:    func(s sample) bool { return s.labels.Get("worker_type") != "prefill" },
		workers: true,
		read:    readDynamo,
	},
	pickerOf("epp", "llm_d_epp_per_endpoint_queue_size", "model_server_endpoint", "llm_d_epp_average_kv_cache_utilization"),
	pickerOf("inferencepool", "inference_pool_per_pod_queue_size", "model_server_pod", "inference_pool_average_kv_cache_utilization"),
}

// Auto finds the engine out by its metrics.
const Auto = "auto"

// Engines lists what a job's engine may be.
func Engines() []string {
	names := []string{Auto}
	for i := range engines {
		names = append(names, engines[i].name)
	}
	return names
}

// maxRanks bounds the replicas of one target.
const maxRanks = 1024

// replicas gives the replicas of a target, and their engine: the wanted one; with [Auto] the first of engines that is
// there. The caller sets pool, time and start.
func (e exposition) replicas(target, wanted string) (out []ingest.Replica, g *engine, err error) {
	var ranks []rank
	for i := range engines {
		if g = &engines[i]; wanted == Auto || wanted == g.name {
			if ranks = e.ranks(g); len(ranks) > 0 {
				break
			}
		}
	}
	switch {
	case len(ranks) > maxRanks:
		return nil, nil, fmt.Errorf("%d engines in one answer, the limit is %d", len(ranks), maxRanks)
	case len(ranks) == 0:
		if wanted == Auto {
			wanted = strings.Join(Engines()[1:], ", ")
		}
		return nil, nil, fmt.Errorf("no metrics of %s: is the path right, and are metrics on?", wanted)
	}
	for _, r := range ranks {
		replica := unknown(target, ingest.ReplicaReady)
		switch name := r.name(); {
		case g.workers:
			replica.Name = cmp.Or(name, target) // its series may have lost their labels on the way
		case len(ranks) > 1:
			replica.Name = target + "/" + name
		}
		g.read(r, &replica)
		if replica.KVCapacityTokens >= 0 { // a router may reserve more
			replica.KVUsedTokens = min(replica.KVUsedTokens, replica.KVCapacityTokens)
		}
		out = append(out, replica)
	}
	return out, g, nil
}

// setPrefix sets the counters of prefix reuse, if both are known and there are not more hits than queries.
func setPrefix(to *ingest.Replica, hits, queries float64) {
	if hits, queries := total(hits), total(queries); hits >= 0 && hits <= queries {
		to.PrefixHitsTotal, to.PrefixQueryTotal = hits, queries
	}
}

// readVLLM reads vLLM, old names included; each data-parallel engine has the label engine. KV use is what running
// requests hold: blocks that are cached and free do not count. Ray Serve LLM exposes the same metrics as ray_vllm_*, one
// series for each replica on the node, and NVIDIA NIM exposes them without a prefix (see canonical). Names and the label
// ReplicaId: github.com/vllm-project/vllm, vllm/v1/metrics/ray_wrappers.py; of NIM:
// github.com/DataDog/integrations-core, nvidia_nim/datadog_checks/nvidia_nim/metrics.py.
func readVLLM(r rank, to *ingest.Replica) {
	const info, sources = "vllm:cache_config_info", "vllm:prompt_tokens_by_source_total"
	to.KVCapacityTokens = count(positive(first(
		r.info(info, "kv_cache_size_tokens"),
		r.info(info, "block_size")*r.info(info, "num_gpu_blocks"),
	)))
	to.KVUsedRatio = ratio(first(r.gauge("vllm:kv_cache_usage_perc"), r.gauge("vllm:gpu_cache_usage_perc")))
	to.Running = count(r.gauge("vllm:num_requests_running"))
	to.Waiting = count(r.gauge("vllm:num_requests_waiting"))
	to.PreemptionsTotal = total(first(r.counter("vllm:num_preemptions_total"), r.counter("vllm:num_preemptions")))
	// The cache's own counters are the worst: they count a waiting request again at each step of the scheduler.
	setPrefix(to, first(r.counter("vllm:prefix_cache_hits_total"), r.counter("vllm:gpu_prefix_cache_hits_total")),
		first(r.counter("vllm:prefix_cache_queries_total"), r.counter("vllm:gpu_prefix_cache_queries_total")))
	setPrefix(to, r.counter(sources)-first(r.with("source", "local_compute").counter(sources), 0), r.counter(sources))
	setPrefix(to, r.counter("vllm:prompt_tokens_cached_total"), r.counter("vllm:prompt_tokens_total"))
	if r.with("sleep_state", "awake").gauge("vllm:engine_sleep_state") == 0 {
		to.State = ingest.ReplicaDraining // it is there and takes no work
	}
}

// readSGLang reads SGLang. Each data-parallel rank has the label dp_rank; tensor-parallel ranks repeat its gauges, and
// priorities split them. Token counters are those of the whole server. Requests that wait for KV memory of a decode
// worker are in its queue (num_decode_prealloc_queue_reqs); those that a prefill worker has not sent yet are not.
func readSGLang(r rank, to *ingest.Replica) {
	const info = "sglang:cache_config_info"
	to.KVCapacityTokens = count(positive(first(
		positive(r.gauge("sglang:max_total_num_tokens")),
		r.gauge("sglang:page_size")*r.gauge("sglang:num_pages"),
		r.info(info, "page_size")*r.info(info, "num_pages"),
	)))
	to.KVUsedTokens = count(r.gauge("sglang:num_used_tokens"))
	to.KVUsedRatio = ratio(r.gauge("sglang:token_usage"))
	to.Running = count(r.gauge("sglang:num_running_reqs"))
	to.Waiting = count(r.gauge("sglang:num_queue_reqs") + first(r.gauge("sglang:num_decode_prealloc_queue_reqs"), 0))
	to.PreemptionsTotal = total(r.counter("sglang:num_retracted_requests_total"))
	setPrefix(to, r.counter("sglang:cached_tokens_total"), r.counter("sglang:prompt_tokens_total"))
	to.StartupSeconds = positive(r.gauge("sglang:engine_startup_time")) // some versions expose it and never set it
}

// readTRTLLM reads TensorRT-LLM's own server, trtllm-serve, which has its metrics at /prometheus/metrics. Requests
// report prefix reuse where that is on (return_perf_metrics); else it is known by the blocks of the cache.
func readTRTLLM(r rank, to *ingest.Replica) {
	block, reused := r.gauge("trtllm_kv_cache_tokens_per_block"), r.counter("trtllm_kv_cache_reused_blocks_total")
	to.KVCapacityTokens = count(positive(block * r.gauge("trtllm_kv_cache_max_blocks")))
	to.KVUsedTokens = count(block * r.gauge("trtllm_kv_cache_used_blocks"))
	to.KVUsedRatio = ratio(r.gauge("trtllm_kv_cache_utilization"))
	to.Running = count(r.gauge("trtllm_num_requests_running"))
	to.Waiting = count(r.gauge("trtllm_num_requests_waiting"))
	setPrefix(to, block*reused, block*(reused+r.counter("trtllm_kv_cache_missed_blocks_total")))
	setPrefix(to, r.counter("trtllm_prompt_cached_tokens_total"), positive(r.counter("trtllm_prompt_tokens_total")))
}

// readTriton reads Triton with the TensorRT-LLM backend, a replica for each model.
func readTriton(r rank, to *ingest.Replica) {
	blocks := func(kind string) float64 {
		return r.with("kv_cache_block_type", kind).gauge("nv_trt_llm_kv_cache_block_metrics")
	}
	to.KVCapacityTokens = count(positive(blocks("tokens_per") * blocks("max")))
	to.KVUsedTokens = count(blocks("tokens_per") * blocks("used"))
	to.KVUsedRatio = ratio(first(blocks("fraction"), blocks("used")/positive(blocks("max"))))
	to.Running = count(r.with("request_type", "scheduled").gauge("nv_trt_llm_request_metrics"))
	to.Waiting = count(r.with("request_type", "waiting").gauge("nv_trt_llm_request_metrics"))
}

// readDynamo reads the frontend of NVIDIA Dynamo. It exposes of each worker what its KV router knows: the blocks that
// its own requests hold. So scrape one frontend, and the workers' engines in its place where they expose metrics.
// Prefill workers hold no requests and are left out. Names: github.com/ai-dynamo/dynamo,
// lib/runtime/src/metrics/prometheus_names.rs.
func readDynamo(r rank, to *ingest.Replica) {
	block := r.only("dynamo_frontend_model_kv_cache_block_size")
	to.KVCapacityTokens = count(positive(block * r.only("dynamo_frontend_model_total_kv_blocks")))
	to.KVUsedTokens = count(block * r.gauge("dynamo_frontend_worker_active_decode_blocks"))
	to.Waiting = count(r.gauge("dynamo_frontend_worker_waiting_requests"))
}

// pickerOf reads the endpoint picker of llm-d, whose replicas are the endpoints of an inference pool. It has the queue
// of each endpoint, but KV use only as the mean over the pool, so the fullest replica is not seen: scrape the engines
// where that is possible. Its own names (github.com/llm-d/llm-d-router, docs/metrics.md) began with llm_d_router_epp_
// before June 2026. The same page has those of the Gateway API Inference Extension
// (pkg/epp/metrics/collectors/inference_pool.go), too.
func pickerOf(name, queue, label, use string) engine {
	return engine{
		name: name, anchors: []string{queue}, labels: []string{label}, workers: true,
		read: func(r rank, to *ingest.Replica) {
			to.Waiting = count(r.gauge(queue))
			to.KVUsedRatio = ratio(r.gauge(use))
		},
	}
}
