package capacity

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"strings"
)

// parseAIPerf reads the summary of AIPerf, or of GenAI-Perf before it: an object a run, with {unit, avg, p50, p90, p99, …} by
// metric; the concurrency stands in input_config. A run without it is placed by its requests a second.
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
			unit, _ := m.text("unit") // milliseconds when it is not said
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

// parseAIPerfCSV reads the same as a table of Metric,avg,min,max,p1…p99,std, and after a blank line of Metric,Value, with units
// in brackets behind the names. It is one run, placed by its requests a second.
func parseAIPerfCSV(data []byte) ([]Point, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.ReuseRecord = -1, true
	var p Point
	columns := map[string]int{}
	for line := 0; ; line++ {
		row, err := r.Read()
		if errors.Is(err, io.EOF) && line > 0 {
			break
		}
		if err != nil || line == 0 && (len(row) < 2 || row[0] != "Metric") {
			return nil, errNotThis
		}
		if row[0] == "Metric" {
			columns = map[string]int{}
			for i, name := range row {
				columns[name] = i
			}
			continue
		}
		cell := func(name string) float64 {
			if i, ok := columns[name]; ok && i < len(row) {
				v, _ := strconv.ParseFloat(strings.ReplaceAll(row[i], ",", ""), 64) // an empty cell is unknown
				return v
			}
			return 0
		}
		value := cell("avg")
		if value == 0 {
			value = cell("Value")
		}
		name, unit, _ := strings.Cut(strings.TrimSuffix(row[0], ")"), " (")
		latency := func() Percentiles {
			k := secondsOf(unit)
			return Percentiles{k * cell("p50"), k * cell("p90"), k * cell("p99")}
		}
		switch name {
		case "Time to First Token", "Time To First Token":
			p.TTFT = latency()
		case "Inter Token Latency":
			p.ITL = latency()
		case "Input Sequence Length":
			p.Prompt = value
		case "Output Sequence Length":
			p.Output = value
		case "Request Throughput":
			p.RequestsPerS = value
		case "Output Token Throughput":
			p.DecodeTokensPerS = value
		}
	}
	if p.RequestsPerS <= 0 {
		return nil, errors.New("the row Request Throughput is missing")
	}
	p.PrefillTokensPerS = p.RequestsPerS * p.Prompt
	return []Point{p}, nil
}
