package capacity

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Point is one measured load of one replica.
type Point struct {
	Concurrency       float64 // requests at once; 0 unknown
	RequestsPerS      float64
	Prompt, Output    float64 // mean tokens of a request
	PrefillTokensPerS float64
	DecodeTokensPerS  float64
	TTFT, ITL         Percentiles
}

// Percentiles of a latency in seconds; 0 is unknown.
type Percentiles struct{ P50, P90, P99 float64 }

// load is the sort key of points.
func (p *Point) load() float64 { return cmp.Or(p.Concurrency, p.RequestsPerS) }

// pointColumns are the columns of a CSV table, in any order, and the fields of a result of vLLM with their unit: tokens,
// rates a second, and seconds. vLLM has totals of tokens, and by default the median and p99 of latencies; p90 with
// --metric-percentiles (vllm/benchmarks/serve.py).
var pointColumns = []struct {
	csv, vllm string
	unit      float64
	of        func(p *Point) *float64
}{
	{"concurrency", "max_concurrency", 1, func(p *Point) *float64 { return &p.Concurrency }},
	{"requests_per_s", "request_throughput", 1, func(p *Point) *float64 { return &p.RequestsPerS }},
	{"prompt", "total_input_tokens", 1, func(p *Point) *float64 { return &p.Prompt }},
	{"output", "total_output_tokens", 1, func(p *Point) *float64 { return &p.Output }},
	{"prefill_tokens_per_s", "", 1, func(p *Point) *float64 { return &p.PrefillTokensPerS }},
	{"decode_tokens_per_s", "output_throughput", 1, func(p *Point) *float64 { return &p.DecodeTokensPerS }},
	{"ttft_p50_s", "median_ttft_ms", perMilli, func(p *Point) *float64 { return &p.TTFT.P50 }},
	{"ttft_p90_s", "p90_ttft_ms", perMilli, func(p *Point) *float64 { return &p.TTFT.P90 }},
	{"ttft_p99_s", "p99_ttft_ms", perMilli, func(p *Point) *float64 { return &p.TTFT.P99 }},
	{"itl_p50_s", "median_itl_ms", perMilli, func(p *Point) *float64 { return &p.ITL.P50 }},
	{"itl_p90_s", "p90_itl_ms", perMilli, func(p *Point) *float64 { return &p.ITL.P90 }},
	{"itl_p99_s", "p99_itl_ms", perMilli, func(p *Point) *float64 { return &p.ITL.P99 }},
}

const (
	perMilli       = 1e-3 // seconds of a millisecond
	maxCurvePoints = 10_000
	maxRate        = 1e12 // of tokens or requests a second
	maxSpread      = 1.5  // longest over shortest request: the rates of a replica depend on the length
)

// Curve is a benchmark of one replica: requests of one length, by rising load.
type Curve []Point

// ParseCurve reads a benchmark of one replica: results of vllm bench serve, or a CSV table.
func ParseCurve(data []byte) (Curve, error) {
	data = bytes.TrimPrefix(bytes.TrimSpace(data), []byte("\ufeff"))
	read := parseCSV
	if bytes.HasPrefix(data, []byte("{")) || bytes.HasPrefix(data, []byte("[")) {
		read = parseVLLM
	}
	c, err := read(data)
	if err != nil {
		return nil, err
	}
	return c, c.check()
}

// parseVLLM reads what vllm bench serve --save-result writes: one result, a list of them, or one a line.
func parseVLLM(data []byte) (c Curve, err error) {
	var results []map[string]any
	if json.Unmarshal(data, &results) != nil {
		results = nil
		for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
			var r map[string]any
			if err := d.Decode(&r); err != nil {
				return nil, fmt.Errorf("result %d: %w", len(results)+1, err)
			}
			results = append(results, r)
		}
	}
	for _, r := range results {
		number := func(name string) float64 { x, _ := r[name].(float64); return x }
		completed := number("completed")
		if completed <= 0 {
			continue
		}
		var p Point
		for _, x := range pointColumns {
			perToken := strings.Replace(x.vllm, "_itl_", "_tpot_", 1) // what there is if --percentile-metrics leaves out ITL
			*x.of(&p) = x.unit * cmp.Or(number(x.vllm), number(perToken))
		}
		p.Prompt, p.Output = p.Prompt/completed, p.Output/completed
		p.PrefillTokensPerS = p.RequestsPerS * p.Prompt
		c = append(c, p)
	}
	return c, nil
}

// parseCSV reads a table. Only the concurrency or the requests per second, and one rate are required.
func parseCSV(data []byte) (c Curve, err error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.Comment, r.TrimLeadingSpace = '#', true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	columns := curveColumns()
	for i, row := range rows {
		var p Point
		for j, text := range row {
			at := slices.Index(columns, rows[0][j])
			if at < 0 {
				return nil, fmt.Errorf("column %q is none of %s", rows[0][j], strings.Join(columns, ","))
			}
			if i == 0 || text == "" {
				continue
			}
			if *pointColumns[at].of(&p), err = strconv.ParseFloat(text, 64); err != nil {
				return nil, fmt.Errorf("row %d: %s is %q, want a number", i, rows[0][j], text)
			}
		}
		if i > 0 {
			c = append(c, p)
		}
	}
	return c, nil
}

func curveColumns() (names []string) {
	for _, x := range pointColumns {
		names = append(names, x.csv)
	}
	return names
}

// check finds the first fault of the points, and sorts them by load.
func (c Curve) check() error {
	if len(c) == 0 || len(c) > maxCurvePoints {
		return fmt.Errorf("the file has %d measurements with requests that were served, want 1…%d: results of vllm bench serve --save-result, or a CSV table with the columns %s",
			len(c), maxCurvePoints, strings.Join(curveColumns(), ","))
	}
	shortest, longest := math.Inf(1), 0.0
	for i := range c {
		p := &c[i]
		for _, x := range pointColumns {
			if v := *x.of(p); !(v >= 0 && v <= maxRate) {
				return fmt.Errorf("measurement %d: %s is %g: it must be 0 to %g", i+1, x.csv, v, maxRate)
			}
		}
		if p.load() == 0 {
			return fmt.Errorf("measurement %d: neither concurrency nor requests_per_s is known: add one", i+1)
		}
		if p.PrefillTokensPerS == 0 && p.DecodeTokensPerS == 0 {
			return fmt.Errorf("measurement %d: no throughput is known: add prefill_tokens_per_s or decode_tokens_per_s", i+1)
		}
		if length := p.Prompt + p.Output; length > 0 {
			shortest, longest = min(shortest, length), max(longest, length)
		}
	}
	if longest > maxSpread*shortest {
		return fmt.Errorf("requests have %.0f to %.0f tokens, more than a factor of %g apart: keep the measurements with the longest only, at which a replica carries least", shortest, longest, maxSpread)
	}
	slices.SortStableFunc(c, func(a, b Point) int { return cmp.Compare(a.load(), b.load()) })
	return nil
}

// Goodput is the maximum throughput of a replica within its objective: prefill where TTFT exceeds it, decode where ITL
// does, with linear interpolation; 0 is unknown. It is an error if the lowest load already misses the objective.
func (c Curve) Goodput(slo SLO) (prefill, decode float64, err error) {
	prefill, err = c.knee("TTFT", slo.TTFT, func(p *Point) (Percentiles, float64) { return p.TTFT, p.PrefillTokensPerS })
	if err != nil {
		return 0, 0, err
	}
	decode, err = c.knee("ITL", slo.ITL, func(p *Point) (Percentiles, float64) { return p.ITL, p.DecodeTokensPerS })
	return prefill, decode, err
}

// knee is the rate at which a latency exceeds the objective, or the largest measured; 0 is no objective. The latency is
// the 90th percentile, or the 99th or the median if that is not known.
func (c Curve) knee(name string, slo time.Duration, of func(*Point) (latency Percentiles, rate float64)) (at float64, err error) {
	objective := slo.Seconds()
	var before, rateBefore float64
	for i := range c {
		percentiles, rate := of(&c[i])
		latency := cmp.Or(percentiles.P90, percentiles.P99, percentiles.P50)
		switch {
		case objective <= 0 || latency <= objective:
			at = max(at, rate) // throughput may fall beyond its peak before latency exceeds the objective
		case i == 0:
			return 0, fmt.Errorf("at the lowest load measured, %s is %.4g s and the objective %.4g s: no load meets it", name, latency, objective)
		default:
			return max(at, rateBefore+(objective-before)/(latency-before)*(rate-rateBefore)), nil
		}
		before, rateBefore = latency, rate
	}
	return at, nil
}
