// Package capacity computes the capacity of a replica: KV-cache bytes per token from a model's config.json, tokens per
// replica, service rates, and the lag between the request for a replica and its readiness.
//
// Pure: no clock, no I/O beyond the bytes it is given. Units: bytes, tokens, tokens per second; memory sizes are binary
// (GiB = 2³⁰ bytes). Bounds: warm-up observations are kept in a fixed window.
package capacity
