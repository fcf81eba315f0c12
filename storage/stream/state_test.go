package stream

import (
	"slices"
	"testing"
	"time"
)

// TestAdvancedFirst: the order of snapshots does not depend on the order of the bucket. Sequences count within a stream,
// and the stream with the newest snapshot is first.
func TestAdvancedFirst(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	old, later := at(-2), at(-1)
	want := []State{{Name: "a", Created: old, Sequence: 20, At: at(1)}, {Name: "b", Created: old, Sequence: 10, At: at(3)}, {Name: "c", Created: later, Sequence: 5, At: at(2)}}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		var got []State
		for _, i := range order {
			got = append(got, want[i])
		}
		if advancedFirst(got); !slices.Equal(got, want) {
			t.Errorf("order %v becomes %v", order, got)
		}
	}
}
