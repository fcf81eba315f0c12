package scrape

import "github.com/forewarm/forewarm/ingest"

// dynamo reads the frontend of NVIDIA Dynamo. It exposes of each worker what its KV router knows: the blocks that its
// own requests hold. So scrape one frontend, and the workers' engines in its place where they expose metrics. Prefill
// workers hold no requests and are left out. Names: github.com/ai-dynamo/dynamo,
// lib/runtime/src/metrics/prometheus_names.rs.
var dynamo = engine{
	name:    "dynamo",
	anchors: []string{"dynamo_frontend_worker_active_decode_blocks", "dynamo_frontend_worker_waiting_requests"},
	labels:  []string{"worker_id", "dp_rank"},
	keep:    func(s sample) bool { return s.labels.Get("worker_type") != "prefill" },
	workers: true,
	read:    readDynamo,
}

func readDynamo(r rank, to *ingest.Replica) {
	block := r.only("dynamo_frontend_model_kv_cache_block_size")
	to.KVCapacityTokens = tokens(positive(block * r.only("dynamo_frontend_model_total_kv_blocks")))
	to.KVUsedTokens = tokens(block * r.gauge("dynamo_frontend_worker_active_decode_blocks"))
	to.Waiting = requests(r.gauge("dynamo_frontend_worker_waiting_requests"))
}
