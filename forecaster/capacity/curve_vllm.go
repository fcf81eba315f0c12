package capacity

// parseVLLM reads what vllm bench serve --save-result writes (--append-result: one object a line): totals and, by
// default, median and p99 of latencies in milliseconds; p90 with --metric-percentiles (vllm/benchmarks/serve.py).
func parseVLLM(data []byte) ([]Point, error) {
	list := documents(data)
	if len(list) == 0 || list[0]["request_throughput"] == nil || list[0]["output_throughput"] == nil {
		return nil, errNotThis
	}
	var points []Point
	for _, d := range list {
		completed := d.float("completed")
		if completed <= 0 {
			continue
		}
		latency := func(name string) Percentiles {
			return Percentiles{perMilli * d.float("median_"+name+"_ms", "p50_"+name+"_ms"), perMilli * d.float("p90_"+name+"_ms"), perMilli * d.float("p99_"+name+"_ms")}
		}
		p := Point{
			Concurrency: d.float("max_concurrency"), RequestsPerS: d.float("request_throughput"),
			Prompt: d.float("total_input_tokens", "total_input") / completed, Output: d.float("total_output_tokens", "total_output") / completed,
			DecodeTokensPerS: d.float("output_throughput"), TTFT: latency("ttft"), ITL: latency("itl"),
		}
		if p.ITL == (Percentiles{}) {
			p.ITL = latency("tpot")
		}
		p.PrefillTokensPerS = p.RequestsPerS * p.Prompt
		points = append(points, p)
	}
	return points, nil
}
