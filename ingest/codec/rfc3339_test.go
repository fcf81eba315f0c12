package codec

import (
	"strings"
	"testing"
	"time"
)

// TestParseRFC3339 compares with the standard library, near every boundary.
func TestParseRFC3339(t *testing.T) {
	for _, text := range []string{
		"2026-11-21T06:00:00Z", "2026-11-21T06:00:00.5Z", "2026-11-21T06:00:00.123456789Z", "2026-11-21T06:00:00.1234567891Z",
		"2026-11-21T06:00:00+01:00", "2026-11-21T06:00:00.25-23:59", "2026-11-21T06:00:00+24:00", "2026-11-21T06:00:00+01:60",
		"2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2000-02-29T23:59:59Z", "2100-02-29T00:00:00Z", "0000-01-01T00:00:00Z",
		"2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-01T24:00:00Z",
		"2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z",
		"2026-01-01 00:00:00Z", "2026-01-01t00:00:00z", "2026-1-01T00:00:00Z", "2026-01-01T00:00:0:Z", "+026-01-01T00:00:00Z",
		"2026-01-01T00:00:00Zz", "2026-01-01T00:00:00+0100", "2026-01-01T00:00:00+1:00", "", "Z",
	} {
		compareRFC3339(t, text)
	}
}

func compareRFC3339(t *testing.T, text string) {
	var want time.Time
	err := want.UnmarshalText([]byte(strings.ToUpper(text))) // which takes no lower case
	got, ok := parseRFC3339([]byte(text))
	if ok != (err == nil) || ok && got != want.UTC() {
		t.Errorf("%q: got %v, %v; the standard library gives %v, %v", text, got, ok, want, err)
	}
}
