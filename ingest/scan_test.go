package ingest

import (
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	for data, want := range map[string]Reason{
		`{"a":[1,-0.5e+3,"\u00e9\n",true,false,null,{}]}`: "",
		`{"a":12`:                             ReasonTruncated,
		`{"a":tru`:                            ReasonTruncated,
		`{"a":"x\`:                            ReasonTruncated,
		`{"a":"x\u00`:                         ReasonTruncated,
		`-`:                                   ReasonTruncated,
		`1.`:                                  ReasonTruncated,
		`{"a":trux}`:                          ReasonNotJSON,
		`{"a":01}`:                            ReasonNotJSON,
		`{"a":+1}`:                            ReasonNotJSON,
		`{"a":.5}`:                            ReasonNotJSON,
		`{"a":1.}`:                            ReasonNotJSON,
		`{"a":"\x"}`:                          ReasonNotJSON,
		`{"a":"\u00g0"`:                       ReasonNotJSON,
		`{'a':1}`:                             ReasonNotJSON,
		`{} {}`:                               ReasonNotJSON,
		"\ufeff{}":                            ReasonNotJSON,
		"\x00":                                ReasonNotJSON,
		`[[[[]]]]`:                            "",
		`[[[[[]]]]]`:                          ReasonTooDeep,
		`[[],[],[],[[],[[]]],{"a":{"b":[]}}]`: "",
	} {
		if got, at := scan([]byte(data), 4); got != want {
			t.Errorf("%s: got %q at %d, want %q", data, got, at, want)
		}
	}
}

func TestScanStopsAtTheDepthLimit(t *testing.T) {
	if reason, at := scan([]byte(strings.Repeat("[", 1<<20)), 32); reason != ReasonTooDeep || at != 32 {
		t.Errorf("got %q at %d, want %q at 32", reason, at, ReasonTooDeep)
	}
}
