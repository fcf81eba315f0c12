package backtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// prefixBlocks is the size of the prefix cache that converts block hashes to cached tokens: more than a trace fills.
const prefixBlocks = 1 << 20

// recordReader reads recorded telemetry, one JSON object per line, with the daemon's decoder.
type recordReader struct {
	lines *lineScanner
	meta  codec.Meta
	cache *ingest.PrefixCache
	batch ingest.Batch
}

func newRecordReader(l *lineScanner, f Format, o *Options) *recordReader {
	n := &recordReader{
		lines: l, cache: ingest.NewPrefixCache(prefixBlocks),
		meta: codec.Meta{Kind: codec.KindRequest, ContentType: codec.ContentTypeJSON, Pool: o.Pool, Class: o.Class},
	}
	if f == dynamoFormat {
		n.meta.ContentType = codec.ContentTypeDynamo
	}
	return n
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
			return Item{Request: n.withHits(n.batch.Requests[0])}, nil
		case len(n.batch.Refused) > 0:
			return Item{}, badRow(fmt.Sprintf("%s: %s", n.batch.Refused[0].Reason, n.batch.Refused[0].Detail))
		case n.batch.Ignored == 0:
			return Item{}, badRow("the line holds no request: one forewarm.request.v1 object a line")
		}
	}
}

// withHits returns a record with the cached tokens of its blocks.
func (n *recordReader) withHits(r ingest.Request) *ingest.Request {
	hit := int64(n.cache.Hit(r.Blocks)) * r.BlockTokens
	if r.CachedTokens == ingest.Unknown && len(r.Blocks) > 0 {
		r.CachedTokens = min(hit, r.PromptTokens)
	}
	r.Blocks, r.BlockTokens = nil, 0
	return &r
}

// maxLine bounds one line of a trace, bytes.
const maxLine = 4 << 20

// lineScanner reads lines of at most maxLine bytes and counts them.
type lineScanner struct {
	*bufio.Scanner
	line   int  // number of the newest line, from 1
	repeat bool // the next call of next returns the same line again
}

func newLineScanner(r io.Reader) *lineScanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLine)
	return &lineScanner{Scanner: s}
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

func clip(b []byte, n int) string {
	if len(b) > n {
		return string(b[:n]) + "…"
	}
	return string(b)
}
