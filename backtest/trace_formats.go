package backtest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/value"
)

const (
	maxSeconds = 5e9     // from a trace's start: a century and a half, so that nanoseconds fit
	maxBin     = 1 << 53 // of a count in a bin: float64 is exact up to here
	maxAttempt = 1 << 16 // of one call
)

// publicColumns has our names of the columns of public traces: Azure's LLM inference traces, BurstGPT
// (arXiv:2401.17644), and the members of Mooncake's records (arXiv:2407.00079). A column with our name comes first.
var publicColumns = []struct{ public, ours string }{
	{calendarColumn, "t_s"}, {"ContextTokens", "prompt_tokens"}, {"GeneratedTokens", "output_tokens"},
	{"Timestamp", "t_s"}, {"Model", "class"}, {"Session ID", "session"},
	{"Request tokens", "prompt_tokens"}, {"Response tokens", "output_tokens"},
	{"timestamp", "t_s"}, {"input_length", "prompt_tokens"}, {"output_length", "output_tokens"},
}

// calendarColumn has calendar times, not seconds from the start.
const calendarColumn = "TIMESTAMP"

// mooncakeMembers are the members of Mooncake's records that are read. Cached tokens stay unknown.
var mooncakeMembers = []string{"timestamp", "input_length", "output_length"}

// tableReader reads rows with the columns t_s, prompt_tokens, output_tokens and, if there are any, class and
// cached_tokens; of bins requests, of requests session and attempt. Columns are found by name; others are ignored. An
// empty or absent field is unknown. Rows are lines of CSV or, of Mooncake's traces, JSON objects with times in ms.
type tableReader struct {
	lines    *lineScanner
	class    string // of rows without one
	start    time.Time
	mooncake bool
	calendar bool // times are those of a calendar
	binned   bool
	limits   ingest.Limits
	maxCount float64 // largest count

	columns map[string]int
	fields  []string
}

// newTableReader reads the first line. A file has bins if it has a column requests, or if the width of a bin is given.
func newTableReader(l *lineScanner, first []byte, o *Options) (*tableReader, Format, error) {
	limits := ingest.DefaultLimits()
	c := &tableReader{
		lines: l, class: o.Class, start: DefaultStart, limits: limits, maxCount: float64(limits.Tokens),
		columns: map[string]int{}, fields: mooncakeMembers,
	}
	c.mooncake = first[0] == '{'
	if c.mooncake {
		l.repeat = true
	} else if err := c.split(first); err != nil {
		return nil, Format{}, err
	}
	for i, name := range c.fields {
		name = strings.TrimSpace(name)
		if _, twice := c.columns[name]; !twice { // of equal names the first one counts
			c.columns[name] = i
		}
	}
	for _, x := range publicColumns {
		i, found := c.columns[x.public]
		if _, taken := c.columns[x.ours]; found && !taken {
			c.columns[x.ours] = i
			c.calendar = c.calendar || x.public == calendarColumn
		}
	}
	_, timed := c.columns["t_s"]
	_, classes := c.columns["class"]
	_, tokens := c.columns["prompt_tokens"]
	switch {
	case !timed || !classes && !tokens:
		return nil, Format{}, fmt.Errorf("the first line %q is of no known trace format: it must be a JSON record, or a CSV header with t_s and class or prompt_tokens, or that of a public trace of Azure or BurstGPT", value.Cut(string(first), 60))
	case c.calendar && !o.Start.IsZero():
		return nil, Format{}, errors.New("the times of this file are those of a calendar: leave out -start")
	case c.calendar:
		c.start = time.Time{}
	case !o.Start.IsZero():
		c.start = o.Start.UTC().Truncate(time.Minute)
	}
	if _, sums := c.columns["requests"]; sums || o.Bin > 0 {
		c.binned, c.maxCount = true, maxBin
		return c, binsFormat, nil
	}
	return c, requestsFormat, nil
}

// ofMooncake reports whether a line is a record of Mooncake's, or the beginning of one.
func ofMooncake(line []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return bytes.Contains(line, []byte(`"input_length"`))
	}
	return members["input_length"] != nil
}

// split divides a row into fields.
func (c *tableReader) split(line []byte) (err error) {
	if c.mooncake {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(line, &members); err != nil {
			return badRow(fmt.Sprintf("%v: one object a line with timestamp, input_length and output_length", err))
		}
		c.fields = nil
		for _, name := range mooncakeMembers {
			c.fields = append(c.fields, strings.TrimPrefix(string(members[name]), "null"))
		}
		return nil
	}
	if bytes.IndexByte(line, '"') < 0 {
		c.fields = strings.Split(string(line), ",")
		return nil
	}
	if c.fields, err = csv.NewReader(bytes.NewReader(line)).Read(); err != nil {
		return badRow(fmt.Sprintf("%v: quote fields as RFC 4180 says", err))
	}
	return nil
}

func (c *tableReader) next() (Item, error) {
	line, err := c.lines.next()
	if err != nil {
		return Item{}, err
	}
	if err = c.split(line); err != nil {
		return Item{}, err
	}
	class := cmp.Or(c.text("class"), c.class)
	if len(class) > c.limits.LabelBytes {
		return Item{}, badRow("the class name is too long: is this the class column?")
	}
	at, err := c.time()
	if err != nil {
		return Item{}, err
	}
	var requests, prompt, cached, output, attempt float64
	for _, f := range []struct {
		name  string
		limit float64
		to    *float64
	}{
		{"requests", c.maxCount, &requests}, {"prompt_tokens", c.maxCount, &prompt},
		{"cached_tokens", c.maxCount, &cached}, {"output_tokens", c.maxCount, &output}, {"attempt", maxAttempt, &attempt},
	} {
		if *f.to, err = c.number(f.name, f.limit); err != nil {
			return Item{}, err
		}
	}
	if cached > prompt {
		return Item{}, badRow("cached_tokens exceeds prompt_tokens: prompt_tokens includes the cached ones")
	}
	if c.binned {
		return Item{Sum: &ingest.Sum{
			Class: class, Start: at, Requests: requests, PromptTokens: prompt, CachedTokens: cached, OutputTokens: output,
		}}, nil
	}
	r := &ingest.Request{
		Class: class, Session: ingest.HashSession(c.text("session")), Attempt: 1, ArrivedAt: at,
		PromptTokens: count(prompt), CachedTokens: count(cached), OutputTokens: count(output), MaxOutputTokens: ingest.Unknown,
	}
	if attempt > 1 {
		r.Attempt = int(attempt)
	}
	return Item{Request: r}, nil
}

// time returns the time of the row, rounded down, so that no row moves to the next minute.
func (c *tableReader) time() (time.Time, error) {
	if c.calendar {
		text := c.text("t_s")
		iso := strings.Replace(text, " ", "T", 1)
		at, err := time.Parse(time.RFC3339, iso)
		if err != nil { // without a zone it is UTC
			at, err = time.Parse("2006-01-02T15:04:05", iso)
		}
		if err != nil || at.Year() < 1970 || at.Year() > 2200 {
			return at, badRow(fmt.Sprintf("%s %q is no time such as 2023-11-16 18:15:46.6805900", calendarColumn, value.Cut(text, 40)))
		}
		return at.UTC(), nil
	}
	second := 1.0
	if c.mooncake {
		second = 1e3
	}
	t, err := c.number("t_s", maxSeconds*second)
	if err == nil && math.IsNaN(t) {
		err = badRow("the time is empty: give seconds from the trace's start")
	}
	return c.start.Add(time.Duration(math.Floor(t/second*1e6)) * time.Microsecond), err
}

// text returns a field of the row, "" if absent.
func (c *tableReader) text(column string) string {
	if i, ok := c.columns[column]; ok && i < len(c.fields) {
		return strings.TrimSpace(c.fields[i])
	}
	return ""
}

// number returns a field's number; NaN if the field is empty or absent.
func (c *tableReader) number(column string, limit float64) (float64, error) {
	text := c.text(column)
	if text == "" {
		return math.NaN(), nil
	}
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(x):
		return 0, badRow(fmt.Sprintf("%s %q is not a number: leave it empty when unknown", column, value.Cut(text, 40)))
	case x < 0:
		return 0, badRow(fmt.Sprintf("%s %s is negative: leave it empty when unknown", column, text))
	case x > limit:
		return 0, badRow(fmt.Sprintf("%s %s is above %g: check the unit", column, text, limit))
	}
	return x, nil
}

// count returns a token count, Unknown for NaN.
func count(x float64) int64 {
	if math.IsNaN(x) {
		return ingest.Unknown
	}
	return int64(x)
}

// recordReader reads recorded telemetry, one JSON object per line, with the daemon's decoder.
type recordReader struct {
	lines *lineScanner
	meta  codec.Meta
	batch ingest.Batch
}

func (n *recordReader) next() (Item, error) {
	for {
		line, err := n.lines.next()
		if err != nil {
			return Item{}, err
		}
		n.batch.Reset()
		codec.Decode(n.meta, line, ingest.DefaultLimits(), &n.batch)
		switch {
		case len(n.batch.Requests) == 1:
			r := n.batch.Requests[0]
			return Item{Request: &r}, nil
		case len(n.batch.Refused) > 0:
			return Item{}, badRow(fmt.Sprintf("%s: %s", n.batch.Refused[0].Reason, n.batch.Refused[0].Detail))
		case n.batch.Ignored == 0:
			return Item{}, badRow("the line holds no request: one forewarm.request.v1 object a line")
		}
	}
}

// maxLine bounds one line of a trace, bytes.
const maxLine = 4 << 20

// lineScanner reads lines of at most maxLine bytes and counts them.
type lineScanner struct {
	*bufio.Scanner
	line   int  // number of the newest line, from 1
	repeat bool // the next call of next returns the same line again
}

// next returns the next line that is not blank, without its end and byte order mark. It is valid until the next call.
func (l *lineScanner) next() ([]byte, error) {
	for l.repeat || l.Scan() {
		if !l.repeat {
			l.line++
		}
		l.repeat = false
		b := l.Bytes()
		if l.line == 1 {
			b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
		}
		if b = bytes.TrimSpace(b); len(b) > 0 {
			return b, nil
		}
	}
	if err := l.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line is longer than %d MiB: is this a text file with one record a line?", maxLine>>20)
	} else if err != nil {
		return nil, err
	}
	return nil, io.EOF
}
