package codec

import (
	"strings"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

func TestScan(t *testing.T) {
	for data, want := range map[string]ingest.Reason{
		`{"a":[1,-0.5e+3,"\u00e9\n",true,false,null,{}]}`: "",
		`{"a":12`:                             ingest.ReasonTruncated,
		`{"a":tru`:                            ingest.ReasonTruncated,
		`{"a":"x\`:                            ingest.ReasonTruncated,
		`{"a":"x\u00`:                         ingest.ReasonTruncated,
		`-`:                                   ingest.ReasonTruncated,
		`1.`:                                  ingest.ReasonTruncated,
		`{"a":trux}`:                          ingest.ReasonNotJSON,
		`{"a":01}`:                            ingest.ReasonNotJSON,
		`{"a":+1}`:                            ingest.ReasonNotJSON,
		`{"a":.5}`:                            ingest.ReasonNotJSON,
		`{"a":1.}`:                            ingest.ReasonNotJSON,
		`{"a":"\x"}`:                          ingest.ReasonNotJSON,
		`{"a":"\u00g0"`:                       ingest.ReasonNotJSON,
		`{'a':1}`:                             ingest.ReasonNotJSON,
		`{} {}`:                               ingest.ReasonNotJSON,
		"\ufeff{}":                            ingest.ReasonNotJSON,
		"\x00":                                ingest.ReasonNotJSON,
		`[[[[]]]]`:                            "",
		`[[[[[]]]]]`:                          ingest.ReasonTooDeep,
		`[[],[],[],[[],[[]]],{"a":{"b":[]}}]`: "",
	} {
		if got, at := scan([]byte(data), 4); got != want {
			t.Errorf("%s: got %q at %d, want %q", data, got, at, want)
		}
	}
}

func TestScanStopsAtTheDepthLimit(t *testing.T) {
	if reason, at := scan([]byte(strings.Repeat("[", 1<<20)), 32); reason != ingest.ReasonTooDeep || at != 32 {
		t.Errorf("got %q at %d, want %q at 32", reason, at, ingest.ReasonTooDeep)
	}
}
