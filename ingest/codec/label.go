package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/forewarm/forewarm/ingest"
)

func hashSession(session []byte) uint64 {
	if len(session) == 0 {
		return 0
	}
	return xxhash.Sum64(session)
}

// checkLabel says why s cannot be the label in field; reason "" means that it can. It presumes valid UTF-8.
func checkLabel[F, S string | []byte](field F, s S, limit int) (reason ingest.Reason, detail string) {
	switch reason = labelFault(s, limit); reason {
	case ingest.ReasonLabelTooLong:
		detail = fmt.Sprintf("%s has %d bytes, the limit is %d", field, len(s), limit)
	case ingest.ReasonBadLabel:
		detail = fmt.Sprintf("%s has a control character", field)
	}
	return reason, detail
}

// labelFault is the reason of checkLabel alone, which costs no memory.
func labelFault[S string | []byte](s S, limit int) ingest.Reason {
	switch {
	case len(s) > limit:
		return ingest.ReasonLabelTooLong
	case hasControl(s):
		return ingest.ReasonBadLabel
	}
	return ""
}

// hasControl finds the control characters of Unicode (category Cc): U+0000 to U+001F and U+007F to U+009F.
func hasControl[S string | []byte](s S) bool {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c == 0x7f || c == 0xc2 && i+1 < len(s) && s[i+1] < 0xa0 {
			return true
		}
	}
	return false
}

// isPrintable says whether every byte of b is printable ASCII, U+0020 to U+007E: most names are, and then they need no
// other check.
func isPrintable(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		if (w|(w-' '*eachByte)|(w+eachByte))&eachHigh != 0 { // see special
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
