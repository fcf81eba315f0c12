package backtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one line of a trace, bytes.
const maxLine = 4 << 20

// lineScanner reads lines of at most maxLine bytes and counts them.
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

// peek returns the first line; the next call of next returns it too.
func (l *lineScanner) peek() ([]byte, error) {
	b, err := l.next()
	l.peeked = err == nil
	return b, err
}

// next returns the next line that is not blank, without its end and byte order mark. It is valid until the next call.
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
