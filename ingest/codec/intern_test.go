package codec

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestNamesRemembersThousands(t *testing.T) {
	var n names
	all := make([][]byte, 30_000)
	for i := range all {
		all[i] = fmt.Appendf(nil, "class-%d", i)
	}
	pass := func() {
		for _, name := range all {
			if n.of(name) != string(name) {
				t.Fatalf("%s became another", name)
			}
		}
	}
	pass()
	if allocated := testing.AllocsPerRun(1, pass); allocated > 0 {
		t.Errorf("%g allocations for %d names that were seen", allocated, len(all))
	}
}

func TestNamesIsBounded(t *testing.T) {
	var n names
	for i := range 2*maxNames + 1 {
		if name := fmt.Appendf(nil, "%d", i); n.of(name) != string(name) {
			t.Fatalf("%s became another", name)
		}
		if len(n) > maxNames {
			t.Fatalf("%d names are remembered, the bound is %d", len(n), maxNames)
		}
	}
}

func TestNamesGivesWhatItGot(t *testing.T) {
	var n names
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SliceOfN(rapid.SampledFrom([]byte("\x00ab\xff")), 0, 40).Draw(t, "name")
		if got := n.of(name); got != string(name) {
			t.Fatalf("%q became %q", name, got)
		}
	})
}

func TestTextsStayAsTheyWere(t *testing.T) {
	var x texts
	var got []string
	for i := range 5000 {
		got = append(got, x.of(fmt.Appendf(nil, "id-%d", i)))
	}
	got = append(got, x.of([]byte(strings.Repeat("x", 2*textChunk))), x.of(nil))
	for i, s := range got[:5000] {
		if want := fmt.Sprint("id-", i); s != want {
			t.Fatalf("%d: %q, want %q", i, s, want)
		}
	}
	if len(got[5000]) != 2*textChunk || got[5001] != "" {
		t.Errorf("lengths %d and %d", len(got[5000]), len(got[5001]))
	}
}

// TestBytesEightAtATime compares with what looks at one byte after the other.
func TestBytesEightAtATime(t *testing.T) {
	odd := rapid.SampledFrom([]byte{0, 1, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', '~', 0x7f, 0x80, 0xc2, 0xff})
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.OneOf(rapid.ByteRange('a', 'z'), odd), 0, 40).Draw(t, "data")
		printable, end := true, len(data)
		for i, c := range data {
			printable = printable && ' ' <= c && c <= '~'
			if end == len(data) && (c < ' ' || c > '~' || c == '"' || c == '\\') {
				end = i
			}
		}
		if got := isPrintable(data); got != printable {
			t.Fatalf("%q: printable %v", data, got)
		}
		if got := plainEnd(data, 0); got != end {
			t.Fatalf("%q: plain to %d, want %d", data, got, end)
		}
		if printable && (!utf8.Valid(data) || hasControl(data)) {
			t.Fatalf("%q is printable and no label", data)
		}
	})
}
