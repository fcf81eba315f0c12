// Package scrape reads the /metrics of inference engines and reports replica states: vLLM, SGLang, TensorRT-LLM
// (trtllm-serve and Triton), the frontend of NVIDIA Dynamo and the endpoint picker of llm-d. The parser is Prometheus'
// own.
//
// Invariants: what an engine does not expose stays unknown. A replica is reported ready only when its engine answered
// just now, and gone only when nobody listens at its address or it is no longer listed. After any other failure nothing
// is reported, and the replica ages. Units: tokens, requests, seconds. Bounds: targets, concurrent requests, bytes of
// an answer, series kept of it, ranks of a target; what is beyond a bound is a fault of the target or the name.
package scrape
