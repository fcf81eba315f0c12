package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/forewarm/forewarm/ingest"
)

// The content encodings of messages (RFC 9110, section 8.4). More than one per message is refused.
const (
	EncodingGzip = "gzip" // RFC 1952
	EncodingZstd = "zstd" // RFC 8878, without dictionary and with windows of at most 8 MiB (RFC 9659)
)

const (
	zstdWindow = 8 << 20 // bytes; RFC 9659, section 3
	keepPlain  = 1 << 20 // largest buffer that a decoder keeps for its next message, in bytes
)

// inflater decompresses messages. Its parts are made at first use and reused. It starts no goroutine.
type inflater struct {
	plain      []byte // what the last message decoded to
	source     bytes.Reader
	gzip       *gzip.Reader
	zstd       *zstd.Decoder
	zstdAtMost int // the bound that zstd was made for
}

// inflate decompresses data to at most atMost bytes. The result is valid until the next call of release. Without a
// result, reason is not "".
func (p *inflater) inflate(encoding string, data []byte, atMost int) (plain []byte, reason ingest.Reason, detail string) {
	var err error
	switch {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		return data, "", ""
	case strings.EqualFold(encoding, EncodingGzip), strings.EqualFold(encoding, "x-gzip"):
		err = p.gunzip(data, atMost)
	case strings.EqualFold(encoding, EncodingZstd):
		err = p.unzstd(data, atMost)
	case strings.Contains(encoding, ","):
		return nil, ingest.ReasonUnknownFormat, fmt.Sprintf("content encodings are stacked: %.64q, want one of %s, %s", encoding, EncodingGzip, EncodingZstd)
	default:
		return nil, ingest.ReasonUnknownFormat, fmt.Sprintf("content encoding %.64q is not known, want %s or %s", encoding, EncodingGzip, EncodingZstd)
	}
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), err == nil && len(p.plain) > atMost:
		return nil, ingest.ReasonTooLarge, fmt.Sprintf("message of %d bytes decodes from %s to more than the limit of %d", len(data), encoding, atMost)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, ingest.ReasonTooLarge, fmt.Sprintf("message wants a zstd window of more than %d bytes", zstdWindow)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && len(data) == 0:
		return nil, ingest.ReasonTruncated, fmt.Sprintf("message of %d bytes ends within its %s stream", len(data), encoding)
	case err != nil:
		return nil, ingest.ReasonBadEncoding, fmt.Sprintf("message does not decode from %s: %v", encoding, err)
	}
	return p.plain, "", ""
}

func (p *inflater) gunzip(data []byte, atMost int) error {
	p.source.Reset(data)
	if p.gzip == nil {
		p.gzip = new(gzip.Reader)
	}
	if err := p.gzip.Reset(&p.source); err != nil {
		return err
	}
	plain := bytes.NewBuffer(p.plain)
	_, err := plain.ReadFrom(io.LimitReader(p.gzip, int64(atMost)+1))
	p.plain = plain.Bytes()
	return err
}

func (p *inflater) unzstd(data []byte, atMost int) (err error) {
	if p.zstd == nil || p.zstdAtMost != atMost {
		p.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow),
			zstd.WithDecoderMaxMemory(uint64(max(atMost, zstd.MinWindowSize))))
		if err != nil {
			return err
		}
		p.zstdAtMost = atMost
	}
	p.plain, err = p.zstd.DecodeAll(data, p.plain)
	return err
}

// release releases the last message, and a large buffer.
func (p *inflater) release() {
	p.source.Reset(nil)
	if p.plain = p.plain[:0]; cap(p.plain) > keepPlain {
		p.plain = nil
	}
}
