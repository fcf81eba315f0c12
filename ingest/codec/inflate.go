package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/forewarm/forewarm/ingest"
)

// EncodingGzip is the content encoding of compressed messages (RFC 1952).
const EncodingGzip = "gzip"

// keepPlain is the largest buffer that a decoder keeps for its next message, in bytes.
const keepPlain = 1 << 20

// inflater decompresses messages. It is reused, and starts no goroutine.
type inflater struct {
	plain  []byte // what the last message decoded to
	source bytes.Reader
	gzip   gzip.Reader
}

// inflate decompresses data to at most atMost bytes. The result is valid until the next call of release. Without a
// result, reason is not "".
func (p *inflater) inflate(encoding string, data []byte, atMost int) (plain []byte, reason ingest.Reason, detail string) {
	switch {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		return data, "", ""
	case !strings.EqualFold(encoding, EncodingGzip) && !strings.EqualFold(encoding, "x-gzip"):
		return nil, ingest.ReasonUnknownFormat, fmt.Sprintf("content encoding %.64q is not known, want %s", encoding, EncodingGzip)
	}
	p.source.Reset(data)
	err := p.gzip.Reset(&p.source)
	if err == nil {
		buffer := bytes.NewBuffer(p.plain)
		_, err = buffer.ReadFrom(io.LimitReader(&p.gzip, int64(atMost)+1))
		p.plain = buffer.Bytes()
	}
	switch {
	case err == nil && len(p.plain) > atMost:
		return nil, ingest.ReasonTooLarge, fmt.Sprintf("message of %d bytes decodes from %s to more than the limit of %d", len(data), encoding, atMost)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ingest.ReasonTruncated, fmt.Sprintf("message of %d bytes ends within its %s stream", len(data), encoding)
	case err != nil:
		return nil, ingest.ReasonBadEncoding, fmt.Sprintf("message does not decode from %s: %v", encoding, err)
	}
	return p.plain, "", ""
}

// release releases the last message, and a large buffer.
func (p *inflater) release() {
	p.source.Reset(nil)
	if p.plain = p.plain[:0]; cap(p.plain) > keepPlain {
		p.plain = nil
	}
}
