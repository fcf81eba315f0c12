// Package scrape asks inference engines for their /metrics and tells what they say as replica states: vLLM, SGLang,
// TensorRT-LLM (trtllm-serve and Triton) and the frontend of NVIDIA Dynamo, with Prometheus' own parser.
//
// Invariants: what an engine does not say stays unknown; a replica is said to be ready only when its engine answered
// just now, and gone only when nobody listens where it was or it is listed no longer. Any other failure says nothing of
// the replica, which then ages. Units: tokens, requests, seconds. Bounds: targets, concurrent requests, bytes of an
// answer, series kept of it, ranks of a target; [Stats] counts what failed and what was left out.
package scrape
