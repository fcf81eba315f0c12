package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fxamacker/cbor/v2"
)

// journalCursor walks the journal in step with a replay, so that comparing costs one sequential read.
type journalCursor struct {
	j       *Journal
	index   int // of the segment being read
	file    *os.File
	reader  *recordReader
	payload []byte // the record that the replay has not reached yet; nil when it is to be read
	started bool   // a record was found: from now on a record passed over is one that the replay left out
}

// openCursor begins at the segment that holds at, or would.
func (j *Journal) openCursor(at Position) *journalCursor {
	c := &journalCursor{j: j}
	for c.index+1 < len(j.segments) {
		next := j.segments[c.index+1].first
		if next.Tick.IsZero() || at.Compare(next) < 0 {
			break
		}
		c.index++
	}
	return c
}

// find moves to the record at a position and gives its payload, or nil when there is none. Records passed over on the way
// are counted, except before the first one found.
func (c *journalCursor) find(at Position, want []byte) (payload []byte, skipped uint64, err error) {
	if first := c.j.segments[0].first; at.Compare(first) < 0 {
		return nil, 0, fmt.Errorf("the journal begins with %s", first)
	}
	for {
		if c.payload == nil {
			if c.payload, err = c.read(); err != nil {
				return nil, skipped, err
			}
		}
		if bytes.Equal(c.payload, want) { // the common case needs no decoding
			c.payload, c.started = nil, true
			return want, skipped, nil
		}
		var p placed
		if err := cbor.Unmarshal(c.payload, &p); err != nil {
			return nil, skipped, err
		}
		switch order := (Position{Tick: p.Tick, Pool: p.Pool}).Compare(at); {
		case order == 0:
			payload, c.payload, c.started = c.payload, nil, true
			return payload, skipped, nil
		case order > 0:
			return nil, skipped, nil
		}
		c.payload = nil
		if c.started {
			skipped++
		}
	}
}

func (c *journalCursor) read() ([]byte, error) {
	for {
		if c.reader == nil {
			if c.index >= len(c.j.segments) {
				return nil, io.ErrUnexpectedEOF
			}
			s := c.j.segments[c.index]
			f, err := os.Open(c.j.path(s.number))
			if err != nil {
				return nil, err
			}
			c.file = f
			if c.reader, err = newRecordReader(io.LimitReader(f, s.size), journalMagic); err != nil {
				return nil, err
			}
		}
		payload, err := c.reader.next()
		if !errors.Is(err, io.EOF) {
			return payload, err
		}
		c.close()
		c.index++
	}
}

func (c *journalCursor) close() {
	if c.file != nil {
		_ = c.file.Close() // read only
	}
	c.file, c.reader = nil, nil
}
