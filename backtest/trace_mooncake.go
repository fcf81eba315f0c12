package backtest

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// MooncakeBlock is the number of tokens per hash id of a Mooncake trace.
const MooncakeBlock = 512

// mooncakeReader reads Mooncake's JSONL (arXiv 2407.00079): timestamp in ms, input_length, output_length and hash_ids,
// with one id per block of 512 prompt tokens. Cached tokens are the leading blocks that are in a least-recently-used
// cache of Options.PrefixBlocks blocks. Ids are unsigned 64-bit and never converted to float.
type mooncakeReader struct {
	lines    *lineScanner
	maxCount float64
	class    string
	cache    *ingest.PrefixCache
}

func openMooncake(l *lineScanner, o Options) (rowReader, error) {
	return &mooncakeReader{lines: l, maxCount: float64(o.Limits.Tokens), class: o.Class, cache: newPrefixCache(o)}, nil
}

func (m *mooncakeReader) next(w *row) error {
	line, err := m.lines.next()
	if err != nil {
		return err
	}
	var record struct {
		Timestamp    *float64 `json:"timestamp"`
		InputLength  *float64 `json:"input_length"`
		OutputLength *float64 `json:"output_length"`
		HashIDs      []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(line, &record); err != nil {
		return badRow(fmt.Sprintf("%v: one object a line with timestamp, input_length, output_length and hash_ids", err))
	}
	if record.Timestamp == nil || !(*record.Timestamp >= 0 && *record.Timestamp <= maxSeconds*1e3) {
		return badRow("timestamp is missing or out of range: give milliseconds from the trace's start")
	}
	*w = row{at: nanoseconds(*record.Timestamp / 1e3), class: m.class, prompt: math.NaN(), cached: math.NaN(), output: math.NaN()}
	for _, f := range []struct {
		name string
		from *float64
		to   *float64
	}{{"input_length", record.InputLength, &w.prompt}, {"output_length", record.OutputLength, &w.output}} {
		if f.from == nil {
			continue
		}
		if *f.from < 0 || *f.from > m.maxCount {
			return badRow(fmt.Sprintf("%s %g is not between 0 and %g tokens", f.name, *f.from, m.maxCount))
		}
		*f.to = *f.from
	}
	if record.HashIDs != nil && record.InputLength != nil {
		w.cached = min(w.prompt, float64(m.cache.Hit(record.HashIDs)*MooncakeBlock))
	}
	return nil
}
