package backtest

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync/atomic"
)

// maxLine bounds one line of a trace, bytes.
const maxLine = 4 << 20

// countingReader counts what passes through it, for progress bars.
type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// lineScanner reads lines of at most maxLine bytes and knows their number.
type lineScanner struct {
	s      *bufio.Scanner
	line   int // number of the newest line, from 1
	peeked bool
}

func newLineScanner(r io.Reader) *lineScanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLine)
	return &lineScanner{s: s}
}

// peek is the first line; the next call of next answers it again.
func (l *lineScanner) peek() ([]byte, error) {
	b, err := l.next()
	l.peeked = err == nil
	return b, err
}

// next is the next line that is not blank, without its end and without a byte order mark. It is valid until the next call.
func (l *lineScanner) next() ([]byte, error) {
	if l.peeked {
		l.peeked = false
		return l.trimmed(), nil
	}
	for l.s.Scan() {
		l.line++
		if b := l.trimmed(); len(b) > 0 {
			return b, nil
		}
	}
	if err := l.s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line is longer than %d MiB: is this a text file with one record a line?", maxLine>>20)
	} else if err != nil {
		return nil, err
	}
	return nil, io.EOF
}

func (l *lineScanner) trimmed() []byte {
	b := l.s.Bytes()
	if l.line == 1 {
		b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	}
	return bytes.TrimSpace(b)
}

// columns finds the fields of a CSV row by the names in its header.
type columns struct {
	index  []int // position of each wanted column, −1 when absent
	fields [][]byte
}

// newColumns reads a header. Every wanted column must be there, optional ones may be absent.
func newColumns(header []byte, wanted []string, optional ...string) (*columns, error) {
	c := &columns{}
	if err := c.split(header); err != nil {
		return nil, err
	}
	for i, name := range append(append([]string(nil), wanted...), optional...) {
		at := -1
		for j, f := range c.fields {
			if string(bytes.TrimSpace(f)) == name {
				at = j
				break
			}
		}
		if at < 0 && i < len(wanted) {
			return nil, fmt.Errorf("the header %q has no column %q: add it", clip(header, 80), name)
		}
		c.index = append(c.index, at)
	}
	return c, nil
}

// split cuts a row into its fields.
func (c *columns) split(line []byte) error {
	c.fields = c.fields[:0]
	if bytes.IndexByte(line, '"') < 0 {
		for {
			i := bytes.IndexByte(line, ',')
			if i < 0 {
				c.fields = append(c.fields, line)
				return nil
			}
			c.fields = append(c.fields, line[:i])
			line = line[i+1:]
		}
	}
	quoted, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return badRow(fmt.Sprintf("%v: quote fields as RFC 4180 says", err))
	}
	for _, f := range quoted {
		c.fields = append(c.fields, []byte(f))
	}
	return nil
}

// text is wanted column i of the row, nil when absent.
func (c *columns) text(i int) []byte {
	if j := c.index[i]; j >= 0 && j < len(c.fields) {
		return bytes.TrimSpace(c.fields[j])
	}
	return nil
}

// number is wanted column i; NaN when the field is empty or absent.
func (c *columns) number(i int, name string, most float64) (float64, error) {
	b := c.text(i)
	if len(b) == 0 {
		return math.NaN(), nil
	}
	x, err := strconv.ParseFloat(string(b), 64)
	switch {
	case err != nil || math.IsNaN(x):
		return 0, badRow(fmt.Sprintf("%s %q is not a number: leave it empty when unknown", name, clip(b, 40)))
	case x < 0:
		return 0, badRow(fmt.Sprintf("%s %s is negative: leave it empty when unknown", name, b))
	case x > most:
		return 0, badRow(fmt.Sprintf("%s %s is above %g: check the unit", name, b, most))
	}
	return x, nil
}
