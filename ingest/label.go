package ingest

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// HashSession is how the opaque name of a conversation or agent run is kept: as its 64-bit xxHash (seed 0), so that the
// clear value need not be. 0 stands for no session.
func HashSession(session string) uint64 {
	if session == "" {
		return 0
	}
	return xxhash.Sum64String(session)
}

// checkLabel says why s cannot be the label in field; reason "" means that it can. It presumes valid UTF-8.
func checkLabel[S string | []byte](field, s S, limit int) (reason Reason, detail string) {
	if len(s) > limit {
		return ReasonLabelTooLong, fmt.Sprintf("%s has %d bytes, the limit is %d", field, len(s), limit)
	}
	if hasControl(s) {
		return ReasonBadLabel, fmt.Sprintf("%s %.64q has a control character", field, s)
	}
	return "", ""
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

// names makes strings of byte slices and remembers the most recent ones: labels repeat, and a hit costs no allocation.
// A slot holds the last string that hashed to it, so memory is bounded and results never depend on what was seen.
type names [256]string

func (n *names) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	slot := &n[xxhash.Sum64(b)%uint64(len(n))]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}
