package codec

import (
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

func text(s string) value   { return value{name: "x", kind: '"', raw: []byte(s)} }
func number(s string) value { return value{name: "x", kind: '0', raw: []byte(s)} }

func TestLooseTime(t *testing.T) {
	half := at.Add(500 * time.Millisecond)
	for in, want := range map[string]time.Time{
		"1795240800":                              at,
		"1795240800.5":                            half,
		"1.7952408005e9":                          at, // whole seconds
		"1795240800000":                           at,
		"1795240800500.0":                         half,
		"1795240800000000":                        at,
		"1795240800500000000":                     half,
		"1795240800.123456789":                    at.Add(123456789),
		"1795240800123.456789":                    at.Add(123456789),
		"1795240800.1234567891":                   at.Add(123456789),
		"2026-11-21T06:00:00Z":                    at,
		"2026-11-21T06:00:00.5Z":                  half,
		"2026-11-21T07:00:00.500+01:00":           half,
		"2026-11-21T07:00:00+0100":                at,
		"2026-11-21 06:00:00.500000":              half,
		"2026-11-21T06:00:00":                     at,
		"2026-11-21 06:00:00.5+00:00":             half,
		"2026-11-21 06:00:00.500 UTC":             half,
		"2026-11-21T06:00:00.5000000000Z":         half,
		"2026-11-21t06:00:00.5z":                  half,
		"2026-11-21 06:00:00,5":                   half,
		"2026-11-21 11:30:00.5 +0530 IST":         half,
		"2026-11-21 06:00:00.500000000 +0000 UTC": half,
		"2026/11/21T06:00:00+0000":                at,
		"2026/11/21 06:00:00.5":                   half,
		"21/Nov/2026:01:00:00 -0500":              at,
	} {
		var d Decoder
		for _, v := range []value{text(in), number(in)} {
			if v.kind == '0' && strings.ContainsAny(in[:6], "-/") {
				continue
			}
			if got := d.looseTime(v); !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("%s %s is %v, want %v: %s", kindNames[v.kind], in, got, want, d.refusal.Detail)
			}
		}
	}
	for _, in := range []string{"soon", "1", "-1", "1e400", "NaN", "Inf", "9223372036854775807", "99999999999999999999", "1.5.5", "2026-02-30T00:00:00Z", "2026-11-21 06:00:00 PST", "2026-11-21 06:00:00 CET", "1999-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "+1795240800x", " 1795240800"} {
		var d Decoder
		if got := d.looseTime(text(in)); !got.IsZero() || d.refusal.Reason != ingest.ReasonBadTime {
			t.Errorf("%s is %v, refused %q", in, got, d.refusal.Reason)
		}
	}
}

func TestLooseCount(t *testing.T) {
	for _, tc := range []struct {
		v    value
		want int64
		why  ingest.Reason
	}{
		{number("7"), 7, ""},
		{text("7"), 7, ""},
		{text("7.0"), 7, ""},
		{number("1e2"), 100, ""},
		{number("-0"), 0, ""},
		{text("-"), ingest.Unknown, ""},
		{text(""), ingest.Unknown, ""},
		{value{name: "x", kind: 'n', raw: []byte("null")}, ingest.Unknown, ""},
		{value{}, ingest.Unknown, ""},
		{text("7 tokens"), ingest.Unknown, ingest.ReasonWrongType},
		{text("NaN"), ingest.Unknown, ingest.ReasonWrongType},
		{number("7.5"), ingest.Unknown, ingest.ReasonWrongType},
		{value{name: "x", kind: 't', raw: []byte("true")}, ingest.Unknown, ingest.ReasonWrongType},
		{number("-7"), ingest.Unknown, ingest.ReasonNegativeCount},
		{number("1001"), ingest.Unknown, ingest.ReasonHugeCount},
		{text("Inf"), ingest.Unknown, ingest.ReasonHugeCount},
	} {
		var d Decoder
		if got := d.looseCount(tc.v, 1000); got != tc.want || d.refusal.Reason != tc.why {
			t.Errorf("%s %q is %d, refused %q, want %d and %q", kindNames[tc.v.kind], tc.v.raw, got, d.refusal.Reason, tc.want, tc.why)
		}
	}
}

func TestFind(t *testing.T) {
	tree := newFieldTable(paths{fieldModel: {"a.b", "m"}, fieldTenant: {"t.u"}})
	for data, want := range map[string][2]string{
		`{"m":"2","a":{"b":"1"}}`:              {"1"}, // the first path wins, in any order of members
		`{"a":{"b":"1"},"m":"2"}`:              {"1"},
		`{"a.b":"1"}`:                          {"1"},
		`{"a":"{\"b\":\"1\"}"}`:                {"1"},
		`{"a":{"b":null},"m":"2"}`:             {"2"},
		`{"a":{"b":"-"},"m":"2"}`:              {"2"},
		`{"a":{"b":{}},"m":"2"}`:               {"2"},
		`{"a":"{\"b\":","m":"2"}`:              {"2"},
		`{"m":"1","m":"2"}`:                    {"2"},
		`{"\u0061":{"b":"1"}}`:                 {"1"},
		`{"a":[{"b":"1"}],"b":"1"}`:            {},
		`{"t":{"u":"x","a":{"b":"1"}},"m":""}`: {"", "x"},
	} {
		d := Decoder{limits: ingest.DefaultLimits()}
		var r record
		s := d.scan([]byte(data), 9)
		d.find(&s, tree, nil, &r)
		d.finish(&s, 9)
		if got := [2]string{string(r.members[fieldModel].raw), string(r.members[fieldTenant].raw)}; got != want {
			t.Errorf("%s: found %q, want %q", data, got, want)
		}
	}
}
