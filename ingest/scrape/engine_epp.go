package scrape

import "github.com/forewarm/forewarm/ingest"

// epp reads the endpoint picker of llm-d, whose replicas are the endpoints of an inference pool. It has the queue of
// each endpoint, but KV use only as the mean over the pool, so the fullest replica is not seen: scrape the engines
// where that is possible. Names: github.com/llm-d/llm-d-router, docs/metrics.md; before June 2026 they began with
// llm_d_router_epp_.
var epp = engine{
	name:    "epp",
	anchors: []string{"llm_d_epp_per_endpoint_queue_size"},
	labels:  []string{"model_server_endpoint"},
	workers: true,
	read: func(r rank, to *ingest.Replica) {
		to.Waiting = requests(r.gauge("llm_d_epp_per_endpoint_queue_size"))
		to.KVUsedRatio = ratio(r.gauge("llm_d_epp_average_kv_cache_utilization"))
	},
}

// inferencePool reads the same page by the names of the Gateway API Inference Extension, which llm-d still exposes
// beside its own: github.com/llm-d/llm-d-router, pkg/epp/metrics/collectors/inference_pool.go.
var inferencePool = engine{
	name:    "inferencepool",
	anchors: []string{"inference_pool_per_pod_queue_size"},
	labels:  []string{"model_server_pod"},
	workers: true,
	read: func(r rank, to *ingest.Replica) {
		to.Waiting = requests(r.gauge("inference_pool_per_pod_queue_size"))
		to.KVUsedRatio = ratio(r.gauge("inference_pool_average_kv_cache_utilization"))
	},
}
