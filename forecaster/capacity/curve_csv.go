package capacity

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// curveColumns are the columns of the CSV table, in any order: tokens, tokens/s, and latencies in seconds. Only
// concurrency and one rate are required.
var curveColumns = []string{
	"concurrency", "prompt", "output", "prefill_tokens_per_s", "decode_tokens_per_s",
	"ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "itl_p50_s", "itl_p90_s", "itl_p99_s",
}

func parseCurveCSV(data []byte) ([]Point, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.Comment, r.TrimLeadingSpace = '#', true
	head, err := r.Read()
	if err != nil || !slices.Contains(head, "concurrency") {
		return nil, errNotThis
	}
	for _, name := range head {
		if !slices.Contains(curveColumns, name) {
			return nil, fmt.Errorf("column %q is none of %s", name, strings.Join(curveColumns, ","))
		}
	}
	var points []Point
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return points, nil
		}
		if err != nil {
			return nil, err
		}
		if len(points) == maxCurvePoints {
			return nil, fmt.Errorf("more than %d rows", maxCurvePoints)
		}
		var p Point
		into := []*float64{
			&p.Concurrency, &p.Prompt, &p.Output, &p.PrefillTokensPerS, &p.DecodeTokensPerS,
			&p.TTFT.P50, &p.TTFT.P90, &p.TTFT.P99, &p.ITL.P50, &p.ITL.P90, &p.ITL.P99,
		}
		for i, text := range row {
			if text == "" {
				continue
			}
			if *into[slices.Index(curveColumns, head[i])], err = strconv.ParseFloat(text, 64); err != nil {
				line, _ := r.FieldPos(i)
				return nil, fmt.Errorf("line %d: %s is %q, want a number", line, head[i], text)
			}
		}
		points = append(points, p)
	}
}
