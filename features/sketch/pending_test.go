package sketch

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Values that wait are counted as if they had been added one after the other, whenever that is done.
func TestPending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, all [PendingSketches]Quantile
		p := new(Pending)
		p.Begin(nil)
		count := func() {
			p.Count(all[:])
			p.Clear()
			p.Begin(all[:])
		}
		for range rapid.IntRange(1, 8).Draw(t, "parts") {
			k := rapid.IntRange(0, PendingSketches-1).Draw(t, "sketch")
			for _, v := range append(values(t), math.NaN(), -1, 2*MaxValue) {
				one[k].Add(v)
				if !p.Add(k, v) {
					count()
				}
			}
			if rapid.Bool().Draw(t, "count") {
				count()
			}
		}
		count()
		for k := range one {
			if !one[k].Equal(&all[k]) || len(one[k].list) != len(all[k].list) || len(one[k].dense) != len(all[k].dense) {
				t.Fatal("values that waited are counted otherwise")
			}
		}
	})
}
