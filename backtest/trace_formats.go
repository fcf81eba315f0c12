package backtest

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// Format is a format of traces.
type Format struct {
	Name string
	Help string

	binned   bool // rows are sums over spans
	absolute bool // rows have calendar times
	timed    bool // rows have the times of a request's phases
	blocks   bool // rows have block hashes, for cached tokens
	reorder  int  // default bound of the reorder buffer, rows

	sniff func(first []byte, o Options) bool
	open  func(l *lineScanner, o Options) (rowReader, error)
}

// Bounds of the reorder buffer by kind of trace. A record with times becomes known at the request's end, but is often
// written in order of arrival. The buffer must hold the arrivals during the longest request.
const (
	reorderRequests = 4096
	reorderRecords  = 1 << 17 // about half a kilobyte each: 64 MiB
	reorderBins     = 1 << 20
)

// Formats lists all trace formats, in order of detection.
var Formats = []Format{
	{Name: "bins", Help: "CSV t_s,class,requests,prompt_tokens,cached_tokens,output_tokens: sums per bin", binned: true, reorder: reorderBins, sniff: sniffBins, open: nativeCSV.open},
	{Name: "requests", Help: "CSV t_s,class,prompt_tokens,cached_tokens,output_tokens[,session,attempt]: one row a request", reorder: reorderRequests, sniff: nativeCSV.sniff, open: nativeCSV.open},
	{Name: "azure", Help: "Azure LLM inference trace CSV TIMESTAMP,ContextTokens,GeneratedTokens", absolute: true, reorder: reorderRequests, sniff: azureCSV.sniff, open: azureCSV.open},
	{Name: "burstgpt", Help: "BurstGPT CSV Timestamp,[Session ID,Elapsed time,]Model,Request tokens,Response tokens,Total tokens,Log Type", reorder: reorderRequests, sniff: burstCSV.sniff, open: burstCSV.open},
	{Name: "mooncake", Help: "Mooncake JSONL timestamp,input_length,output_length,hash_ids", blocks: true, reorder: reorderRequests, sniff: sniffMooncake, open: openMooncake},
	{Name: "dynamo", Help: "NVIDIA Dynamo request trace JSONL dynamo.request.trace.v1", absolute: true, timed: true, blocks: true, reorder: reorderRecords, sniff: sniffDynamo, open: openDynamo},
	{Name: "ndjson", Help: "forewarm.request.v1 records, one JSON object a line", absolute: true, timed: true, reorder: reorderRecords, sniff: sniffNDJSON, open: openNDJSON},
}

func recognise(first []byte, o Options) (Format, error) {
	var names []string
	for _, f := range Formats {
		if o.Format == f.Name || o.Format == "" && f.sniff(first, o) {
			return f, nil
		}
		names = append(names, f.Name)
	}
	known := strings.Join(names, ", ")
	if o.Format != "" {
		return Format{}, fmt.Errorf("unknown trace format %q: use one of %s", o.Format, known)
	}
	return Format{}, fmt.Errorf("the first line %q is of no known trace format: the header must be that of one of %s", clip(first, 60), known)
}

// rowReader reads a format row by row in file order. It returns io.EOF at the end and a badRow for an unusable row, and
// can continue after that.
type rowReader interface {
	next(w *row) error
}

// badRow says why a row is unusable, and the fix.
type badRow string

func (b badRow) Error() string { return string(b) }

// before orders rows by time, then by file order.
func (w *row) before(other *row) bool {
	return w.at < other.at || w.at == other.at && w.seq < other.seq
}

// row is one row of any format. NaN counts are unknown.
type row struct {
	at    int64 // ns since the trace's zero, or since 1970 for calendar times
	width int64 // ns; 0 for a single request
	seq   int64 // arrival order, for equal at

	class   string
	session uint64
	attempt int             // 0 if the format has none
	record  *ingest.Request // the whole record, for formats with more than the counts below

	requests, prompt, cached, output float64
}

func (w *row) ofClass() string {
	if w.record != nil {
		return w.record.Class
	}
	return w.class
}

// split separates the part in the row's first minute, with counts in proportion to time, from the rest. shift is added
// to find the minutes.
func (w *row) split(shift int64) (piece, rest *row) {
	const minute = int64(time.Minute)
	a, b := *w, *w
	piece, rest = &a, &b
	into := (w.at + shift) % minute
	piece.width = min(w.width, minute-into)
	rest.at += piece.width
	rest.width -= piece.width
	f := float64(piece.width) / float64(w.width)
	for _, c := range []struct{ p, r *float64 }{
		{&piece.requests, &rest.requests}, {&piece.prompt, &rest.prompt}, {&piece.cached, &rest.cached}, {&piece.output, &rest.output},
	} {
		*c.p *= f
		*c.r -= *c.p
	}
	return piece, rest
}

// count returns a token count, Unknown for NaN.
func count(x float64) int64 {
	if math.IsNaN(x) {
		return ingest.Unknown
	}
	return int64(x)
}

// knownAt returns the earliest time at which a record can be written: the request's end, if it is known and the record
// is of the end, otherwise its arrival.
func knownAt(r *ingest.Request) time.Time {
	if r.Phase != ingest.PhaseArrived && !r.FinishedAt.IsZero() {
		return r.FinishedAt
	}
	return r.EventTime()
}

func shiftTimes(r *ingest.Request, by time.Duration) {
	if by == 0 {
		return
	}
	for _, t := range []*time.Time{&r.ArrivedAt, &r.StartedAt, &r.FirstTokenAt, &r.FinishedAt} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

// sniffBins detects bins by their requests column. If the bin width is given, all native rows are bins.
func sniffBins(first []byte, o Options) bool {
	var c csvReader
	return c.header(first, []string{"t_s", "class", "requests"}) == nil || o.Bin > 0 && nativeCSV.sniff(first, o)
}

func sniffMooncake(first []byte, _ Options) bool {
	return isJSONObject(first) && bytes.Contains(first, []byte(`"input_length"`)) && bytes.Contains(first, []byte(`"timestamp"`))
}

func sniffDynamo(first []byte, _ Options) bool {
	return isJSONObject(first) && bytes.Contains(first, []byte(`"dynamo.request.trace.v1"`))
}

func sniffNDJSON(first []byte, _ Options) bool { return isJSONObject(first) }

func isJSONObject(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] == '{'
}

func clip(b []byte, n int) string {
	if len(b) > n {
		return string(b[:n]) + "…"
	}
	return string(b)
}
