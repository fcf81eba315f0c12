package backtest

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

const (
	maxSeconds = 1e10    // from a trace's start: three centuries
	maxBin     = 1 << 53 // of a count in a bin: float64 is exact up to here
	maxAttempt = 1 << 16 // of one call
	maxClasses = 1 << 16 // bound of interned class names
)

// csvFormat names the columns of a CSV format, "" for none. Columns are found by name; others are ignored. An empty or
// absent field is unknown.
type csvFormat struct {
	needs []string // required columns

	at, class, requests, prompt, cached, output, session, attempt string

	calendar bool   // at is a calendar time, else seconds from the trace's start
	kind     string // added to the class; both in lower case
}

var (
	// nativeCSV is Forewarm's format, one row per request or bin.
	nativeCSV = csvFormat{
		needs: []string{"t_s", "class"}, at: "t_s", class: "class", requests: "requests", prompt: "prompt_tokens", cached: "cached_tokens",
		output: "output_tokens", session: "session", attempt: "attempt",
	}
	// azureCSV is the Azure LLM inference trace (AzurePublicDataset, CC-BY).
	azureCSV = csvFormat{
		needs: []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, at: "TIMESTAMP", prompt: "ContextTokens", output: "GeneratedTokens", calendar: true,
	}
	// burstCSV is BurstGPT (arXiv 2401.17644). The class is the model and the log type, such as chatgpt/conversation.
	burstCSV = csvFormat{
		needs: []string{"Timestamp", "Model", "Request tokens", "Response tokens"}, at: "Timestamp", class: "Model", kind: "Log Type",
		prompt: "Request tokens", output: "Response tokens", session: "Session ID",
	}
)

// sniff reports whether a header has the columns.
func (f csvFormat) sniff(header []byte, _ Options) bool {
	var c csvReader
	return c.header(header, f.needs) == nil
}

func (f csvFormat) open(l *lineScanner, o Options) (rowReader, error) {
	header, err := l.next()
	if err != nil {
		return nil, err
	}
	c := &csvReader{csvFormat: f, lines: l, maxCount: float64(o.Limits.Tokens), label: o.Limits.LabelBytes, absent: o.Class, names: map[string]string{}}
	if sniffBins(header, o) {
		c.maxCount = maxBin
	}
	return c, c.header(header, f.needs)
}

// csvReader reads rows of a format.
type csvReader struct {
	csvFormat
	lines    *lineScanner
	maxCount float64           // largest count
	label    int               // largest class name, bytes
	absent   string            // class of rows without one
	names    map[string]string // interned class names

	index  map[string]int // columns by name
	fields [][]byte
}

// header reads the header.
func (c *csvReader) header(line []byte, needs []string) error {
	if err := c.split(line); err != nil {
		return err
	}
	c.index = map[string]int{}
	for i := len(c.fields) - 1; i >= 0; i-- { // of equal names the first one counts
		c.index[string(bytes.TrimSpace(c.fields[i]))] = i
	}
	for _, name := range needs {
		if _, ok := c.index[name]; !ok {
			return fmt.Errorf("the header %q has no column %q: add it", clip(line, 80), name)
		}
	}
	return nil
}

// split divides a row into fields.
func (c *csvReader) split(line []byte) error {
	if bytes.IndexByte(line, '"') < 0 {
		c.fields = c.fields[:0]
		for field := range bytes.SplitSeq(line, []byte{','}) {
			c.fields = append(c.fields, field)
		}
		return nil
	}
	quoted, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return badRow(fmt.Sprintf("%v: quote fields as RFC 4180 says", err))
	}
	c.fields = c.fields[:0]
	for _, f := range quoted {
		c.fields = append(c.fields, []byte(f))
	}
	return nil
}

func (c *csvReader) next(w *row) error {
	line, err := c.lines.next()
	if err != nil {
		return err
	}
	if err = c.split(line); err != nil {
		return err
	}
	*w = row{class: c.name(), session: ingest.HashSession(string(c.text(c.session)))}
	if len(w.class) > c.label {
		return badRow("the class name is too long: is this the class column?")
	}
	if w.at, err = c.time(); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		to   *float64
	}{{c.requests, &w.requests}, {c.prompt, &w.prompt}, {c.cached, &w.cached}, {c.output, &w.output}} {
		if *f.to, err = c.number(f.name, c.maxCount); err != nil {
			return err
		}
	}
	if w.cached > w.prompt {
		return badRow("cached_tokens exceeds prompt_tokens: prompt_tokens includes the cached ones")
	}
	attempt, err := c.number(c.attempt, maxAttempt)
	if err == nil && attempt > 1 {
		w.attempt = int(attempt)
	}
	return err
}

// text returns a field of the row, nil if absent.
func (c *csvReader) text(column string) []byte {
	if i, ok := c.index[column]; ok && i < len(c.fields) && column != "" {
		return bytes.TrimSpace(c.fields[i])
	}
	return nil
}

// number returns a count; NaN if the field is empty or absent.
func (c *csvReader) number(column string, limit float64) (float64, error) {
	b := c.text(column)
	if len(b) == 0 {
		return math.NaN(), nil
	}
	x, err := strconv.ParseFloat(string(b), 64)
	switch {
	case err != nil || math.IsNaN(x):
		return 0, badRow(fmt.Sprintf("%s %q is not a number: leave it empty when unknown", column, clip(b, 40)))
	case x < 0:
		return 0, badRow(fmt.Sprintf("%s %s is negative: leave it empty when unknown", column, b))
	case x > limit:
		return 0, badRow(fmt.Sprintf("%s %s is above %g: check the unit", column, b, limit))
	}
	return x, nil
}

// time returns the row's time in nanoseconds.
func (c *csvReader) time() (int64, error) {
	if c.calendar {
		at, err := calendarTime(c.text(c.at))
		return at.UnixNano(), err
	}
	t, err := c.number(c.at, maxSeconds)
	if err == nil && math.IsNaN(t) {
		err = badRow(c.at + " is empty: give seconds from the trace's start")
	}
	return nanoseconds(t), err
}

// name returns the row's class.
func (c *csvReader) name() string {
	name := c.text(c.class)
	if c.kind != "" {
		name = bytes.ToLower(name)
		if kind := bytes.TrimSuffix(bytes.ToLower(c.text(c.kind)), []byte(" log")); len(kind) > 0 {
			name = slices.Concat(name, []byte("/"), kind)
		}
	}
	if len(name) == 0 {
		return c.absent
	}
	if s, ok := c.names[string(name)]; ok {
		return s
	}
	s := string(name)
	if len(c.names) < maxClasses {
		c.names[s] = s
	}
	return s
}

// nanoseconds rounds seconds down to the microsecond, so that no row moves to the next minute.
func nanoseconds(s float64) int64 { return int64(math.Floor(s*1e6)) * int64(time.Microsecond) }

// calendarLayouts are those of the 2023 and 2024 editions of the Azure trace; a time without a zone is in UTC.
var calendarLayouts = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05"}

func calendarTime(b []byte) (time.Time, error) {
	for _, layout := range calendarLayouts {
		if t, err := time.Parse(layout, strings.TrimSpace(string(b))); err == nil && t.Year() >= 1970 && t.Year() < 2200 {
			return t, nil
		}
	}
	return time.Time{}, badRow(fmt.Sprintf("TIMESTAMP %q is not a time such as 2023-11-16 18:15:46.6805900 or 2024-05-12 00:00:00+00:00", clip(b, 40)))
}
