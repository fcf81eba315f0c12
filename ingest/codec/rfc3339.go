package codec

import (
	"bytes"
	"time"
)

// parseRFC3339 reads a date and time as [time.Time.UnmarshalText] does, and with t and z in lower case, which the standard
// allows (RFC 3339, section 5.6). The result is in UTC.
func parseRFC3339(text []byte) (t time.Time, ok bool) {
	if t.UnmarshalText(text) != nil && t.UnmarshalText(bytes.ToUpper(text)) != nil {
		return t, false
	}
	return t.UTC(), true
}
