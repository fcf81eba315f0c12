package capacity

import "strings"

// parseAIPerf reads the summary of AIPerf or of its predecessor GenAI-Perf: an object a run, with {unit, avg, p50, p90,
// p99, …} by metric and the concurrency in input_config. Runs without a concurrency are ordered by requests a second.
func parseAIPerf(data []byte) ([]Point, error) {
	list := documents(data)
	if len(list) == 0 || list[0].object("request_throughput") == nil || list[0].object("time_to_first_token") == nil && list[0].object("request_latency") == nil {
		return nil, errNotThis
	}
	var points []Point
	for _, d := range list {
		avg := func(name string) float64 { return d.object(name).float("avg") }
		latency := func(name string) Percentiles {
			m := d.object(name)
			unit, _ := m.text("unit") // default: milliseconds
			k := secondsOf(unit)
			return Percentiles{k * m.float("p50"), k * m.float("p90"), k * m.float("p99")}
		}
		p := Point{
			RequestsPerS: avg("request_throughput"), Prompt: avg("input_sequence_length"), Output: avg("output_sequence_length"),
			DecodeTokensPerS: avg("output_token_throughput"), TTFT: latency("time_to_first_token"), ITL: latency("inter_token_latency"),
			Concurrency: concurrencyOf(d.object("input_config")),
		}
		p.PrefillTokensPerS = p.RequestsPerS * p.Prompt
		if p.RequestsPerS > 0 {
			points = append(points, p)
		}
	}
	return points, nil
}

// concurrencyOf is loadgen.concurrency in AIPerf, perf_analyzer.stimulus.concurrency or concurrency in GenAI-Perf.
func concurrencyOf(config fields) float64 {
	for _, f := range []fields{config.object("loadgen"), config.object("perf_analyzer", "stimulus"), config} {
		if v := f.float("concurrency"); v > 0 {
			return v
		}
	}
	return 0
}

func secondsOf(unit string) float64 {
	switch strings.ToLower(unit) {
	case "s", "sec", "seconds":
		return 1
	case "us", "µs":
		return 1e-6
	case "ns":
		return 1e-9
	}
	return perMilli
}
