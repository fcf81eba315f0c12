package prefetch

import (
	"slices"
	"testing"
)

// Whatever is asked for stays what it was, be it nothing.
func TestChangesNothing(t *testing.T) {
	var line [200]byte
	for i := range line {
		line[i] = byte(i)
	}
	want := line
	Of[[200]byte](nil)
	Of(&line)
	Slice[byte](nil)
	for from := range line {
		Slice(line[from:])
		Slice(line[from:from])
	}
	many := slices.Repeat([]uint64{7}, 1<<16)
	Slice(many)
	if line != want || slices.ContainsFunc(many, func(v uint64) bool { return v != 7 }) {
		t.Error("memory has changed")
	}
}
