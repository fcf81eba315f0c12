package codec

import (
	"fmt"
	"testing"

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

func TestNamesReturnsAnyBytes(t *testing.T) {
	var n names
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SliceOfN(rapid.SampledFrom([]byte("\x00ab\xff")), 0, 40).Draw(t, "name")
		if got := n.of(name); got != string(name) {
			t.Fatalf("%q became %q", name, got)
		}
	})
}
