package ingest

import (
	"strings"
	"testing"
)

// TestRequestForms writes each member with each value in the usual form and in one that only the general rules read, and
// wants the same request or the same refusal of both, whatever was read before.
func TestRequestForms(t *testing.T) {
	values := []string{
		`"p"`, `""`, `"eight by"`, `"` + strings.Repeat("x", 257) + `"`, "\"caf\u00e9\"", `"a\"b"`, `"del` + "\x7f" + `"`,
		`0`, `00`, `007`, `-0`, `-1`, `7`, `1.0`, `1e3`, `1.5`, `12345678`, `100000000`, `100000001`, `123456789012345`, `1234567890123456`, `99999999999999999999`, `1x`, `12345678x`, `:`, `/`,
		`946684799999`, `946684800000`, `7258118399999`, `7258118400000`, `"2026-03-02T10:00:00.123Z"`, `"2026-03-02T10:00:00.123+01:00"`, `"1999-12-31T23:59:59Z"`, `"2026-02-29T00:00:00Z"`,
		`"finished"`, `"Finished"`, `"rejected"`, `"cancelled"`, `"ok"`, `"error"`, `"0123456789abcdef"`, `"0123456789ABCDEF"`, `"0123456789abcdeg"`, `"0123456789abcde"`, `null`, `true`, `{"a":[1]}`, `[`, ``,
	}
	before := `"pool":"p","arrived_at":1772445600000,"prompt_tokens":5,`
	for _, name := range append(requestKeyNames[:], "other") {
		for _, v := range values {
			for _, rest := range []string{`}`, `,"output_tokens":9}`, `,"model":"m","output_tokens":9}`} {
				usual := `{` + before + `"` + name + `":` + v + rest
				general := `{` + before + `"` + name + "\" : " + v + " " + rest
				want := decode(Meta{}, general)
				for range 2 { // the second time the order is known
					got := decode(Meta{}, usual)
					if len(got.Refused) == 1 && len(want.Refused) == 1 && got.Refused[0].Reason == want.Refused[0].Reason {
						continue
					}
					if d := diff(want, got); d != "" {
						t.Fatalf("%s: %s", usual, d)
					}
				}
			}
		}
	}
}

// Of a class that comes twice the last one counts, in whatever form, and none is left over for the next record.
func TestClassTwice(t *testing.T) {
	rest := `,"arrived_at":1772445600000,"prompt_tokens":5}`
	d, limits := new(Decoder), DefaultLimits()
	for _, c := range []struct{ members, want string }{
		{`"class":"a","class":"b"`, "b"},
		{`"class":"a","class":"b\u0062"`, "bb"},
		{`"class":"b\u0062","class":"a"`, "a"},
		{`"class":"a","class":""`, "subject"},
		{`"class":"","class":"a"`, "a"},
		{`"class":"a","class":null`, "a"},
		{`"class":"a","class":7`, ""},
		{`"model":"m"`, "subject"},
	} {
		var b Batch
		d.Decode(Meta{Pool: "p", Class: "subject"}, []byte("{"+c.members+rest), limits, &b)
		switch {
		case c.want == "" && len(b.Refused) != 1:
			t.Errorf("%s is not refused", c.members)
		case c.want != "" && (len(b.Requests) != 1 || b.Requests[0].Class != c.want):
			t.Errorf("%s gives %+v, want class %q", c.members, b.Requests, c.want)
		}
	}
}

func TestWholeDigits(t *testing.T) {
	text := "123456789012345"
	want := int64(0)
	for n := range text {
		want = want*10 + int64(text[n]-'0')
		for _, tail := range []string{",", "}", ",\"next_member\":", "}           \n          "} {
			s := scanner{data: []byte(text[:n+1] + tail)}
			if got, ok := s.whole(); got != want || !ok || s.at != n+1 {
				t.Errorf("%q is read as %d, %v, up to %d", s.data, got, ok, s.at)
			}
		}
	}
}
