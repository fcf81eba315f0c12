package codec

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// EncodingGzip is the content encoding of compressed messages (RFC 1952).
const EncodingGzip = "gzip"

// inflate returns data decompressed to at most Limits.MessageBytes, valid until the next message. It refuses the message if
// it cannot. It starts no goroutine.
func (d *Decoder) inflate(data []byte) []byte {
	encoding := d.meta.Encoding
	switch {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		return data
	case !strings.EqualFold(encoding, EncodingGzip) && !strings.EqualFold(encoding, "x-gzip"):
		d.fail(ingest.ReasonUnknownFormat, "content encoding %.64q is not accepted: send %s, or no compression and no Content-Encoding", encoding, EncodingGzip)
		return nil
	}
	d.compressed.Reset(data)
	err := d.gzip.Reset(&d.compressed)
	if err == nil {
		buffer := bytes.NewBuffer(d.plain)
		_, err = buffer.ReadFrom(io.LimitReader(&d.gzip, int64(d.limits.MessageBytes)+1))
		d.plain = buffer.Bytes()
	}
	d.compressed.Reset(nil)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		d.fail(ingest.ReasonTruncated, "message of %d bytes ends within its %s stream", len(data), encoding)
	case err != nil:
		d.fail(ingest.ReasonBadEncoding, "message does not decode from %s: %v", encoding, err)
	case len(d.plain) > d.limits.MessageBytes:
		d.fail(ingest.ReasonTooLarge, "message of %d bytes decodes from %s to more than the limit of %d", len(data), encoding,
			d.limits.MessageBytes)
	}
	return d.plain
}
