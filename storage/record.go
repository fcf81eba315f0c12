package storage

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

const (
	recordHeader = 8       // length and checksum
	recordMost   = 1 << 20 // largest payload
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord frames one payload onto b.
func appendRecord(b, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

// damageError says that bytes are not what the journal writes, as opposed to a failure to read them.
type damageError struct{ what string }

func (e *damageError) Error() string { return e.what }

func damagef(format string, args ...any) error {
	return &damageError{what: fmt.Sprintf(format, args...)}
}

// VersionError says that a file is of another version of its format than this program reads.
type VersionError struct{ Version, Reads uint32 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("format version %d, this forewarm reads %d: run the version that wrote it", e.Version, e.Reads)
}

// versionOf is the version that the first line of a file names, where it is of this kind; kind ends in its own.
func versionOf(line []byte, kind string) (theirs, ours uint32, ok bool) {
	name := kind[:strings.LastIndex(kind, " ")+1]
	number, ok := strings.CutPrefix(string(line), name)
	if !ok {
		return 0, 0, false
	}
	number, _, _ = strings.Cut(number, "\n")
	_, err := fmt.Sscanf(kind[len(name):]+number, "%d\n%d", &ours, &theirs)
	return theirs, ours, err == nil
}

// cutOr turns the end of the file inside a record into damage.
func cutOr(err error, offset int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damagef("record at byte %d is cut", offset)
	}
	return err
}

// recordReader reads the records of one file: a segment of the journal, or the outbox.
type recordReader struct {
	r       *bufio.Reader
	offset  int64 // of the next record; after damage, where it begins
	payload []byte
}

// newRecordReader checks the first line, which says what kind of file it is.
func newRecordReader(r io.Reader, kind string) (*recordReader, error) {
	rr := &recordReader{r: bufio.NewReaderSize(r, 64<<10)}
	magic := make([]byte, len(kind))
	n, err := io.ReadFull(rr.r, magic)
	switch {
	case err != nil && cutOr(err, 0) == err: //nolint:errorlint // asks whether cutOr left it as it was
		return rr, err
	case n > 0 && len(bytes.Trim(magic[:n], "\x00")) == 0: // as a file system leaves what it had no time to write
		return rr, damagef("first line is zeros")
	case !strings.HasPrefix(kind, string(magic[:n])):
		if theirs, ours, ok := versionOf(magic[:n], kind); ok {
			return rr, &VersionError{theirs, ours}
		}
		return rr, fmt.Errorf("first line is %q, not %q", magic[:n], kind)
	case err != nil:
		return rr, damagef("first line is cut after %d bytes", n)
	}
	rr.offset = int64(len(kind))
	return rr, nil
}

// recordsFrom reads on at a record, of a file whose first line was checked.
func recordsFrom(r io.Reader, offset int64) *recordReader {
	return &recordReader{r: bufio.NewReaderSize(r, 64<<10), offset: offset}
}

// next gives the next payload, valid until the next call; io.EOF at a clean end.
func (r *recordReader) next() ([]byte, error) {
	var head [recordHeader]byte
	if n, err := io.ReadFull(r.r, head[:]); n == 0 && errors.Is(err, io.EOF) {
		return nil, io.EOF
	} else if err != nil {
		return nil, cutOr(err, r.offset)
	}
	length := binary.LittleEndian.Uint32(head[:4])
	if length == 0 || length > recordMost {
		return nil, damagef("record at byte %d claims %d bytes, the bounds are 1 and %d", r.offset, length, recordMost)
	}
	if cap(r.payload) < int(length) {
		r.payload = make([]byte, length)
	}
	r.payload = r.payload[:length]
	if _, err := io.ReadFull(r.r, r.payload); err != nil {
		return nil, cutOr(err, r.offset)
	}
	if crc32.Checksum(r.payload, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, damagef("record at byte %d: checksum does not match", r.offset)
	}
	r.offset += recordHeader + int64(length)
	return r.payload, nil
}

// endOfFile is nil for the clean end of a segment.
func endOfFile(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
