package capacity

import (
	"encoding/json"
	"fmt"
)

// parseGuideLLM reads the report of GuideLLM: benchmarks[].metrics, each a distribution by status (successful,
// incomplete, errored, total) with mean and percentiles (p50, p90, p99); latencies in milliseconds
// (src/guidellm/benchmark/schemas/generative/metrics.py, src/guidellm/schemas/statistics.py).
func parseGuideLLM(data []byte) ([]Point, error) {
	var report struct {
		Benchmarks []fields `json:"benchmarks"`
	}
	if json.Unmarshal(data, &report) != nil || len(report.Benchmarks) == 0 || report.Benchmarks[0].object("metrics") == nil {
		return nil, errNotThis
	}
	if len(report.Benchmarks) > maxCurvePoints {
		return nil, fmt.Errorf("%d benchmarks are above %d", len(report.Benchmarks), maxCurvePoints)
	}
	var points []Point
	for _, b := range report.Benchmarks {
		metrics := b.object("metrics")
		mean := func(name string) float64 { return metrics.object(name, "successful").float("mean") }
		latency := func(name string) Percentiles {
			p := metrics.object(name, "successful", "percentiles")
			return Percentiles{perMilli * p.float("p50"), perMilli * p.float("p90"), perMilli * p.float("p99")}
		}
		p := Point{
			Concurrency: mean("request_concurrency"), RequestsPerS: mean("requests_per_second"),
			Prompt: mean("prompt_token_count"), Output: mean("output_token_count"), DecodeTokensPerS: mean("output_tokens_per_second"),
			TTFT: latency("time_to_first_token_ms"), ITL: latency("inter_token_latency_ms"),
		}
		if p.PrefillTokensPerS = mean("prompt_tokens_per_second"); p.PrefillTokensPerS == 0 {
			p.PrefillTokensPerS = p.RequestsPerS * p.Prompt
		}
		if p.RequestsPerS > 0 {
			points = append(points, p)
		}
	}
	return points, nil
}
